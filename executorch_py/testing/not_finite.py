"""NaN and infinite values of a model in eager torch, which explain differences from a program.

Outputs are counted. The graph of the model, run node by node, has the operator that makes the first
NaN, and the one that turns it into integers: no result is defined for that, so eager torch and a
file may have different ones. Decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from executorch_py.exir.ir.op_traits import is_inplace, op_key, op_overload
from executorch_py.testing.comparison import MOST_FAILURES, Comparison
from executorch_py.testing.graph_values import (
    ModelGraph,
    arguments_of,
    described,
    last_uses,
    value_of,
)
from executorch_py.testing.reference import NotComparable
from executorch_py.testing.verdicts import Run

NAN, INFINITE = "NaN", "infinite"
_IS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    NAN: torch.isnan,
    INFINITE: torch.isinf,
}


def explain_not_finite(found: Sequence[Comparison], run: Run) -> list[str]:
    """Lines about the outputs that are not finite, and about the nodes that make the first.

    The graph is run if a comparison failed, or if outputs are NaN in eager torch.
    """
    results = zip(found, run.ours, run.eager, strict=True)
    lines = [line for c, ours, eager in results for line in _counts(c, ours, eager)]
    if lines[MOST_FAILURES:]:
        lines[MOST_FAILURES:] = [f"and {len(lines) - MOST_FAILURES} more outputs like these"]
    if all(c.ok for c in found) and not _has(NAN, list(run.eager)):
        return lines
    try:
        return [*lines, *_Origins(run.graph).explained()]
    except NotComparable:  # the other rules name the reason
        return lines


def _counts(comparison: Comparison, ours: Any, eager: Any) -> Iterator[str]:
    for kind in _IS:
        a, b = _mask(kind, ours), _mask(kind, eager)
        if a is None and b is None:
            continue
        n_eager = 0 if b is None else int(b.sum())
        n_ours = 0 if a is None else int(a.sum())
        n_both = 0 if a is None or b is None else int((a & b).sum())
        text = f"{comparison.output}: {n_eager} of {comparison.elements} elements are {kind} in "
        if n_eager == n_ours == n_both:
            yield text + "eager torch and in the program"
        else:
            both = f", {n_both} in both" if n_eager and n_ours else ""
            yield text + f"eager torch, {n_ours} in the program{both}"


def _mask(kind: str, value: Any) -> torch.Tensor | None:
    """The elements of a kind; None if there are none."""
    if isinstance(value, float):
        value = torch.tensor(value)
    if not isinstance(value, torch.Tensor):
        value = torch.as_tensor(value) if hasattr(value, "shape") else None
    if value is None or not (value.is_floating_point() or value.is_complex()):
        return None
    if value.is_floating_point() and value.element_size() == 1:  # torch has no isnan for these
        value = value.to(torch.float32)
    mask = _IS[kind](value)
    return mask if bool(mask.any()) else None


@dataclass
class _Origin:
    """A node that makes elements of a kind from operands without any."""

    node: fx.Node
    count: str
    how: str = ""
    # The origin of infinite operands.
    infinite: _Origin | None = None

    def __str__(self) -> str:
        verb = "makes the first" if self.node.op == "call_function" else "has them"
        text = f"{described(self.node)} {verb}, {self.count}{self.how}"
        if self.infinite is not None:
            other = self.infinite
            text += f"; infinite values come from {described(other.node)}{other.how}"
        return text


@dataclass
class _Reached:
    """An origin whose elements reach an output, or `node`, which turns them into integers."""

    origin: _Origin
    node: fx.Node | None = None


@dataclass
class _Origins:
    """The origins of elements that are not finite, in a run of a graph."""

    graph: ModelGraph
    reached: dict[str, _Reached] = field(default_factory=dict)

    def explained(self) -> list[str]:
        self._run()
        what = "the quantized graph" if self.graph.is_quantized else "the model"
        lines = []
        for kind, found in self.reached.items():
            lines.append(f"{what} has {kind} values in eager torch: {found.origin}")
            if found.node is not None:
                lines.append(
                    f"{described(found.node)} turns {kind} into integers, for which no result is "
                    "defined: those of eager torch and of the program may differ"
                )
        return lines

    def _run(self) -> None:
        module, inputs = self.graph.module, self.graph.fresh_inputs()
        env: dict[fx.Node, Any] = {}
        known: dict[str, dict[fx.Node, _Origin]] = {kind: {} for kind in _IS}
        last = last_uses(module.graph)
        for node in module.graph.nodes:
            if node.op == "output":
                for kind, origins in known.items():
                    leaves = [n for n in pytree.tree_leaves(node.args[0]) if n in origins]
                    if leaves and kind not in self.reached:
                        self.reached[kind] = _Reached(origins[leaves[0]])
                return
            given = {kind: _first_of(kind, node, env) for kind in _IS}
            with torch.no_grad():
                env[node] = value_of(module, node, inputs, env)
            for kind, operand in given.items():
                before = None if operand is None else _before(known[kind], operand)
                if _has(kind, env[node]):
                    known[kind][node] = before or _origin(kind, node, env, given, known)
                elif kind == NAN and before is not None and _is_integers(env[node]):
                    self.reached.setdefault(kind, _Reached(before, node))
            for spent in last[node]:
                del env[spent]


def _first_of(kind: str, node: fx.Node, env: Mapping[fx.Node, Any]) -> fx.Node | None:
    """The first operand with elements of a kind."""
    return next((n for n in node.all_input_nodes if _has(kind, env[n])), None)


def _before(known: dict[fx.Node, _Origin], operand: fx.Node) -> _Origin | None:
    """The origin of an operand's elements: the last one, if a call wrote them in place."""
    return known.get(operand) or next(reversed(known.values()), None)


