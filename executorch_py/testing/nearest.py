"""Search among the tensors of a file for those that a quantized graph has at a node, by values.

A file has no names of nodes. Backends keep tensors in another order of dimensions, and tensors of
one shape are many, so the nearest one counts. Knows no graphs.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from executorch_py.testing.file_values import FileValue

# Largest distance of a file's integer from the number that eager torch rounds, in steps: half a
# step of rounding, and as much for a backend's arithmetic.
FURTHEST = 1.0
# Beyond this distance an integer is not the nearest one, nor one of two near a tie. Fixed-point
# arithmetic of backends exceeds it for some elements, but never for many.
TIE = 0.55
MOST_BEYOND_TIE = 1 / 16
# Elements of a slice along one dimension, such as a channel, from which on it is judged alone, and
# what chance adds to the share of one of many slices, in standard deviations.
_SLICE = 8
_CHANCE = 5.0
# Largest ratio of distances from floats that nobody rounded: a backend's that finds scales at run
# time, and eager torch's.
ROUNDED_FACTOR = 2.0
# Elements that are compared first; tensors in which most of them differ are others.
_SAMPLE = 257
_ORDERS = 4  # dimensions, at most, whose orders are all tried
# Shares of near elements, and correlations, from which on a tensor is the one of a node.
_MOST = 0.9
_CORRELATED = 0.99


@dataclass(frozen=True)
class Distances:
    """Distances of integers from the numbers that eager torch rounds, in steps.

    `crowded`: a slice with too many of the integers beyond a tie, as text; "" if there is none.
    """

    furthest: float
    beyond: int
    beyond_tie: int
    elements: int
    changed: int
    worst: tuple[int, ...] = ()
    crowded: str = ""

    @property
    def ok(self) -> bool:
        few = self.beyond_tie <= MOST_BEYOND_TIE * self.elements
        return self.beyond == 0 and few and not self.crowded

    @property
    def rank(self) -> tuple[int, int, int]:
        """Order of candidates: the nearest is the smallest."""
        return self.beyond, self.beyond_tie, self.changed


@dataclass(frozen=True)
class Match:
    """The nearest tensor of a file, in the order of dimensions of the graph's.

    `is_certain`: the file has this tensor at this node, whether or not the values are near.
    `distances` are of integers; floats have None, and `is_near`.
    """

    found: torch.Tensor
    is_near: bool
    is_certain: bool
    distances: Distances | None = None


class Pool:
    """The tensors of a file by element type and number of elements."""

    def __init__(self, values: Sequence[FileValue]) -> None:
        self._values: dict[tuple[torch.dtype, int], list[FileValue]] = defaultdict(list)
        for value in values:
            self._values[value.tensor.dtype, value.tensor.numel()].append(value)

    def integers(
        self, exact: torch.Tensor, rounded: torch.Tensor, grid: tuple[float, int] | None
    ) -> Match | None:
        """The tensor nearest to `exact`, numbers that eager torch rounds to `rounded`."""
        best: Match | None = None
        for found, of in self._candidates(rounded.dtype, exact, FURTHEST, grid):
            d = distances_of(found, exact, rounded)
            if best is None or best.distances is None or d.rank < best.distances.rank:
                near = d.elements - d.beyond
                is_certain = _same_grid(grid, of) or _is_same(near, found, exact)
                best = Match(found, d.ok, is_certain, d)
            if d.rank == (0, 0, 0):
                break
        return best

    def floats(self, unrounded: torch.Tensor, eager: torch.Tensor) -> Match | None:
        """A tensor as near to `unrounded` as `eager` is, which used integers on the way."""
        limit = limits_of(unrounded, eager)
        best: Match | None = None
        for found, _ in self._candidates(eager.dtype, unrounded, limit[1], None):
            if is_within(found, unrounded, limit):
                return Match(found, True, True)
            near = int(((found - unrounded).abs() <= limit[1]).sum())
            if best is None or not best.is_certain:
                best = Match(found, False, _is_same(near, found, unrounded))
        return best

    def nearest(self, wanted: torch.Tensor, limit: torch.Tensor) -> torch.Tensor | None:
        """A tensor of the same type whose elements differ by no more than these limits."""
        most = float(limit.max())
        for found, _ in self._candidates(wanted.dtype, wanted, most, None):
            if bool(_near(found, wanted, limit).all()):
                return found
        return None

    def shows(self, rounded: torch.Tensor) -> bool:
        """Whether the file has tensors of the size and type of these integers."""
        return (rounded.dtype, rounded.numel()) in self._values

    def has(self, floats: torch.Tensor) -> bool:
        """Whether the file has these floats, but for their rounding."""
        limit = limits_of(floats, floats)
        found = self._candidates(floats.dtype, floats, limit[1], None)
        return any(is_within(tensor, floats, limit) for tensor, _ in found)

    def _candidates(
        self, dtype: torch.dtype, wanted: torch.Tensor, limit: float, grid: tuple[float, int] | None
    ) -> Iterator[tuple[torch.Tensor, tuple[float, int] | None]]:
        """Tensors in the order of dimensions of the wanted one, and their scales and zero points.

        Tensors of other values are left out: most elements of a sample differ.
        """
        n = wanted.numel()
        at = torch.linspace(0, max(n - 1, 0), min(n, _SAMPLE)).to(torch.int64)
        sample = wanted.reshape(-1)[at]
        for value in self._values[dtype, n]:
            for arranged in _arrangements(value.tensor, wanted.shape):
                near = _near(arranged.reshape(-1)[at], sample, limit)
                if 2 * int(near.sum()) >= near.numel() or _same_grid(grid, value.grid):
                    yield arranged, value.grid


def _near(found: torch.Tensor, wanted: torch.Tensor, limit: Any) -> torch.Tensor:
    """Whether each element differs by no more than a limit; equal infinities do not, nor NaNs."""
    same = (found == wanted) | (found.isnan() & wanted.isnan())
    return same | ((found - wanted).abs() <= limit)


def _same_grid(one: tuple[float, int] | None, other: tuple[float, int] | None) -> bool:
    """Whether scales are equal as float32, and zero points."""
    if one is None or other is None:
        return False
    return one[1] == other[1] and abs(one[0] - other[0]) <= 1e-6 * abs(one[0])


def _is_same(n_near: int, found: torch.Tensor, wanted: torch.Tensor) -> bool:
    """Whether values are those of one node, some of them wrong: most are near, or all correlate."""
    if n_near >= _MOST * wanted.numel():
        return True
    both = torch.stack([found.double().reshape(-1), wanted.double().reshape(-1)])
    return both.shape[1] > 2 and float(torch.corrcoef(both)[0, 1]) >= _CORRELATED


def distances_of(found: torch.Tensor, exact: torch.Tensor, rounded: torch.Tensor) -> Distances:
    """Distances of integers from exact numbers; `rounded` are eager torch's integers."""
    if not found.numel():
        return Distances(0.0, 0, 0, 0, 0)
    off = (found.to(torch.float64) - exact).abs().nan_to_num(nan=torch.inf)
    at = torch.unravel_index(off.argmax(), off.shape) if off.dim() else ()
    return Distances(
        furthest=float(off.max()),
        beyond=int((off > FURTHEST).sum()),
        beyond_tie=int((off > TIE).sum()),
        elements=off.numel(),
        changed=int((found != rounded).sum()),
        worst=tuple(int(i) for i in at),
        crowded=_crowded(off > TIE),
    )


