"""Delegates a whole graph to one backend."""

from __future__ import annotations

from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind

from executorch_py.exir.backend.partitioner import (
    DelegationSpec,
    Partitioner,
    PartitionResult,
)
from executorch_py.exir.schema import CompileSpec


class AllNodePartitioner(Partitioner):
    """Tags every operator, parameter, buffer and constant."""

    def __init__(self, backend_id: str, compile_specs: list[CompileSpec]) -> None:
        super().__init__()
        self.delegation_spec = DelegationSpec(backend_id, compile_specs)

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        tag = self.delegation_spec.backend_id
        user_inputs = {
            spec.arg.name
            for spec in exported_program.graph_signature.input_specs
            if spec.kind is InputKind.USER_INPUT
        }
        for node in exported_program.graph.nodes:
            is_input = node.op == "placeholder" and node.name in user_inputs
            if not is_input and node.op != "output":
                node.meta["delegation_tag"] = tag
        return PartitionResult(exported_program, {tag: self.delegation_spec})
