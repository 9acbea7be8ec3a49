"""Hadamard transforms, the gated delta rule and image tiles against their definitions in eager
torch."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import pytest
import torch
from support.op_driver import OpError, Out, assert_close, check_op, run_op

import_module("executorch_py.extension.llm.custom_ops.custom_ops")
import_module("executorch_py.extension.llm.custom_ops.op_tile_crop_aot")
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


def test_rows_of_other_sizes_are_refused() -> None:
    check_op(llama.fast_hadamard_transform.out, torch.zeros(2, 0))
    with pytest.raises(OpError, match="rows: expected a power of two or 28 times one, got 12"):
        run_op(
            "llama::fast_hadamard_transform.out",
            torch.zeros(2, 12),
            out=[Out(torch.float32, (2, 12))],
        )


def sequence(sizes: Sequence[int], channelwise: bool) -> tuple[torch.Tensor, ...]:
    batch, heads, steps, keys, width = sizes
    lines = (batch, heads, steps)
    return (
        values(*lines, keys),
        values(*lines, keys) * 0.4,
        values(*lines, width),
        torch.rand(*lines, *([keys] if channelwise else [])),
        torch.rand(lines),
        values(batch, heads, keys, width),
    )


@pytest.mark.parametrize("name", ["gated_delta_rule", "channelwise_gated_delta_rule"])
@pytest.mark.parametrize("channelwise", [False, True])
@pytest.mark.parametrize(
    "sizes", [(2, 3, 5, 4, 6), (1, 2, 9, 16, 130), (1, 1, 0, 2, 3), (0, 2, 3, 4, 5)], ids=str
)
def test_states_are_advanced(sizes: Any, channelwise: bool, name: str) -> None:
    torch.manual_seed(0)
    args = sequence(sizes, channelwise)
    expected = getattr(llama, name)(*args)
    for threads in (1, 3):
        out = [Out(e.dtype, e.shape) for e in expected]
        found = run_op(f"llama::{name}.out", *args, out=out, threads=threads)
        for ours, eager in zip(found, expected, strict=True):
            assert_close(ours, eager, 8)


def test_sizes_that_do_not_fit_are_refused() -> None:
    args = list(sequence((1, 2, 3, 4, 5), False))
    args[4] = torch.zeros(1, 2, 4)
    out = [Out(torch.float32, (1, 2, 3, 5)), Out(torch.float32, (1, 2, 4, 5))]
    with pytest.raises(OpError, match=r"beta: expected \[1, 2, 3\], got \[1, 2, 4\]"):
        run_op("llama::gated_delta_rule.out", *args, out=out)


@pytest.mark.parametrize("dtype", [torch.float32, torch.uint8], ids=str)
def test_images_are_cut_into_tiles(dtype: torch.dtype) -> None:
    x = torch.arange(3 * 8 * 12).reshape(3, 8, 12).to(dtype)
    check_op(torch.ops.preprocess.tile_crop.out, x, 4)
    check_op(torch.ops.preprocess.tile_crop.out, x.permute(2, 0, 1)[:8].contiguous(), 1)
    with pytest.raises(OpError, match="8 × 12 pixels do not divide into tiles of 5"):
        run_op("preprocess::tile_crop.out", x, 5, out=[Out(dtype, (1, 3, 5, 5))])
