"""AddMulPartitionerDemo: the partitioner of upstream's tutorials, add and mm to the demo backend.

This partitioner is the shortest example: an operator filter, partitions of adjacent nodes, one
tag per partition, bodies of control flow included.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import fx
from torch.export import ExportedProgram
from torch.fx.passes.operator_support import OperatorSupportBase, any_chain

from executorch_py.exir.backend.canonical_partitioners.pattern_op_partitioner import (
    generate_pattern_op_partitions,
)
from executorch_py.exir.backend.partitioner import DelegationSpec, Partitioner, PartitionResult
from executorch_py.exir.dialects.edge_ops import ops as exir_ops
from executorch_py.exir.ir.graph_modules import get_control_flow_submodules
from executorch_py.exir.schema import CompileSpec
from executorch_py.testing.backends.backend_with_compiler_demo import BackendWithCompilerDemo

__all__ = ["AddMulPartitionerDemo", "AddOperatorSupport", "MatmulOperatorSupport"]


class AddOperatorSupport(OperatorSupportBase):
    """Support for the addition of two tensors."""

    def is_node_supported(self, submodules: Mapping[str, torch.nn.Module], node: fx.Node) -> bool:
        return bool(node.op == "call_function" and node.target == exir_ops.edge.aten.add.Tensor)


class MatmulOperatorSupport(OperatorSupportBase):
    """Support for the product of two matrices."""

    def is_node_supported(self, submodules: Mapping[str, torch.nn.Module], node: fx.Node) -> bool:
        return bool(node.op == "call_function" and node.target == exir_ops.edge.aten.mm.default)


class AddMulPartitionerDemo(Partitioner):
    """Delegates every add and every mm to BackendWithCompilerDemo."""

    def __init__(self) -> None:
        super().__init__()
        self.op_support = any_chain(AddOperatorSupport(), MatmulOperatorSupport())
        self.delegation_spec = DelegationSpec(
            BackendWithCompilerDemo.__name__, [CompileSpec("max_value", bytes([4]))]
        )

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        tags = self._tag(exported_program.graph_module)
        return PartitionResult(exported_program, tags)

    def _tag(self, gm: fx.GraphModule) -> dict[str, DelegationSpec]:
        tags = {}
        for partition in generate_pattern_op_partitions(gm, op_support=self.op_support):
            tag = f"tag{partition.id}"
            tags[tag] = self.delegation_spec
            for node in partition.nodes:
                node.meta["delegation_tag"] = tag
        for _, body, _ in get_control_flow_submodules(gm):
            tags.update(self._tag(body))
        return tags
