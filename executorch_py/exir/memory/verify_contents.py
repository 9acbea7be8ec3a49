"""Independent check that tensors which share memory still hold the values that readers expect.

The lowered graph is simulated: every byte of every memory has a token of the last write to it,
every value has the tokens of the writes that made it, and each read compares the two. This finds a
view that is read after a write to its base, overlapping parts, a result written over an operand
that the kernel still reads, and a lifetime that is too short, in the output of any pass or planner.
Branches are simulated one after another from the same state, bodies of loops twice. Relies on the
offsets in specs alone; shares no code with the passes that let tensors share memory.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import fx
from torch.utils import _pytree as pytree

from executorch_py.exir import memory
from executorch_py.exir.error import InternalError
from executorch_py.exir.ir.inplace_rules import may_overwrite
from executorch_py.exir.ir.op_traits import higher_order_name, op_key, op_overload
from executorch_py.exir.ir.tensor_spec import TensorSpec

_Tokens = npt.NDArray[np.int64]
_Space = tuple[str, int]
_UNKNOWN = -1


@dataclass
class _Content:
    """A value: its position in cells of its memory, and the tokens of the writes that made it."""

    space: _Space
    low: int
    tokens: _Tokens

    @property
    def high(self) -> int:
        return self.low + len(self.tokens)


@dataclass
class _Operand:
    """A value that an operator reads: as its argument number `position`, or (-1) inside a list."""

    node: fx.Node
    position: int
    content: _Content


class ContentVerifier:
    """Checks one planned method; `check` raises InternalError naming reader, value and writer."""

    def __init__(self, gm: fx.GraphModule, written_back: dict[str, str] | None = None) -> None:
        """`written_back` maps a buffer's placeholder to the name of the output that it holds in the
        end.
        """
        self.gm = gm
        self.written_back = written_back or {}
        self.writers: list[str] = []
        self.content: dict[fx.Node, Any] = {}
        self.borders: dict[_Space, _Tokens] = {}
        self.cells: dict[_Space, _Tokens] = {}

    def check(self) -> None:
        self._lay_out()
        for node in self.gm.graph.nodes:
            if node.op == "placeholder":
                self.content[node] = self._write_all(node.meta.get("spec"), node)
        outputs = self._run(self.gm)
        by_name = {n.name: n for n in self.gm.graph.nodes}
        for buffer, value in self.written_back.items():
            held, wanted = self.content.get(by_name[buffer]), self.content.get(by_name[value])
            if isinstance(held, _Content) and isinstance(wanted, _Content):
                now = self.cells[held.space][held.low : held.high]
                if not np.array_equal(now, wanted.tokens):
                    raise InternalError(f"buffer {buffer} does not hold {value} in the end")
        for leaf, content in outputs:
            self._read(content, leaf, self.gm.graph.output_node())

    # ---- memory

    def _lay_out(self) -> None:
        """Cut every memory into cells at all offsets where some tensor begins or ends."""
        borders: dict[_Space, set[int]] = {}
        for node in _all_nodes(self.gm):
            for spec in _specs(node.meta.get("spec")):
                space, low, high = _range(spec)
                borders.setdefault(space, set()).update((low, high))
        for space, cuts in borders.items():
            self.borders[space] = np.array(sorted(cuts), np.int64)
            self.cells[space] = np.full(max(len(cuts) - 1, 0), _UNKNOWN, np.int64)

    def _place(self, spec: TensorSpec) -> tuple[_Space, int, int]:
        space, low, high = _range(spec)
        first, end = np.searchsorted(self.borders[space], (low, high))
        return space, int(first), int(end)

    def _now(self, spec: TensorSpec) -> _Content:
        space, low, high = self._place(spec)
        return _Content(space, low, self.cells[space][low:high].copy())

    def _write(self, content: _Content, node: fx.Node) -> _Content:
        if content.space[0] == "constant" and node.op != "placeholder":
            raise InternalError(f"{node.name} writes to a constant")
        count = len(content.tokens)
        tokens = np.arange(len(self.writers), len(self.writers) + count, dtype=np.int64)
        self.writers += [node.name] * count
        self.cells[content.space][content.low : content.high] = tokens
        return _Content(content.space, content.low, tokens.copy())

    def _write_all(self, structure: Any, node: fx.Node) -> Any:
        return _map_specs(lambda spec: self._write(self._now(spec), node), structure)

    def _read(self, content: Any, value: Any, reader: fx.Node) -> None:
        for leaf in _contents(content):
            now = self.cells[leaf.space][leaf.low : leaf.high]
            wrong = np.flatnonzero(now != leaf.tokens)
            if len(wrong) == 0:
                continue
            cell = leaf.low + int(wrong[0])
            low, high = self.borders[leaf.space][[cell, cell + 1]]
            token = int(self.cells[leaf.space][cell])
            writer = self.writers[token] if token != _UNKNOWN else "nobody"
            raise InternalError(
                f"memory plan: {reader.name} reads {value}, but bytes {low}..{high} of "
                f"{leaf.space[0]} {leaf.space[1]} were last written by {writer}"
            )

    # ---- nodes

    def _run(self, gm: fx.GraphModule) -> list[tuple[Any, Any]]:
        """Run a graph whose placeholders have contents; returns its outputs and their contents."""
        for node in gm.graph.nodes:
            if node.op == "output":
                leaves = pytree.tree_leaves(node.args[0])
                return [(n, self.content.get(n)) for n in leaves if isinstance(n, fx.Node)]
            if node.op == "call_function":
                self.content[node] = self._call(gm, node)
        return []

    def _call(self, gm: fx.GraphModule, node: fx.Node) -> Any:
        target = node.target
        if target in (memory.alloc, memory.free):
            return None
        if target is memory.view:
            return self._view(node)
        if target is memory.concat:
            return self._concat(node)
        if target is memory.patch:
            return self._patch(node)
        if target is operator.getitem:
            held = self.content.get(node.args[0])
            return held[node.args[1]] if isinstance(held, (list, tuple)) else None
        bodies = _bodies(gm, node)
        if bodies:
            for operand in node.all_input_nodes:
                self._read(self.content.get(operand), operand, node)
            return self._control_flow(node, bodies)
        return self._operator(node)

    def _view(self, node: fx.Node) -> Any:
        base, spec = self.content.get(node.args[0]), node.meta["spec"]
        if not isinstance(base, _Content):
            return None
        space, low, high = self._place(spec)
        if not spec.is_static_shape_tensor:  # its size is known when it runs
            high = min(high, base.high)
        if space != base.space or low < base.low or high > base.high:
            raise InternalError(f"view {node.name} is not inside {node.args[0]}")
        return _Content(space, low, base.tokens[low - base.low : high - base.low])

    def _concat(self, node: fx.Node) -> Any:
        """Check that the parts are adjacent and together make up the whole."""
        whole = self._now(node.meta["spec"])
        expected, at = np.full(len(whole.tokens), _UNKNOWN - 1, np.int64), whole.low
        for part in node.args[0]:
            content = self.content.get(part)
            if not isinstance(content, _Content) or content.low != at:
                raise InternalError(f"part {part} of {node.name} is not where it belongs")
            expected[at - whole.low : content.high - whole.low] = content.tokens
            at = content.high
        joined = _Content(whole.space, whole.low, expected)
        self._read(joined, node.args[0], node)
        return joined

    def _patch(self, node: fx.Node) -> Any:
        """A tensor after an update of a part: the part has new contents, the rest is unchanged."""
        whole, part = (self.content.get(argument) for argument in node.all_input_nodes)
        if not isinstance(whole, _Content) or not isinstance(part, _Content):
            raise InternalError(f"{node.name} joins tensors that hold nothing")
        low, high = part.low - whole.low, part.high - whole.low
        if part.space != whole.space or low < 0 or high > len(whole.tokens):
            raise InternalError(f"part {node.args[1]} of {node.name} is not where it belongs")
        expected = whole.tokens.copy()
        expected[low:high] = part.tokens
        patched = _Content(whole.space, whole.low, expected)
        self._read(patched, node.args[0], node)
        return patched

    def _operator(self, node: fx.Node) -> Any:
        op = op_overload(node.target)
        schema = op._schema if op is not None else None
        names = [arg.name for arg in schema.arguments] if schema is not None else []
        given = {**dict(zip(names, node.args, strict=False)), **node.kwargs}
        given = given or dict(enumerate(node.args))
        written = {
            arg.name: arg.kwarg_only
            for arg in (schema.arguments if schema is not None else ())
            if arg.alias_info is not None and arg.alias_info.is_write
        }
        read: list[_Operand] = []
        for position, (name, value) in enumerate(given.items()):
            if not written.get(name, False):
                for operand in _nodes(value):
                    self._read(self.content.get(operand), operand, node)
                    if name not in written:
                        whole = position if value is operand else -1
                        held = _contents(self.content.get(operand))
                        read += [_Operand(operand, whole, content) for content in held]
        if not written or all(written.values()):  # results of their own
            self._check_overlap(node, read, _specs(node.meta.get("spec")))
            return self._write_all(node.meta.get("spec"), node)
        return self._update(node, given, read, [n for n, is_out in written.items() if not is_out])

    def _update(
        self, node: fx.Node, given: dict[Any, Any], read: list[_Operand], names: list[str]
    ) -> Any:
        """An in-place operator: its written arguments have new contents, and so has its result."""
        specs = [n.meta["spec"] for name in names for n in _nodes(given.get(name))]
        self._check_overlap(node, read, specs)
        result = node.meta.get("spec")
        returned = {id(spec) for spec in _specs(result)}
        made: dict[int, _Content] = {}
        for name in names:
            for argument in _nodes(given.get(name)):
                spec = argument.meta["spec"]
                made[id(spec)] = self._write(self._now(spec), node)
                if id(spec) not in returned:  # later readers read the argument itself
                    self.content[argument] = made[id(spec)]
        return _map_specs(
            lambda spec: made.get(id(spec)) or self._write(self._now(spec), node), result
        )

    def _check_overlap(
        self, node: fx.Node, read: list[_Operand], written: Iterable[TensorSpec]
    ) -> None:
        """Check that a kernel writes over an operand only if the in-place rules allow it."""
        for spec in written:
            space, low, high = self._place(spec)
            for operand in read:
                content, own = operand.content, operand.node.meta["spec"]
                if content.space != space or content.low >= high or content.high <= low:
                    continue
                key = op_key(node.target)
                same = (content.low, content.high) == (low, high)
                if not same or not may_overwrite(key, operand.position, own, spec):
                    raise InternalError(
                        f"memory plan: {node.name} ({key}) writes over its operand {operand.node}"
                    )

    # ---- control flow

    def _control_flow(self, node: fx.Node, bodies: list[fx.GraphModule]) -> Any:
        results = list(_specs(node.meta.get("spec")))
        if higher_order_name(node.target) == "cond":
            before = {space: cells.copy() for space, cells in self.cells.items()}
            ends = []
            for body in bodies:
                self.cells = {space: cells.copy() for space, cells in before.items()}
                self._enter(body, node)
                self._leave(body, node, results)
                ends.append(self.cells)
            self.cells = ends[0]
            for space, cells in self.cells.items():
                cells[ends[-1][space] != cells] = _UNKNOWN
        else:
            for spec in results:
                self._write(self._now(spec), node)
            for _ in range(2):
                for body in bodies:
                    self._enter(body, node)
                    self._leave(body, node, results if body is bodies[-1] else [])
        return self._write_all(node.meta.get("spec"), node)

    def _enter(self, body: fx.GraphModule, node: fx.Node) -> None:
        """Bind operands in their own memory; slices are written by the loop."""
        outside = {id(s) for s in _specs(node.meta.get("spec"))}
        bound: dict[int, Any] = {}
        for operand in node.all_input_nodes:
            for spec, content in zip(
                _specs(operand.meta.get("spec")), _contents(self.content.get(operand)), strict=False
            ):
                bound[id(spec)] = content
        for inner in body.graph.nodes:
            if inner.op != "placeholder":
                continue
            spec = inner.meta.get("spec")
            if not isinstance(spec, TensorSpec):
                self.content[inner] = None
            elif id(spec) in outside:
                self.content[inner] = self._now(spec)
            else:
                self.content[inner] = bound.get(id(spec)) or self._write(self._now(spec), inner)

    def _leave(self, body: fx.GraphModule, node: fx.Node, results: list[TensorSpec]) -> None:
        """Copy the body's results one after another to the results of the operator."""
        outputs = self._run(body)
        for i, (leaf, content) in enumerate(outputs):
            self._read(content, leaf, body.graph.output_node())
            if i < len(results) and leaf.meta.get("spec") is not results[i]:
                self._write(self._now(results[i]), node)


