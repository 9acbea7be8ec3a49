"""Programs of many cases, each a delegate, which makes exporting them cheap."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from executorch_py.exir import EdgeCompileConfig, EdgeProgramManager, to_edge
from executorch_py.exir.backend.canonical_partitioners.all_node_partitioner import (
    AllNodePartitioner,
)
from executorch_py.exir.backend.partitioner import DelegationSpec, Partitioner, PartitionResult
from executorch_py.exir.backend.tagging import tag_constant_data
from support.xnnpack_cases import Case, Inputs

_aten = torch.ops.aten
# Operators that the delegate computes whole and that are not decomposed.
KEPT = [
    _aten.linear.default,
    _aten.hardswish.default,
    _aten.silu.default,
    _aten.mish.default,
    _aten.hardsigmoid.default,
    _aten.prelu.default,
    _aten.max_pool2d.default,
    _aten.upsample_bilinear2d.vec,
    _aten.scaled_dot_product_attention.default,
    _aten.layer_norm.default,
    _aten.group_norm.default,
    _aten.pixel_shuffle.default,
    _aten.pixel_unshuffle.default,
    _aten.roll.default,
    _aten.relu6.default,
    _aten.glu.default,
]


class Group(nn.Module):
    """A module of all cases, each with its own inputs; it returns all results in order."""

    def __init__(self, cases: Sequence[Case]) -> None:
        super().__init__()
        self.cases = nn.ModuleList(case.module for case in cases)
        self.counts = [len(case.inputs[0]) for case in cases]

    def forward(self, inputs: list[torch.Tensor]) -> list[Any]:
        results: list[Any] = []
        start = 0
        for module, count in zip(self.cases, self.counts, strict=True):
            results.append(module(*inputs[start : start + count]))
            start += count
        return results


class EachCase(Partitioner):
    """A partitioner that tags the operators and constants of each case."""

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        tags: dict[str, DelegationSpec] = {}
        for node in exported_program.graph.nodes:
            if node.op == "call_function":
                tag = f"case_{_case_of(node)}"
                node.meta["delegation_tag"] = tag
                tags.setdefault(tag, DelegationSpec("XnnpackBackend", []))
        tag_constant_data(exported_program)
        return PartitionResult(exported_program, tags)


def _case_of(node: torch.fx.Node) -> int:
    for path, _ in node.meta.get("nn_module_stack", {}).values():
        parts = str(path).split(".")
        if parts[0] == "cases" and len(parts) > 1:
            return int(parts[1])
    if node.users:  # sizes that were read before the modules were called
        return _case_of(next(iter(node.users)))
    raise AssertionError(f"{node} belongs to no case: {node.meta}")


def flat_inputs(cases: Sequence[Case], i: int = 0) -> list[torch.Tensor]:
    """The i-th inputs of all cases; the last of those that have fewer."""
    return [x for case in cases for x in case.inputs[min(i, len(case.inputs) - 1)]]


def expected(case: Case, inputs: Inputs) -> list[torch.Tensor]:
    """The results of eager torch."""
    with torch.no_grad():
        return list(pytree.tree_leaves(case.module(*inputs)))


def lowered(cases: Sequence[Case]) -> EdgeProgramManager:
    """The lowered program of a group, with a delegate for each case."""
    dynamic = [spec for case in cases for spec in (case.dynamic or [None] * len(case.inputs[0]))]
    exported = torch.export.export(
        Group(cases),
        (flat_inputs(cases),),
        dynamic_shapes=(dynamic,) if any(case.dynamic for case in cases) else None,
    )
    config = EdgeCompileConfig(preserve_ops=KEPT, _check_ir_validity=False)
    return to_edge(exported, compile_config=config).to_backend(EachCase())


def lowered_whole(module: nn.Module, inputs: Inputs) -> EdgeProgramManager:
    """The lowered program of a module as one delegate."""
    config = EdgeCompileConfig(preserve_ops=KEPT, _check_ir_validity=False)
    manager = to_edge(torch.export.export(module, inputs), compile_config=config)
    return manager.to_backend(AllNodePartitioner("XnnpackBackend", []))
