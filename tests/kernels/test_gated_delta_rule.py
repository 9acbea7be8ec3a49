"""The gated delta rule against its definition in eager torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from support.op_driver import OpError, Out, assert_close, run_op

import executorch_py.extension.llm.custom_ops.custom_ops  # noqa: F401
from executorch_py.errors import InvalidArgument
from executorch_py.exir import to_edge
from executorch_py.exir.serialize.pte import deserialize_pte_binary, serialize_pte_binary
from executorch_py.runtime import Runtime

llama = torch.ops.llama


def values(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


def sequence(sizes: Sequence[int], channelwise: bool, group: int = 1) -> tuple[torch.Tensor, ...]:
    batch, heads, steps, keys, width = sizes
    lines = (batch, heads, steps)
    return (
        values(batch, heads * group, steps, keys),
        values(*lines, keys) * 0.4,
        values(*lines, width),
        torch.rand(*lines, *([keys] if channelwise else [])),
        torch.rand(lines),
        values(batch, heads, keys, width),
    )


@pytest.mark.parametrize("name", ["gated_delta_rule", "channelwise_gated_delta_rule"])
@pytest.mark.parametrize("channelwise", [False, True])
@pytest.mark.parametrize("group", [1, 2, 3])
@pytest.mark.parametrize(
    "sizes",
    [(2, 3, 5, 4, 6), (1, 2, 9, 16, 130), (1, 1, 0, 2, 3), (0, 2, 3, 4, 5), (1, 0, 2, 3, 4)],
    ids=str,
)
def test_states_are_advanced(sizes: Any, group: int, channelwise: bool, name: str) -> None:
    torch.manual_seed(0)
    args = sequence(sizes, channelwise, group)
    expected = getattr(llama, name)(*args)
    for threads in (1, 3):
        out = [Out(e.dtype, e.shape) for e in expected]
        found = run_op(f"llama::{name}.out", *args, out=out, threads=threads)
        for ours, eager in zip(found, expected, strict=True):
            assert_close(ours, eager, 8)


@pytest.mark.parametrize("channelwise", [False, True])
def test_the_queries_of_a_group_read_one_state(channelwise: bool) -> None:
    torch.manual_seed(0)
    query, *others = sequence((2, 2, 4, 5, 6), channelwise, group=3)
    assert query.shape == (2, 6, 4, 5)
    found, state = llama.gated_delta_rule(query, *others)
    repeated = [other.repeat_interleave(3, dim=1) for other in others]
    wanted, states = llama.gated_delta_rule(query, *repeated)
    torch.testing.assert_close(found, wanted)
    torch.testing.assert_close(state, states[:, ::3])


def test_sizes_that_do_not_fit_are_refused() -> None:
    args = list(sequence((1, 2, 3, 4, 5), False))
    args[4] = torch.zeros(1, 2, 4)
    out = [Out(torch.float32, (1, 2, 3, 5)), Out(torch.float32, (1, 2, 4, 5))]
    with pytest.raises(OpError, match=r"beta: expected \[1, 2, 3\], got \[1, 2, 4\]"):
        run_op("llama::gated_delta_rule.out", *args, out=out)
    args = list(sequence((1, 2, 3, 4, 5), False))
    args[0] = torch.zeros(1, 3, 3, 4)
    with pytest.raises(OpError, match="query: expected a multiple of the 2 heads of key, got 3"):
        run_op("llama::gated_delta_rule.out", *args, out=out)
    with pytest.raises(RuntimeError, match="query: expected a multiple of key's 2 heads, got 3"):
        llama.gated_delta_rule(*args)


def test_a_state_in_another_dim_order_is_refused() -> None:
    args = sequence((1, 2, 3, 4, 5), False)
    out = [Out(torch.float32, (1, 2, 3, 5)), Out(torch.float32, (1, 2, 4, 5), (0, 1, 3, 2))]
    words = r"final_state_out: expected the contiguous dim order, got \[0, 1, 3, 2\]"
    with pytest.raises(OpError, match=words):
        run_op("llama::gated_delta_rule.out", *args, out=out)


# ---- overlapping memory

APART = "final_state_out: expected memory apart from initial_state"


def test_eager_refuses_a_state_that_is_written_over_the_first_one() -> None:
    args = sequence((1, 1, 3, 2, 3), False)
    state = args[-1]
    shifted = state.as_strided((1, 1, 1, 5), (5, 5, 5, 1), storage_offset=1)
    for final in (state, shifted):
        with pytest.raises(RuntimeError, match=APART):
            llama.gated_delta_rule.out(*args, out=torch.empty(1), final_state_out=final)
    first, final = torch.stack([state, state]).unbind()  # neighbours do not overlap
    found = llama.gated_delta_rule.out(*args[:-1], first, out=torch.empty(1), final_state_out=final)
    torch.testing.assert_close(list(found), list(llama.gated_delta_rule(*args)))


class Rule(torch.nn.Module):
    def forward(self, *args: torch.Tensor) -> Any:
        return llama.gated_delta_rule(*args)


def test_the_kernel_refuses_a_state_that_is_written_over_the_first_one() -> None:
    args = sequence((1, 1, 3, 2, 3), False, group=2)
    program = to_edge(torch.export.export(Rule(), args)).to_executorch()
    found = Runtime.get().load_program(program.buffer).load_method("forward").execute(args)
    torch.testing.assert_close(list(found), list(Rule()(*args)))
    file = deserialize_pte_binary(program.buffer)
    plan = file.program.execution_plan[0]
    operands = plan.chains[0].instructions[0].instr_args.args
    first, final = (plan.values[operands[i]].val for i in (5, 7))
    object.__setattr__(final, "allocation_info", first.allocation_info)
    damaged = Runtime.get().load_program(bytes(serialize_pte_binary(file)))
    with pytest.raises(InvalidArgument, match=APART):
        damaged.load_method("forward").execute(args)
