"""Gives each user of a shared constant a placeholder of its own, so that partitions can own their
data.

Only the graph grows: the copies name the same tensor, whose bytes are stored once where content
is shared. Knows tags and signatures, no backend.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import fx
from torch.export import ExportedProgram
from torch.export.graph_signature import InputSpec, TensorArgument


def duplicate_constant_node(exported_program: ExportedProgram, candidate_node: str) -> set[str]:
    """One copy of the placeholder per user but the first; returns the names of the copies."""
    node = _placeholder(exported_program, candidate_node)
    if node is None:
        return set()
    users = list(node.users)
    return {_copy_for(exported_program, node, [user]).name for user in users[1:]}


def duplicate_shared_constants(ep: ExportedProgram, tags: Sequence[str]) -> None:
    """Split constants that carry one of `tags` and have users elsewhere: one copy per other tag."""
    for node in [n for n in ep.graph.nodes if n.op == "placeholder"]:
        own = node.meta.get("delegation_tag")
        if own not in tags:
            continue
        groups: dict[str | None, list[fx.Node]] = {}
        for user in node.users:
            if user.op != "output":
                groups.setdefault(user.meta.get("delegation_tag"), []).append(user)
        for tag, users in groups.items():
            if tag == own:
                continue
            if node.meta.get("no_copy"):
                raise RuntimeError(
                    f"constant data node ({node}) is tagged with ({own}) but has user ({users[0]}) "
                    f"which has tag ({tag}); it is marked no_copy"
                )
            _copy_for(ep, node, users).meta["delegation_tag"] = tag


def _placeholder(ep: ExportedProgram, name: str) -> fx.Node | None:
    found = (n for n in ep.graph.nodes if n.op == "placeholder" and n.name == name)
    return next(found, None)


def _copy_for(ep: ExportedProgram, node: fx.Node, users: Sequence[fx.Node]) -> fx.Node:
    """A second placeholder for the same data, before the first, used by `users`."""
    specs = ep.graph_signature.input_specs
    position = next(i for i, spec in enumerate(specs) if spec.arg.name == node.name)
    spec, number = specs[position], 0
    while f"{spec.target}_copy_{number}" in {s.target for s in specs}:
        number += 1
    fqn = f"{spec.target}_copy_{number}"
    with ep.graph.inserting_before(node):
        copied = ep.graph.placeholder(f"{node.name}_copy_{number}")
    copied.meta = dict(node.meta)
    for user in users:
        user.replace_input_with(node, copied)
    target = str(spec.target)
    table = ep.state_dict if target in ep.state_dict else ep.constants
    table[fqn] = table[target]
    new = InputSpec(spec.kind, TensorArgument(copied.name), fqn, persistent=spec.persistent)
    specs.insert(position, new)
    ep.graph_module.recompile()
    return copied
