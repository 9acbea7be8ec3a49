"""Independent check of a memory plan: no two tensors alive together overlap, all are in bounds and
aligned.

Written against the lowered graph alone. It derives for itself when storage is in use (per memory,
as half-open byte ranges over a depth-first numbering of the nodes) and shares no code with the
planners or with their lifetimes, so that a mistake has to be made twice to go unnoticed. Runs on
every export.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import fx
from torch.utils import _pytree as pytree

from executorch_py.exir.error import InternalError
from executorch_py.exir.ir.tensor_spec import TensorSpec

_Ints = npt.NDArray[np.int64]


@dataclass
class _Use:
    """One byte range that a storage owns: place, lifetime and owner."""

    spec: TensorSpec
    who: str
    first: int
    last: int


class PlanVerifier:
    """Checks one method; `check` raises InternalError naming the tensors that collide."""

    def __init__(
        self, gm: fx.GraphModule, buffer_sizes: list[int] | None, kept_to_the_end: set[str]
    ) -> None:
        self.gm = gm
        self.buffer_sizes = buffer_sizes
        self.kept_to_the_end = kept_to_the_end
        self.uses: dict[int, _Use] = {}
        self.clock = 0

    def check(self) -> int:
        """The number of storages found sound."""
        planned = self._planned()
        for uses in planned.values():
            for use in uses:
                self._check_place(use)
        for _, uses in sorted(planned.items()):
            _check_disjoint(uses)
        return sum(map(len, planned.values()))

    def pairs_sharing_memory(self) -> int:
        """The number of pairs of storages that have bytes in common, at whatever times."""
        return sum(_pairs_with_common_bytes(uses) for uses in self._planned().values())

    def _planned(self) -> dict[int, list[_Use]]:
        """The uses of every memory."""
        if not self.uses:
            self._collect()
        planned: dict[int, list[_Use]] = {}
        for use in self.uses.values():
            if use.spec.mem_id is not None and not use.spec.const:
                planned.setdefault(use.spec.mem_id, []).append(use)
        return planned

    def _collect(self) -> None:
        self._number(self.gm)
        end = self.clock
        for node in self.gm.graph.nodes:
            if node.op == "placeholder":
                for spec in _specs(node):
                    self._use(spec, node, 0)
                    if node.name in self.kept_to_the_end:
                        self._use(spec, node, end)

    def _number(self, gm: fx.GraphModule) -> None:
        for node in gm.graph.nodes:
            self.clock += 1
            involved = [(s, n) for n in (node, *node.all_input_nodes) for s in _specs(n)]
            for spec, owner in involved:
                self._use(spec, owner, self.clock)
            bodies = list(_bodies(gm, node))
            if not bodies:
                continue
            begin, ends = self.clock, []
            for body in bodies:
                self.clock = begin
                self._number(body)
                ends.append(self.clock)
            self.clock = max(ends) + 1
            for spec, owner in involved:
                self._use(spec, owner, self.clock)

    def _use(self, spec: TensorSpec, node: fx.Node, time: int) -> None:
        while spec.storage_base is not None:
            if spec.mem_id != spec.storage_base.mem_id or (
                spec.mem_offset is not None
                and spec.storage_base.mem_offset is not None
                and spec.mem_offset != spec.storage_base.mem_offset + spec.storage_base_offset
            ):
                raise InternalError(f"view {node.name} is not placed inside its base")
            spec = spec.storage_base
        known = self.uses.get(id(spec))
        if known is None:
            self.uses[id(spec)] = _Use(spec, node.name, time, time)
        else:
            known.first, known.last = min(known.first, time), max(known.last, time)

    def _check_place(self, use: _Use) -> None:
        spec = use.spec
        assert spec.mem_id is not None
        if spec.mem_offset is None or spec.mem_offset < 0:
            raise InternalError(f"{use.who} has a memory but no offset in it")
        if spec.mem_offset % spec.alignment:
            raise InternalError(
                f"{use.who} is planned at {spec.mem_offset}, not a multiple of {spec.alignment}"
            )
        if self.buffer_sizes is None:
            return
        if not 0 < spec.mem_id < len(self.buffer_sizes):
            raise InternalError(
                f"{use.who} is planned in memory {spec.mem_id}, which does not exist"
            )
        if spec.mem_offset + spec.nbytes() > self.buffer_sizes[spec.mem_id]:
            raise InternalError(
                f"{use.who} ends at {spec.mem_offset + spec.nbytes()}, past the "
                f"{self.buffer_sizes[spec.mem_id]} bytes of memory {spec.mem_id}"
            )


def _specs(node: fx.Node) -> list[TensorSpec]:
    return [s for s in pytree.tree_leaves(node.meta.get("spec")) if isinstance(s, TensorSpec)]


def _bodies(gm: fx.GraphModule, node: fx.Node) -> Iterator[fx.GraphModule]:
    target = node.target
    if node.op != "call_function" or not isinstance(target, torch._ops.HigherOrderOperator):
        return
    if "delegate" in str(target) or target is operator.getitem:
        return
    for arg in node.args:
        child = getattr(gm, str(arg.target), None) if isinstance(arg, fx.Node) else None
        if isinstance(child, fx.GraphModule) and isinstance(arg, fx.Node) and arg.op == "get_attr":
            yield child


def _byte_ranges(uses: list[_Use]) -> tuple[_Ints, _Ints]:
    offsets = [u.spec.mem_offset or 0 for u in uses]
    ends = [o + u.spec.nbytes() for o, u in zip(offsets, uses, strict=True)]
    return np.array(offsets, np.int64), np.array(ends, np.int64)


def _pairs_with_common_bytes(uses: list[_Use]) -> int:
    low, high = _byte_ranges([u for u in uses if u.spec.nbytes() > 0])
    return sum(
        int(((low[i + 1 :] < high[i]) & (high[i + 1 :] > low[i])).sum()) for i in range(len(low))
    )


def _check_disjoint(uses: list[_Use]) -> None:
    """Every pair that shares an instruction must share no byte."""
    uses = [u for u in uses if u.spec.nbytes() > 0]
    low, high = _byte_ranges(uses)
    first = np.array([u.first for u in uses], np.int64)
    last = np.array([u.last for u in uses], np.int64)
    for i, use in enumerate(uses):
        collides = (
            (low[i + 1 :] < high[i])
            & (high[i + 1 :] > low[i])
            & (first[i + 1 :] <= last[i])
            & (last[i + 1 :] >= first[i])
        )
        if collides.any():
            other = uses[i + 1 + int(np.argmax(collides))]
            raise InternalError(
                f"memory plan: {use.who} (bytes {low[i]}..{high[i]}, nodes {use.first}.."
                f"{use.last}) overlaps {other.who} (bytes {other.spec.mem_offset}.., nodes "
                f"{other.first}..{other.last}) in memory {use.spec.mem_id}"
            )
