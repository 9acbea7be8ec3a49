"""The plan verifier: sound plans pass, each kind of damage is found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import fx, nn

from executorch_py.exir.error import InternalError
from executorch_py.exir.memory.verify import PlanVerifier
from executorch_py.exir.memory_planning import (
    MemoryPlanningAlgorithmSuite,
    Verifier,
    best,
    greedy,
    naive,
)
from executorch_py.exir.passes.memory_planning_pass import MemoryPlanningPass
from executorch_py.exir.program.config import ExecutorchBackendConfig
from executorch_py.exir.tensor import TensorSpec


class Chain(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (x @ y).relu() @ x + torch.cat([x, y]).sum(0)


INPUTS = (torch.randn(4, 4), torch.randn(4, 4))


def verify(program: Any) -> int:
    sizes = program.graph_module.meta["non_const_buffer_sizes"]
    return PlanVerifier(program.graph_module, sizes, set()).check()


def planned_specs(program: Any) -> list[Any]:
    specs = [node.meta.get("spec") for node in program.graph_module.graph.nodes]
    return [s for s in specs if getattr(s, "mem_id", None) is not None]


def test_a_plan_of_the_planner_is_found_sound(lower: Callable[..., Any]) -> None:
    assert verify(lower(Chain(), INPUTS)) >= 6


def test_two_live_tensors_in_one_place_are_named(lower: Callable[..., Any]) -> None:
    program = lower(Chain(), INPUTS)
    for spec in planned_specs(program):
        spec.mem_offset = 0
    with pytest.raises(InternalError, match=r"overlaps .* in memory 1"):
        verify(program)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: setattr(s, "mem_offset", s.mem_offset + 8), "not a multiple of 16"),
        (lambda s: setattr(s, "mem_offset", 1 << 20), "past the"),
        (lambda s: setattr(s, "mem_offset", None), "no offset"),
        (lambda s: setattr(s, "mem_id", 7), "does not exist"),
    ],
)
def test_a_place_outside_the_rules_is_refused(
    lower: Callable[..., Any], change: Callable[[Any], None], message: str
) -> None:
    program = lower(Chain(), INPUTS)
    change(planned_specs(program)[0])
    with pytest.raises(InternalError, match=message):
        verify(program)


def test_naive_keeps_everything_apart_and_greedy_does_not(lower: Callable[..., Any]) -> None:
    def arena(algo: Any) -> int:
        planner = MemoryPlanningPass(MemoryPlanningAlgorithmSuite([algo]))
        program = lower(Chain(), INPUTS, ExecutorchBackendConfig(memory_planning_pass=planner))
        return int(program.graph_module.meta["non_const_buffer_sizes"][1])

    assert arena(greedy) < arena(naive)


def test_a_bare_algorithm_is_accepted_as_upstream_scripts_pass_it(
    lower: Callable[..., Any],
) -> None:
    config = ExecutorchBackendConfig(memory_planning_pass=MemoryPlanningPass(greedy))
    assert verify(lower(Chain(), INPUTS, config)) >= 6


def test_unplanned_inputs_and_outputs_have_no_place(lower: Callable[..., Any]) -> None:
    planner = MemoryPlanningPass(alloc_graph_input=False, alloc_graph_output=False)
    program = lower(Chain(), INPUTS, ExecutorchBackendConfig(memory_planning_pass=planner))
    nodes = list(program.graph_module.graph.nodes)
    assert all(n.meta["spec"].mem_id is None for n in nodes if n.op == "placeholder")
    assert nodes[-1].meta["spec"][0].mem_id is None


@pytest.mark.parametrize("algorithm", [naive, greedy, best])
def test_an_algorithm_places_views_of_views_inside_their_base(algorithm: Any) -> None:
    base, view, inner, other = (TensorSpec(torch.uint8, [n]) for n in (16, 6, 2, 16))
    for spec in (base, view, inner, other):
        spec.lifetime = [0, 1]
    view.storage_base, view.storage_base_offset = base, 8
    inner.storage_base, inner.storage_base_offset = view, 4
    specs = [inner, other, view, base]
    sizes = MemoryPlanningAlgorithmSuite([algorithm])(
        1, specs, fx.GraphModule({}, fx.Graph()), None
    )
    assert sizes == [0, 32]
    start = base.mem_offset
    assert start is not None
    assert (view.mem_offset, inner.mem_offset) == (start + 8, start + 12)
    assert {(s.mem_id, s.mem_obj_id) for s in (view, inner)} == {(base.mem_id, base.mem_obj_id)}


def test_a_graph_that_was_not_given_sizes_of_memories_is_checked_without_them(
    lower: Callable[..., Any],
) -> None:
    program = lower(Chain(), INPUTS)
    del program.graph_module.meta["non_const_buffer_sizes"]
    verifier = Verifier(program.graph_module, True, True, True, program.graph_signature)
    assert verifier.verify_storage_reuse() > 0
    for spec in planned_specs(program):
        spec.mem_offset = 0
    with pytest.raises(InternalError, match="overlaps"):
        verifier.verify_storage_reuse()