def _range(spec: TensorSpec) -> tuple[_Space, int, int]:
    """The bytes of a spec: in planned memory, of a constant, or of memory that the caller gives."""
    root, offset = spec, 0
    while root.storage_base is not None:
        offset += root.storage_base_offset
        root = root.storage_base
    if root.const:
        space: _Space = ("constant", id(root))
    elif spec.mem_id is not None and spec.mem_offset is not None:
        space, offset = ("memory", spec.mem_id), spec.mem_offset
    else:
        space = ("unplanned", id(root))
    return space, offset, offset + spec.nbytes()


def _specs(structure: Any) -> Iterator[TensorSpec]:
    return (s for s in pytree.tree_leaves(structure) if isinstance(s, TensorSpec))


def _map_specs(change: Any, structure: Any) -> Any:
    if isinstance(structure, (list, tuple)):
        return [_map_specs(change, item) for item in structure]
    return change(structure) if isinstance(structure, TensorSpec) else None


def _contents(structure: Any) -> Iterator[_Content]:
    if isinstance(structure, _Content):
        yield structure
    elif isinstance(structure, (list, tuple)):
        for item in structure:
            yield from _contents(item)


def _nodes(value: Any) -> list[fx.Node]:
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, fx.Node)]


def _bodies(gm: fx.GraphModule, node: fx.Node) -> list[fx.GraphModule]:
    if not isinstance(node.target, torch._ops.HigherOrderOperator):
        return []
    children = [
        getattr(gm, str(n.target), None) for n in node.all_input_nodes if n.op == "get_attr"
    ]
    return [child for child in children if isinstance(child, fx.GraphModule)]


def _all_nodes(gm: fx.GraphModule) -> Iterator[fx.Node]:
    for node in gm.graph.nodes:
        yield node
        for body in _bodies(gm, node):
            yield from _all_nodes(body)
