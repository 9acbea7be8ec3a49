"""Partitioner of the reference delegate: the largest possible regions of supported nodes."""

from __future__ import annotations

from typing import Any

from torch import fx
from torch.export import ExportedProgram
from torch.fx.passes.operator_support import OperatorSupportBase

from executorch_py.backends.reference.support import is_supported
from executorch_py.exir.backend.canonical_partitioners.pattern_op_partitioner import (
    generate_grouped_partitions_from_list_of_nodes,
)
from executorch_py.exir.backend.partitioner import (
    DelegationSpec,
    Partitioner,
    PartitionResult,
)
from executorch_py.exir.backend.tagging import tag_constant_data
from executorch_py.exir.ir.graph_modules import graph_modules
from executorch_py.exir.schema import CompileSpec


class _Supported(OperatorSupportBase):
    def is_node_supported(self, submodules: Any, node: fx.Node) -> bool:
        return is_supported(node)


class ReferencePartitioner(Partitioner):
    """Delegates every fp32 add, sub, mul and relu whose operands have one shape.

    own_constants: moves parameters and constants into the delegate's named data; without it they
    stay in the program and become inputs of the delegate.
    """

    def __init__(
        self, own_constants: bool = False, compile_specs: list[CompileSpec] | None = None
    ) -> None:
        super().__init__()
        self._own_constants = own_constants
        self._spec_of_tags = DelegationSpec("ReferenceBackend", compile_specs or [])

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        tags: dict[str, DelegationSpec] = {}
        for gm in graph_modules(exported_program.graph_module):
            for partition in generate_grouped_partitions_from_list_of_nodes(
                gm, op_support=_Supported()
            ):
                tag = f"reference{len(tags)}"
                for node in partition.nodes:
                    node.meta["delegation_tag"] = tag
                tags[tag] = self._spec_of_tags
        if self._own_constants:
            tag_constant_data(exported_program)
        return PartitionResult(exported_program, tags)
