"""The gated delta rule against its definition in eager torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from support.op_driver import OpError, Out, assert_close, run_op

import executorch_py.extension.llm.custom_ops.custom_ops  # noqa: F401

llama = torch.ops.llama


def values(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


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
