"""Output names of the signature follow the nodes that produce the results in the end."""

from __future__ import annotations

from torch.export import ExportedProgram

from executorch_py.exir.ir.signature import name_outputs
from executorch_py.exir.passes.base import Contract, Pass


class NameOutputs(Pass):
    """Write the names of the nodes that a program returns into its signature."""

    contract = Contract()

    def run(self, program: ExportedProgram) -> bool:
        before = program.graph_signature.output_specs
        name_outputs(program)
        return bool(before != program.graph_signature.output_specs)
