"""Fake values: `node.meta["val"]` stays correct while a pass rewrites a graph in place.

A rewrite that changes the layout or dtype of a result changes what follows from it. Instead of
re-tracing the whole graph, `refresh_users` evaluates only the nodes downstream of a change, on
fake tensors, and stops where a result comes out as it was. Relies on the fake tensors that
torch.export left in the graph; knows nothing of dialects.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch._dispatch.python import enable_python_dispatcher
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode, guard_or_false
from torch.utils import _pytree as pytree

from executorch_py.exir.ir.graph import all_graph_modules, erase_dead_nodes
from executorch_py.exir.ir.graph_modules import CONTROL_FLOW_BODIES


def fake_mode_of(gm: GraphModule) -> FakeTensorMode | None:
    """The fake tensor mode of the values in a graph; None when it holds no fake tensor."""
    for node in gm.graph.nodes:
        for leaf in pytree.tree_leaves(node.meta.get("val")):
            if isinstance(leaf, FakeTensor):
                return leaf.fake_mode
    return None


@contextlib.contextmanager
def fake_evaluation(mode: FakeTensorMode) -> Iterator[None]:
    """Run operators on the fake tensors of `mode`, real constants allowed."""
    allowed = mode.allow_non_fake_inputs
    mode.allow_non_fake_inputs = True
    try:
        with mode, enable_python_dispatcher():
            yield
    finally:
        mode.allow_non_fake_inputs = allowed


def is_contiguous(value: torch.Tensor) -> bool:
    """Whether the tensor is provably contiguous, symbolic sizes included."""
    expected: Any = 1
    strides = value.stride()
    if all(isinstance(s, int) for s in (*value.shape, *strides)):
        return bool(value.is_contiguous())
    for size, stride in zip(reversed(value.shape), reversed(strides), strict=True):
        if not (guard_or_false(stride == expected) or guard_or_false(size == 1)):
            return False
        expected = expected * size
    return True


def has_row_major_strides(value: torch.Tensor) -> bool:
    """Whether the strides are exactly those of a contiguous tensor, unit dimensions included.

    Stricter than `is_contiguous`: a dim order is read off the strides, and a unit dimension with
    a stray stride would be sorted into the wrong place.
    """
    expected: Any = 1
    for size, stride in zip(reversed(value.shape), reversed(value.stride()), strict=True):
        both_known = isinstance(stride, int) and isinstance(expected, int)
        if not (stride == expected if both_known else guard_or_false(stride == expected)):
            return False
        expected = expected * (max(size, 1) if isinstance(size, int) else size)
    return True


def contiguous_like(value: torch.Tensor) -> torch.Tensor:
    """A tensor of the same shape and dtype, laid out contiguously, made by value's own mode."""
    mode = value.fake_mode if isinstance(value, FakeTensor) else contextlib.nullcontext()
    with mode:
        return value.new_empty(value.shape)


def same_metadata(a: Any, b: Any) -> bool:
    """Whether two results have the same structure, dtypes, shapes and strides."""
    leaves_a, leaves_b = pytree.tree_leaves(a), pytree.tree_leaves(b)
    if len(leaves_a) != len(leaves_b):
        return False
    return all(map(_same_leaf, leaves_a, leaves_b))


def _same_leaf(a: Any, b: Any) -> bool:
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        return (
            a.dtype == b.dtype
            and a.dim() == b.dim()
            and _same_numbers(a.shape, b.shape)
            and _same_numbers(a.stride(), b.stride())
        )
    return type(a) is type(b)


def _same_numbers(a: Iterable[Any], b: Iterable[Any]) -> bool:
    return all(
        x == y if isinstance(x, int) and isinstance(y, int) else guard_or_false(x == y)
        for x, y in zip(a, b, strict=True)
    )


def values_of(args: Any) -> Any:
    """Arguments with every node replaced by its value."""
    return torch.fx.node.map_arg(args, lambda node: node.meta["val"])


def evaluate(node: Node) -> Any:
    """The fake result of a call_function node from the values of its arguments."""
    assert callable(node.target)
    return node.target(*values_of(node.args), **values_of(node.kwargs))


def _has_unbacked_result(node: Node) -> bool:
    return bool(node.meta.get("unbacked_bindings"))


def refresh_users(gm: GraphModule, changed: Iterable[Node]) -> None:
    """Re-evaluate, in graph order, the nodes that depend on `changed` nodes of `gm`.

    Control-flow operators keep their value (their bodies fix it), and so do operators whose
    result size depends on data: evaluating those again would invent new symbols.
    """
    stale = set(changed)
    if not stale:
        return
    mode = fake_mode_of(gm)
    if mode is None:
        return
    with fake_evaluation(mode):
        for node in gm.graph.nodes:
            if node.op != "call_function" or node.target in CONTROL_FLOW_BODIES:
                continue
            if isinstance(node.target, torch._ops.HigherOrderOperator):
                continue
            if stale.isdisjoint(node.all_input_nodes) or _has_unbacked_result(node):
                continue
            if _refresh(node):
                stale.add(node)


def _refresh(node: Node) -> bool:
    try:
        value = evaluate(node)
    except GuardOnDataDependentSymNode:
        return False
    if same_metadata(value, node.meta.get("val")):
        return False
    node.meta["val"] = value
    return True


def rewrite_calls(ep: ExportedProgram, rewrite: Callable[[Node], bool]) -> bool:
    """Call `rewrite` on every node, bodies of control flow included, and drop unused nodes.

    `rewrite` returns whether it replaced the node; new nodes may be evaluated. True if any was.
    """
    changed = False
    for module in all_graph_modules(ep.graph_module):
        mode = fake_mode_of(module)
        if mode is None:
            continue
        with fake_evaluation(mode):
            found = [node for node in list(module.graph.nodes) if rewrite(node)]
        if found:
            erase_dead_nodes(module.graph)
            changed = True
    return changed
