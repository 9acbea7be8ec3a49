"""Names of a program's inputs and outputs, in the graph and in the signature."""

from __future__ import annotations

import builtins
from itertools import count

from torch.export import ExportedProgram

from executorch_py.exir.ir.graph import placeholders
from executorch_py.exir.ir.signature import updated_signature
from executorch_py.exir.passes.base import Contract, Pass


class RenameBuiltins(Pass):
    """Rename inputs that shadow Python builtins (`input`): a copy of a graph renames them anyway.

    The signature follows in NameSignature.
    """

    contract = Contract()

    def run(self, program: ExportedProgram) -> bool:
        shadowing = [n for n in placeholders(program.graph) if hasattr(builtins, n.name)]
        taken = {node.name for node in program.graph.nodes}
        for node in shadowing:
            name = next(s for i in count(1) if (s := f"{node.name}_{i}") not in taken)
            taken.add(name)
            node._rename(name)
            node.target = node.name
        return bool(shadowing)


class NameSignature(Pass):
    """Give inputs and outputs of the signature the names that their nodes have."""

    contract = Contract()

    def run(self, program: ExportedProgram) -> bool:
        before = program.graph_signature
        program._graph_signature = updated_signature(before, program.graph_module)
        return bool(before != program.graph_signature)
