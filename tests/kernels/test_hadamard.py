"""Hadamard transforms against their definition in eager torch."""

from __future__ import annotations

import pytest
import torch
from support.op_driver import OpError, Out, assert_close, check_op, run_op

import executorch_py.extension.llm.custom_ops.custom_ops  # noqa: F401

llama = torch.ops.llama


def values(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16], ids=str
)
@pytest.mark.parametrize("n", [1, 2, 64, 28, 112, 896, 4096])
def test_rows_of_every_size_are_mixed(n: int, dtype: torch.dtype) -> None:
    x = values(3, 2, n).to(dtype)
    check_op(llama.fast_hadamard_transform.out, x, scale=8)
    if n == 64 and dtype.itemsize >= 4:
        check_op(llama.fast_hadamard_transform.out, x.transpose(0, 1), scale=8)
        check_op(llama.fast_hadamard_transform.out, values(n, n).to(dtype).t(), scale=8)
        square = run_op("llama::fast_hadamard_transform.out", x, out=[Out(dtype, x.shape)])[0]
        again = run_op("llama::fast_hadamard_transform.out", square, out=[Out(dtype, x.shape)])[0]
        assert_close(again, x, 16)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32], ids=str)
def test_rows_that_are_not_mixed_in_place_may_be_long(dtype: torch.dtype) -> None:
    x = values(5, 32768).to(dtype)
    check_op(llama.fast_hadamard_transform.out, x, scale=8)
    check_op(llama.fast_hadamard_transform.out, x.t().contiguous().t(), scale=8, out_order=(1, 0))


def test_rows_of_other_sizes_are_refused() -> None:
    check_op(llama.fast_hadamard_transform.out, torch.zeros(2, 0))
    with pytest.raises(OpError, match="rows: expected a power of two or 28 times one, got 12"):
        run_op(
            "llama::fast_hadamard_transform.out",
            torch.zeros(2, 12),
            out=[Out(torch.float32, (2, 12))],
        )
