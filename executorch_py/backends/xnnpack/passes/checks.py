"""Checks of the passes over XNNPACK nodes: the truth of each answer, and a well-formed graph.

A snapshot is one line of text for each value and node, in order. A pass must return True exactly if
these lines changed, because dead nodes are removed only then. A graph is well-formed if each value
is made once, before it is read, by the node that it names as its producer, each output is a value
of its own, and no node is dead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import torch

from executorch_py.backends.xnnpack.payload.graph import (
    Graph,
    Node,
    PerChannel,
    PerGroup,
    Value,
    text_of,
)
from executorch_py.exir.error import InternalError
from executorch_py.exir.passes.checks import check_truth

GraphRewrite: TypeAlias = Callable[[Graph], bool]


def run_checked(passes: Sequence[GraphRewrite], graph: Graph) -> None:
    """Run the passes, removing dead nodes after each that changed the graph, and check each."""
    tensors = _Tensors()
    check_graph(graph, "the graph given to the passes")
    before = snapshot(graph, tensors)
    for rewrite in passes:
        name = f"pass {rewrite.__name__}"
        modified = rewrite(graph)
        after = snapshot(graph, tensors)
        check_truth(name, modified, before, after)
        if modified and graph.drop_dead():
            after = snapshot(graph, tensors)
        check_graph(graph, f"after {name}")
        before = after


class _Tensors:
    """Numbers of tensors, which are kept alive so that no other takes the place of one."""

    def __init__(self) -> None:
        self._numbers: dict[int, tuple[int, torch.Tensor]] = {}

    def text(self, tensor: torch.Tensor | None) -> str:
        if tensor is None:
            return "-"
        number, _ = self._numbers.setdefault(id(tensor), (len(self._numbers), tensor))
        return f"tensor {number}"


# ---- snapshots


def snapshot(graph: Graph, tensors: _Tensors | None = None) -> list[str]:
    """Lines that are equal exactly if the graphs are; values are numbered in order."""
    return list(_lines_of(graph, tensors or _Tensors()))


def _lines_of(graph: Graph, tensors: _Tensors) -> Iterator[str]:
    numbers: dict[Value, int] = {}
    for title, values in (("input", graph.inputs), ("output", graph.outputs)):
        for value in values:
            numbers.setdefault(value, len(numbers))
            yield f"{title} {numbers[value]} {_value(value, tensors)}"
    for node in graph.nodes:
        for one in (*node.inputs, *node.outputs):
            if one is not None and one not in numbers:
                numbers[one] = len(numbers)
                yield f"value {numbers[one]} {_value(one, tensors)}"
        inputs = [None if value is None else numbers[value] for value in node.inputs]
        outputs = [numbers[value] for value in node.outputs]
        yield f"{outputs} = {node.kind.name} {inputs} {_settings(node)}"


def _value(value: Value, tensors: _Tensors) -> str:
    how: Any = value.quantization
    if isinstance(how, PerChannel):
        how = f"scales {tensors.text(how.scales)} of dimension {how.axis}"
    elif isinstance(how, PerGroup):
        how = f"scales {tensors.text(how.scales)} of groups of {how.group_size}"
    return (
        f"{value.name} {value.datatype.name} {text_of(value.shape)} {value.layout.name} "
        f"order={value.dim_order} quantized={how} data={tensors.text(value.data)} "
        f"weight={value.is_weight} file={value.external_tag}"
    )


def _settings(node: Node) -> str:
    attributes = dict(sorted(node.attributes.items()))
    origin = None if node.origin is None else node.origin.name
    return f"{attributes} flags={node.flags} clamp={node.clamp} needs={node.needs.name} of {origin}"


# ---- well-formed graphs


def check_graph(graph: Graph, title: str) -> None:
    """Refuse a graph that is not well-formed."""
    problems = list(_problems(graph))
    if problems:
        raise InternalError(f"{title}: " + "\n".join(problems[:5]))


def _problems(graph: Graph) -> Iterator[str]:
    known = set(graph.inputs)
    for node in graph.nodes:
        for value in node.inputs:
            if value is not None and not value.is_constant and value not in known:
                yield f"{node.kind.name}: expected '{value.name}' before it, got it later or never"
        for value in node.outputs:
            if value in known:
                yield f"{node.kind.name}: expected one producer of '{value.name}', got two"
            if value.producer is not node:
                other = "none" if value.producer is None else value.producer.kind.name
                yield f"{node.kind.name}: expected it as producer of '{value.name}', got {other}"
            known.add(value)
    for value in graph.outputs:
        if value not in known and not value.is_constant:
            yield f"expected a producer of the output '{value.name}', got none"
    alive = set(graph.outputs)
    if len(alive) < len(graph.outputs):
        yield f"expected {len(graph.outputs)} values as outputs, got {len(alive)}"
    for node in reversed(graph.nodes):
        if alive.isdisjoint(node.outputs):
            yield f"{node.kind.name}: expected a reader of '{node.output.name}', got none"
        alive.update(value for value in node.inputs if value is not None)
