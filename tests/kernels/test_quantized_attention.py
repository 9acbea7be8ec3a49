"""Attention over int8 caches, compared with attention over the dequantized caches."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest
import torch
from support.op_driver import OpError, Out, assert_close, run_op

import_module("executorch_py.extension.llm.custom_ops.custom_ops")
llama = torch.ops.llama
NAME = "llama::custom_quantized_sdpa.out"


def codes(*shape: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(sum(shape))
    rows = (*shape[:-1], 1)
    return (
        torch.randint(-128, 128, shape, generator=generator).to(torch.int8),
        torch.randint(-20, 20, rows, generator=generator).to(torch.int8),
        torch.rand(rows, generator=generator) * 0.01 + 0.002,
    )


@pytest.mark.parametrize("heads_first", [False, True])
@pytest.mark.parametrize("keys", [7, 300])
@pytest.mark.parametrize(("heads", "shared", "dim"), [(4, 4, 8), (6, 2, 20), (2, 1, 260)])
def test_attention_over_caches_of_bytes_equals_eager(
    heads: int, shared: int, dim: int, keys: int, heads_first: bool
) -> None:
    def shape(positions: int, n: int) -> tuple[int, ...]:
        return (2, n, positions, dim) if heads_first else (2, positions, n, dim)

    queries, start = 3, keys - 5
    q, k, v = (
        codes(*shape(queries, heads)),
        codes(*shape(keys, shared)),
        codes(*shape(keys, shared)),
    )
    mask = torch.rand(queries, keys) > 0.3
    mask[:, 0] = True
    for rest in ((None, 0.0, True, None), (mask, 0.0, False, 0.3), (None, 0.0, False, None)):
        args: tuple[Any, ...] = (q[0], k[0], v[0], start, *rest)
        args += (q[1], q[2], k[1], k[2], v[1], v[2], heads_first)
        expected = llama.custom_quantized_sdpa(*args)
        for threads in (1, 3):
            out = [Out(torch.float32, expected.shape)]
            assert_close(run_op(NAME, *args, out=out, threads=threads)[0], expected, 16)


def test_queries_may_be_floats() -> None:
    k, v = codes(1, 9, 2, 8), codes(1, 9, 2, 8)
    args: tuple[Any, ...] = (torch.randn(1, 1, 2, 8), k[0], v[0], 4, None, 0.0, True, None)
    args += (None, None, k[1], k[2], v[1], v[2], False)
    expected = llama.custom_quantized_sdpa(*args)
    out = [Out(torch.float32, expected.shape)]
    assert_close(run_op(NAME, *args, out=out)[0], expected, 16)


def test_numbers_that_do_not_fit_the_rows_are_refused() -> None:
    q = codes(1, 1, 2, 8)
    args = (q[0], q[0], q[0], 0, None, 0.0, True, None, q[1], q[2], q[1], q[2])
    with pytest.raises(
        OpError, match=r"argument 2: zero points: .* shape \[1, 1, 2, 1\], .*, got i8\[1, 1, 1, 1\]"
    ):
        run_op(NAME, *args, q[1][:, :, :1], q[2], False, out=[Out(torch.float32, (1, 1, 2, 8))])
    with pytest.raises(OpError, match=r"argument 2: scales: .* one for each row, got c64\[1, 1, 2"):
        wrong = q[2].to(torch.complex64)
        run_op(NAME, *args, q[1], wrong, False, out=[Out(torch.float32, (1, 1, 2, 8))])
    with pytest.raises(
        OpError, match=r"argument 2: expected rank 4 and f32, or i8 .*, got i8 of rank 4"
    ):
        run_op(NAME, *args, None, None, False, out=[Out(torch.float32, (1, 1, 2, 8))])