def _crowded(beyond_tie: torch.Tensor) -> str:
    """The slice of which more integers are beyond a tie than chance explains: one wrong channel."""
    for dim, counts, n in _slices(beyond_tie.to(torch.float64)):
        deviation = math.sqrt(n * MOST_BEYOND_TIE * (1 - MOST_BEYOND_TIE))
        at = int(counts.argmax())
        if counts[at] > n * MOST_BEYOND_TIE + _CHANCE * deviation:
            return f"{int(counts[at])} of the {n} at index {at} of dim {dim}"
    return ""


def _slices(values: torch.Tensor) -> Iterator[tuple[int, torch.Tensor, int]]:
    """For each dimension with slices of enough elements their sums, and the number of elements."""
    for dim, size in enumerate(values.shape):
        if size > 1 and values.numel() // size >= _SLICE:
            others = [d for d in range(values.dim()) if d != dim]
            yield dim, values.sum(others), values.numel() // size


def limits_of(unrounded: torch.Tensor, eager: torch.Tensor) -> tuple[float, float]:
    """Largest root mean square and largest element of a right difference from `unrounded`."""
    off = (eager.double() - unrounded.double()).abs().nan_to_num(nan=0.0)
    size = float(unrounded.double().abs().nan_to_num(nan=0.0).max()) if off.numel() else 0.0
    rounding = 1e-5 * size + 1e-6  # float32 sums in another order
    if not off.numel():
        return rounding, rounding
    mean = float(off.square().mean().sqrt())
    return ROUNDED_FACTOR * mean + rounding, ROUNDED_FACTOR * float(off.max()) + rounding


def is_within(found: torch.Tensor, unrounded: torch.Tensor, limit: tuple[float, float]) -> bool:
    """Whether floats differ from unrounded ones by no more than these limits."""
    off = (found.double() - unrounded.double()).abs()
    same = found.isnan() & unrounded.isnan()
    off = off.masked_fill(same | (found == unrounded), 0.0)
    if not off.numel():
        return True
    return float(off.max()) <= limit[1] and float(off.square().mean().sqrt()) <= limit[0]


def _arrangements(tensor: torch.Tensor, shape: torch.Size) -> Iterator[torch.Tensor]:
    """The tensor with its dimensions in each order that gives the shape, those of size 1 aside.

    Backends keep other orders: channels last, or a transposed operand.
    """
    sizes = [n for n in shape if n != 1]
    plain = tensor.reshape([n for n in tensor.shape if n != 1])
    if sorted(plain.shape) != sorted(sizes) or plain.dim() > _ORDERS:
        yield tensor.reshape(shape)
        return
    for order in itertools.permutations(range(plain.dim())):
        if [plain.shape[d] for d in order] == sizes:
            yield plain.permute(order).reshape(shape)
