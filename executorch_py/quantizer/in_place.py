"""Calls that write to their operand in graphs to be quantized.

Quantization copies values, so that a write to a copy is lost to the other readers of the memory.
Writes whose memory nothing else reads later become calls with a new result. All others stay, and
the values in that memory stay float: slices that are assigned, inputs and buffers that are changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import fx
from torch._ops import OpOverload

from executorch_py.exir.ir.op_traits import mutated_positions, op_overload
from executorch_py.quantizer.annotate import LEFT_FLOAT, is_float, mark

aten = torch.ops.aten
WHY = "it reads or writes memory that another call changes in place"

# The same calculations with a new result.
_NEW_RESULT: dict[Any, OpOverload] = {
    aten.add_.Tensor: aten.add.Tensor,
    aten.dropout_.default: aten.dropout.default,
    aten.hardtanh_.default: aten.hardtanh.default,
    aten.mul_.Tensor: aten.mul.Tensor,
    aten.relu6_.default: aten.relu6.default,
    aten.relu_.default: aten.relu.default,
    aten.sub_.Tensor: aten.sub.Tensor,
}
# These may return operands themselves, which their schemas do not say.
_MAY_RETURN_OPERAND = frozenset(
    {
        aten.alpha_dropout.default,
        aten.broadcast_tensors.default,
        aten.dropout.default,
        aten.feature_alpha_dropout.default,
        aten.feature_dropout.default,
        aten.type_as.default,
    }
)


def keep_writes(model: fx.GraphModule) -> None:
    """Replace the writes that can be replaced; mark the values that other writes touch as float."""
    graph = model.graph
    writes = [node for node in graph.nodes if writes_in_place(node)]
    if not writes:
        return
    memory = _Memory(graph)
    for write in writes:
        # Values of that memory that are not views of the result of the write.
        before = memory.sharing(write.args[0], write)
        after = [n for n in memory.readers(before) if memory.position[n] > memory.position[write]]
        is_outside = any(n.op in ("placeholder", "get_attr") for n in before)
        if not after and not is_outside and write.target in _NEW_RESULT and _is_float(write):
            write.target = _NEW_RESULT[write.target]
            memory.separate(write)
        elif after or is_outside:
            for node in (*before, write, *after):
                if node.op == "call_function":
                    mark(node)
                    node.meta[LEFT_FLOAT] = WHY
    model.recompile()


class _Memory:
    """The values of a graph that may share memory."""

    def __init__(self, graph: fx.Graph) -> None:
        self.position = {node: i for i, node in enumerate(graph.nodes)}
        self._shared: dict[fx.Node, set[fx.Node]] = {node: set() for node in graph.nodes}
        first: dict[str, fx.Node] = {}
        for node in graph.nodes:
            same = [first.setdefault(str(node.target), node)] if node.op == "get_attr" else []
            for other in (*same, *_operands_shared(node)):
                self._shared[node].add(other)
                self._shared[other].add(node)

    def separate(self, node: fx.Node) -> None:
        """Note that a call has a new result; its readers may still share that."""
        for operand in node.all_input_nodes:
            self._shared[node].discard(operand)
            self._shared[operand].discard(node)

    def sharing(self, node: fx.Node, without: fx.Node) -> list[fx.Node]:
        """The values that may share a value's memory otherwise than through one call."""
        found, stack = {node: None}, [node]
        while stack:
            for other in self._shared[stack.pop()]:
                if other is not without and other not in found:
                    found[other] = None
                    stack.append(other)
        return list(found)

    def readers(self, nodes: Iterable[fx.Node]) -> list[fx.Node]:
        return list(dict.fromkeys(user for node in nodes for user in node.users))


def writes_in_place(node: fx.Node) -> bool:
    """Whether a call writes to its first operand."""
    op = op_overload(node.target) if node.op == "call_function" else None
    if op is None or not node.args or not isinstance(node.args[0], fx.Node):
        return False
    return 0 in mutated_positions(op)


def _operands_shared(node: fx.Node) -> Iterator[fx.Node]:
    """The operands whose memory a result may share: all of them, for calls without a schema."""
    if node.op != "call_function":
        return
    op = op_overload(node.target)
    if op is None or op in _MAY_RETURN_OPERAND:
        yield from node.all_input_nodes
        return
    given = dict(zip((a.name for a in op._schema.arguments), node.args, strict=False))
    given |= node.kwargs
    for argument in op._schema.arguments:
        value = given.get(argument.name)
        if argument.alias_info is not None:
            values = value if isinstance(value, (list, tuple)) else [value]
            yield from (n for n in values if isinstance(n, fx.Node))


def _is_float(write: fx.Node) -> bool:
    """Whether all operands are float32: a new result then has the type of the first."""
    return all(is_float(node) for node in write.all_input_nodes)


__all__ = ["keep_writes", "writes_in_place"]
