"""Adding and dropping constants of an exported program: placeholder, signature and value together.

Keeps the three in step, in the order the signature demands (constants before user inputs). Names
are derived from the node that computed the value, so exports stay deterministic.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import torch
from torch import fx
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, InputSpec, TensorArgument

from executorch_py.exir.ir.graph import placeholders


def first_user_input(ep: ExportedProgram) -> fx.Node | None:
    """The first placeholder that the caller fills, or None when there is none."""
    names = {
        spec.arg.name
        for spec in ep.graph_signature.input_specs
        if spec.kind in (InputKind.USER_INPUT, InputKind.TOKEN)
    }
    return next((n for n in placeholders(ep.graph_module.graph) if n.name in names), None)


def add_constants(
    ep: ExportedProgram, values: list[tuple[str, torch.Tensor, object, dict[str, object]]]
) -> list[fx.Node]:
    """New constants (base name, tensor, example value, extra meta); returns their placeholders."""
    graph = ep.graph_module.graph
    anchor = first_user_input(ep)
    if anchor is None:
        anchor = next((n for n in graph.nodes if n.op != "placeholder"), None)
    specs = ep.graph_signature.input_specs
    at = sum(1 for s in specs if s.kind not in (InputKind.USER_INPUT, InputKind.TOKEN))
    made: list[fx.Node] = []
    new_specs: list[InputSpec] = []
    assert anchor is not None
    with graph.inserting_before(anchor):
        for base, tensor, example, meta in values:
            fqn = _fresh_name(ep, base)
            # A module's name may have characters that no name of Python has.
            node = graph.placeholder(re.sub(r"\W", "_", f"c_{fqn}"))
            node.meta.update({**meta, "val": example})
            ep.constants[fqn] = tensor
            new_specs.append(
                InputSpec(InputKind.CONSTANT_TENSOR, TensorArgument(name=node.name), fqn, None)
            )
            made.append(node)
    ep.graph_signature.input_specs = [*specs[:at], *new_specs, *specs[at:]]
    return made


def inherited_meta(sources: Iterable[fx.Node]) -> dict[str, object]:
    """Meta of a constant that is computed from others: the tag of their data file.

    Sources without a tag do not count; sources of different files give no tag.
    """
    custom = [source.meta.get("custom") or {} for source in sources]
    tags = {found["delegate_constant_tag"] for found in custom if "delegate_constant_tag" in found}
    tags.discard(None)
    return {"custom": {"delegate_constant_tag": tags.pop()}} if len(tags) == 1 else {}


def drop_unused_constants(ep: ExportedProgram, candidates: set[str]) -> None:
    """Remove those of the named constant placeholders that are unused, with their values."""
    graph = ep.graph_module.graph
    dead = {n.name for n in placeholders(graph) if n.name in candidates and not n.users}
    if not dead:
        return
    for node in placeholders(graph):
        if node.name in dead:
            graph.erase_node(node)
    kept, still_named = [], set()
    for spec in ep.graph_signature.input_specs:
        if spec.arg.name not in dead:
            kept.append(spec)
            still_named.add(spec.target)
    for spec in ep.graph_signature.input_specs:
        if spec.arg.name in dead and spec.target not in still_named:
            ep.state_dict.pop(spec.target, None)
            ep.constants.pop(spec.target, None)
    ep.graph_signature.input_specs = kept


def _fresh_name(ep: ExportedProgram, base: str) -> str:
    name, count = base, 0
    while name in ep.constants or name in ep.state_dict:
        count += 1
        name = f"{base}_{count}"
    return name
