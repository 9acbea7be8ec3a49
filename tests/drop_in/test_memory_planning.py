"""Planning algorithms and checks of plans, written as scripts for upstream write them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
import torch
from torch.export import export

import executorch_py.exir as exir
from executorch_py.exir.error import InternalError
from executorch_py.exir.memory_planning import (
    MemoryAlgoResult,
    MemoryPlanningAlgorithmSuite,
    SpecAllocResult,
    Verifier,
    apply_algo,
    collect_specs_from_nodes,
    filter_nodes,
    get_graph_input_tensors,
    get_graph_output_tensors,
    get_input_specs,
    get_node_tensor_specs,
    get_return_specs,
    update_all_tensors_lifetime,
    update_tensor_lifetime,
)
from executorch_py.exir.passes import MemoryPlanningPass
from executorch_py.exir.schema import DeviceType
from executorch_py.exir.tensor import TensorSpec


class Chain(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(4, 4))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        for _ in range(4):
            x = (x + y) @ self.weight
        return x


class Counter(torch.nn.Module):
    total: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total.add_(x)
        return self.total * x


INPUTS = (torch.randn(4, 4), torch.randn(4, 4))


def planned(model: torch.nn.Module, inputs: tuple[Any, ...], **options: Any) -> Any:
    config = exir.ExecutorchBackendConfig(memory_planning_pass=MemoryPlanningPass(**options))
    return exir.to_edge(export(model, inputs)).to_executorch(config).exported_program()


def everything_apart(
    alignment: int,
    specs: Iterable[TensorSpec],
    graph_module: torch.fx.GraphModule,
    graph_signature: Any,
    extra_padding: int = 0,
) -> MemoryAlgoResult:
    result, end = MemoryAlgoResult({}, [0, 0]), 0
    for spec in specs:
        spec.realign(alignment)
        result.spec_dict[spec] = SpecAllocResult(1, 0, end)
        end += spec.allocated_memory
    result.bufsizes = [0, end + extra_padding]
    return result


def test_specs_are_collected_as_the_arguments_say() -> None:
    program = planned(Chain(), INPUTS)
    nodes, signature = program.graph.nodes, program.graph_signature
    inputs = get_graph_input_tensors(nodes, signature)
    outputs = get_graph_output_tensors(nodes)
    assert len(inputs) == 3 and len(outputs) == 1
    every = list(collect_specs_from_nodes(nodes, signature, do_assertion=False))
    assert len(every) == len(set(every)) == 10, "two inputs and eight results; the weight is const"
    constants = collect_specs_from_nodes(nodes, ignore_const=False, do_assertion=False)
    assert len(list(constants)) == 11
    inner = collect_specs_from_nodes(
        nodes, signature, ignore_graph_input=True, ignore_graph_output=True
    )
    assert set(inner) == set(every) - inputs - outputs
    repeated = collect_specs_from_nodes(
        nodes, ignore_out_var_node=False, dedup=False, do_assertion=False
    )
    assert len(list(repeated)) == 10 + 8 + 1, "out variants and the output name them again"
    with pytest.raises(InternalError, match="ToOutVarPass"):
        list(collect_specs_from_nodes(nodes, ignore_out_var_node=False))


def test_results_that_are_no_tensors_have_no_specs() -> None:
    class WithNone(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, None]:
            return x + 1, None

    gm = planned(WithNone(), (torch.ones(4),)).graph_module
    assert {type(spec) for spec in get_return_specs(gm)} == {TensorSpec}
    assert {type(spec) for spec in get_input_specs(gm)} == {TensorSpec}


def test_written_buffers_are_not_inputs_and_can_be_left_out() -> None:
    program = planned(Counter(), (torch.ones(4),))
    nodes, signature = program.graph.nodes, program.graph_signature
    (x,) = get_graph_input_tensors(nodes, signature)
    state = {s for n in nodes if n.op == "placeholder" for s in get_node_tensor_specs(n)} - {x}
    assert len(state) == 1
    rest = collect_specs_from_nodes(nodes, signature, ignore_mutable_buffers=True)
    assert x in (specs := set(rest)) and not state & specs


def test_lifetimes_grow_to_the_nodes_that_name_a_tensor() -> None:
    program = planned(Counter(), (torch.ones(4),))
    nodes = list(program.graph.nodes)
    assert update_all_tensors_lifetime(program.graph_module, program.graph_signature)
    spec = TensorSpec(torch.float32, [4])
    update_tensor_lifetime(nodes[-1], spec, 7, 9)
    assert spec.lifetime == [7, 7]
    update_tensor_lifetime(nodes[-1], spec, 5, 9)
    assert spec.lifetime == [5, 7]
    buffer = next(n for n in nodes if n.name in program.graph_signature.inputs_to_buffers)
    update_tensor_lifetime(buffer, spec, 6, 9, program.graph_signature)
    assert spec.lifetime == [0, 9], "inputs live from the start, written buffers to the end"
    assert filter_nodes([nodes[0], [nodes[1], 2], {"k": nodes[2]}]) == nodes[:3]


@pytest.mark.parametrize(("algo", "shares"), [(everything_apart, False), (None, True)])
def test_the_verifier_counts_the_pairs_that_share_memory(algo: Any, shares: bool) -> None:
    suite = MemoryPlanningAlgorithmSuite(algo and [algo])
    program = planned(Chain(), INPUTS, memory_planning_algo=suite)
    verifier = Verifier(program.graph_module, True, True, True, program.graph_signature)
    assert (verifier.verify_storage_reuse() > 0) is shares
    assert verifier.verify_storage_reuse(True) == verifier.verify_storage_reuse()
    verifier.verify_graph_input_output()


def test_the_verifier_compares_two_tensors() -> None:
    a, b = TensorSpec(torch.float32, [4]), TensorSpec(torch.float32, [4])
    assert Verifier.has_overlap([1, 4], [4, 9]) and not Verifier.has_overlap([1, 3], [4, 9])
    assert not Verifier.has_overlap([5, 4], [0, 9]), "an empty interval overlaps nothing"
    with pytest.raises(InternalError, match="no lifetime"):
        Verifier.lifetime_overlap(a, b)
    a.lifetime, b.lifetime = [0, 3], [3, 5]
    assert Verifier.lifetime_overlap(a, b)
    a.mem_id, a.mem_offset, b.mem_id, b.mem_offset = 1, 0, 1, 16
    assert not Verifier.storage_overlap(a, b)
    b.mem_offset = 8
    assert Verifier.storage_overlap(a, b)
    assert Verifier.mem_obj_id_match(a, b) and not Verifier.mem_obj_id_match(a, b, False)
    a.mem_obj_id = 1
    assert not Verifier.mem_obj_id_match(a, b)
    b.mem_id = 2
    assert not Verifier.storage_overlap(a, b)


def test_a_plan_with_memories_per_device_needs_all_tensors_on_the_processor() -> None:
    program = planned(Chain(), INPUTS)
    gm, signature = program.graph_module, program.graph_signature
    suite = MemoryPlanningAlgorithmSuite()
    sizes = apply_algo(suite, gm, 16, signature, enable_non_cpu_memory_planning=True)
    assert sizes == gm.meta["non_const_buffer_sizes"]
    next(iter(get_graph_output_tensors(gm.graph.nodes))).device = DeviceType.CUDA
    with pytest.raises(NotImplementedError, match="on CUDA, and plans have memories on CPU only"):
        apply_algo(suite, gm, 16, signature, enable_non_cpu_memory_planning=True)
    assert apply_algo(suite, gm, 16, signature) == sizes
