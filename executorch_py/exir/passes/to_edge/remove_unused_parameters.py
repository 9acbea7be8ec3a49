"""Parameters that nothing reads leave the program: placeholder, signature entry and value."""

from __future__ import annotations

import copy

from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind

from executorch_py.exir.ir.graph import copy_graph_module, copy_program, placeholders
from executorch_py.exir.passes.base import Contract, Pass


class RemoveUnusedParameters(Pass):
    """Drop the parameters without readers; a graph that had some is replaced by a copy."""

    contract = Contract()

    def run(self, program: ExportedProgram) -> bool:
        if not _unused(program):
            return False
        # Nodes of a copy are named afresh, from the names that are left.
        program._graph_module = copy_graph_module(program.graph_module)
        _remove(program)
        return True


def remove_unused_parameters_pass(ep: ExportedProgram) -> ExportedProgram:
    """A copy of the program without its unread parameters; `ep` itself when all are read."""
    if not _unused(ep):
        return ep
    program = copy_program(ep)
    _remove(program)
    program.graph_module.recompile()
    return program


def _remove(program: ExportedProgram) -> None:
    unused = _unused(program)
    signature = copy.copy(program.graph_signature)
    signature.input_specs = [s for s in signature.input_specs if s.target not in unused]
    for node in placeholders(program.graph):
        if node.name in unused.values():
            program.graph.erase_node(node)
    for fqn in unused:
        program._state_dict.pop(fqn, None)
    program._graph_signature = signature


def _unused(ep: ExportedProgram) -> dict[str, str]:
    """Fully qualified name -> placeholder name of each parameter without readers."""
    nodes = {node.name: node for node in placeholders(ep.graph)}
    return {
        spec.target: spec.arg.name
        for spec in ep.graph_signature.input_specs
        if spec.kind is InputKind.PARAMETER
        and spec.target is not None
        and not nodes[spec.arg.name].users
    }
