"""Decision whether outputs of a quantized program differ from eager torch's by rounding alone.

The graph in lockstep with the file (lockstep.py) gives the outputs that follow from the file's own
integers, and the first node at which the file differs. Of a delegate that shows no values, the
sensitivity of the graph is the limit. Both figures, the program's deviation and the sensitivity,
are part of every explanation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from executorch_py.exir.ir.op_traits import ATEN_MOVES, DEQUANTIZE, is_getitem, op_key
from executorch_py.testing.file_values import FileValues
from executorch_py.testing.graph_values import ModelGraph, ancestors, described
from executorch_py.testing.lockstep import Difference, Lockstep, Walk
from executorch_py.testing.nearest import FURTHEST, TIE, is_within, limits_of
from executorch_py.testing.reference import NotComparable
from executorch_py.testing.sensitivity import ONE_ROUNDING, RELATIVE, moved_sqnr_db, sqnr_of

# Largest deviation of a file that shows no values, in decibels below the sensitivity of the graph:
# both are samples of the same amplified rounding.
ALLOWED_BELOW_DB = 6.0
# Below this ratio, an error of a tenth of the output's power, the sensitivity decides nothing: of a
# graph that amplifies a rounding to its whole output, outputs without any relation to the inputs
# would pass. An output of zeros has 0 dB.
LEAST_DB = 10.0


@dataclass(frozen=True)
class RoundedOutput:
    """An output of the program, and the figures that decide about it.

    `expected` follows from the file's integers, computed by the node `source`. `unrounded` is the
    same without the last rounding, where the file keeps that inside.
    """

    source: str
    expected: Any
    unrounded: Any
    sqnr_db: float | None
    moved_sqnr_db: float | None
    relative: float = RELATIVE

    def figures(self) -> str:
        if self.sqnr_db is None:
            return ""
        text = f"SQNR {self.sqnr_db:.1f} dB against eager torch"
        if self.moved_sqnr_db is None:
            return text
        if self.moved_sqnr_db == math.inf:
            return f"{text}, whose own result stays when its input moves by {self.relative:.3g}"
        text += (
            f", whose own result has {self.moved_sqnr_db:.1f} dB when its input moves by "
            f"{self.relative:.3g}"
        )
        if self.moved_sqnr_db < LEAST_DB + ALLOWED_BELOW_DB:
            text += f"; below {LEAST_DB:g} dB the sensitivity decides nothing"
        return text

    def is_rounding(self, ours: torch.Tensor) -> bool:
        """Whether an output behind hidden integers is as near to the unrounded one as eager's."""
        if self.unrounded is None or not ours.is_floating_point():
            return False
        return is_within(ours, self.unrounded, limits_of(self.unrounded, self.expected))

    @property
    def is_as_sensitive(self) -> bool:
        """Whether the graph itself moves as far as the program is from it."""
        if self.sqnr_db is None or self.moved_sqnr_db is None:
            return False
        if not math.isfinite(self.moved_sqnr_db):
            return False
        return self.sqnr_db >= max(self.moved_sqnr_db - ALLOWED_BELOW_DB, LEAST_DB)


@dataclass(frozen=True)
class Rounded:
    """Outputs in lockstep with a file, and the explanation: a sentence a line.

    `is_wrong`: a node of the file differs for certain. `is_hidden`: the file does not show all
    values from which its outputs follow. `cause` is the error for which it shows none.
    """

    outputs: list[RoundedOutput]
    is_wrong: bool
    is_hidden: bool
    explanation: list[str]
    cause: NotComparable | None = None


def rounded(
    graph: ModelGraph,
    values: Callable[[], FileValues],
    ours: Sequence[Any],
    eager: Sequence[Any],
) -> Rounded:
    """The outputs that a right file with these values may have, and the first difference."""
    moved = moved_sqnr_db(graph)
    found = FileValues()
    explanation: list[str] = []
    cause: NotComparable | None = None
    try:
        found = values()
    except NotComparable as error:
        explanation = [f"nodes of the file are not compared: {error}"]
        cause = error
    walk = Lockstep(graph, found.tensors).run()
    first = len(walk.outputs) - len(eager)  # outputs of the graph begin with its state
    outputs = [
        RoundedOutput(described(node), walk.outputs[at], walk.unrounded[at], _sqnr(a, b), moved[at])
        for at, (node, a, b) in enumerate(zip(walk.nodes[first:], ours, eager, strict=True), first)
    ]
    difference = _first(walk)
    is_wrong = bool(difference and difference.match and difference.match.is_certain)
    is_wrong &= found.is_one_run
    is_hidden = difference is not None or not walk.agreeing or not found.is_exact
    return Rounded(outputs, is_wrong, is_hidden, explanation or _explained(walk), cause)


def as_sensitive(
    graph: ModelGraph, ours: Sequence[Any], eager: Sequence[Any]
) -> list[RoundedOutput]:
    """Outputs of a graph of floats, and how far they move when the input is rounded once more."""
    moved = moved_sqnr_db(graph, ONE_ROUNDING)[-len(eager) :]
    return [
        RoundedOutput("", b, None, _sqnr(a, b), db, ONE_ROUNDING)
        for a, b, db in zip(ours, eager, moved, strict=True)
    ]


def _sqnr(ours: Any, eager: Any) -> float | None:
    if not isinstance(eager, torch.Tensor) or not eager.is_floating_point():
        return None
    return sqnr_of(torch.as_tensor(ours), eager)


def _explained(walk: Walk) -> list[str]:
    n_all = len(walk.agreeing) + len(walk.differing)
    text = f"quantize operators whose results agree: {len(walk.agreeing)} of {n_all}"
    distances = [d.furthest for d in walk.agreeing.values() if d is not None]
    if distances:
        text += (
            f"; each integer of the file there is within {max(distances):.3f} steps of the number "
            "that eager torch rounds"
        )
    first = _first(walk)
    if first is None:
        return [text]
    return [_described(first), text]


def _first(walk: Walk) -> Difference | None:
    """The first difference that is certain, or that no later agreement depends on."""
    leads = ancestors(walk.agreeing)
    for difference in walk.differing.values():
        match = difference.match
        if (match is not None and match.is_certain) or difference.node not in leads:
            return difference
    return None


def _described(difference: Difference) -> str:
    node, rounding, match = difference.node, difference.rounding, difference.match
    if difference.is_behind:
        return (
            f"first difference: {described(_reader(node))}, which computes from values that "
            f"{node.name} rounds, is further from the result without rounding than eager torch's"
        )
    operand = next(iter(node.all_input_nodes), node)
    start = f"first difference: {described(operand)}, whose results {node.name} rounds"
    if match is None or match.distances is None:
        return f"{start}: the file has no integers near those of eager torch"
    d = match.distances
    limit = FURTHEST if d.beyond else TIE
    count = f"{d.beyond or d.beyond_tie} of {d.elements}"
    if d.crowded and not d.beyond:
        count = d.crowded
    found, exact = match.found[d.worst].item(), rounding.exact[d.worst].item()
    return (
        f"{start}: {count} integers of the file are more than "
        f"{limit:g} step from the numbers that eager torch rounds; worst at {list(d.worst)}: "
        f"program {found}, eager {exact:.6g}"
    )


def _reader(node: fx.Node) -> fx.Node:
    """The first operator that computes from a quantized value."""
    while node.users:
        user = next(iter(node.users))
        key = op_key(user.target)
        if key not in DEQUANTIZE and key not in ATEN_MOVES and not is_getitem(user.target):
            return user
        node = user
    return node