def _has(kind: str, value: Any) -> bool:
    return any(_mask(kind, leaf) is not None for leaf in pytree.tree_leaves(value))


def _is_integers(value: Any) -> bool:
    tensors = [v for v in pytree.tree_leaves(value) if isinstance(v, torch.Tensor)]
    return any(
        v.dtype != torch.bool and not v.is_floating_point() and not v.is_complex() for v in tensors
    )


def _origin(
    kind: str,
    node: fx.Node,
    env: Mapping[fx.Node, Any],
    given: Mapping[str, fx.Node | None],
    known: Mapping[str, dict[fx.Node, _Origin]],
) -> _Origin:
    """The origin of the elements of a node's result."""
    value, mask = next(
        (v, m) for v in pytree.tree_leaves(env[node]) if (m := _mask(kind, v)) is not None
    )
    count = f"in {int(mask.sum())} of {mask.numel()} elements"
    if node.op != "call_function":
        return _Origin(node, count)
    infinite = given[INFINITE] if kind == NAN else None
    return _Origin(
        node,
        count,
        _computed(node, env, value, mask),
        None if infinite is None else known[INFINITE].get(infinite),
    )


def _computed(
    node: fx.Node, env: Mapping[fx.Node, Any], value: torch.Tensor, mask: torch.Tensor
) -> str:
    """The first element of a mask as the call that computes it, of operators on single elements."""
    op = op_overload(node.target)
    if op is None or torch.Tag.pointwise not in op.tags or is_inplace(op):
        return ""
    index = tuple(int(i) for i in mask.nonzero()[0])
    args, _ = arguments_of(node, env)
    numbers = []
    for argument in args:
        if isinstance(argument, torch.Tensor):
            argument = argument.broadcast_to(value.shape)[index].item()
        if isinstance(argument, (bool, int, float, complex)):
            numbers.append(f"{argument:g}" if isinstance(argument, float) else str(argument))
    key = op_key(node.target)
    is_division = key.startswith("aten::div.") and len(numbers) == 2
    call = " by ".join(numbers) if is_division else f"{key}({', '.join(numbers)})"
    place = f"at {list(index)} " if index else ""
    return f"; {place}it {'divides' if is_division else 'computes'} {call}"
