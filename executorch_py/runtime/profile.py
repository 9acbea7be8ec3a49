"""Profile of a run: one InstructionProfile per instruction, from Method.profile().

Says what each instruction computes and moves, and holds its time against the machine's roofline.
Imported when something is profiled, because a program that only runs has no use for it.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from executorch_py import _C
from executorch_py.runtime.roofline import Roofline, measured

# Which operand's last dimension a product sums over, counted among the instruction's tensors.
_SUMMED_OPERAND = {
    "aten::mm.out": 0,
    "aten::bmm.out": 0,
    "aten::linear.out": 0,
    "aten::addmm.out": 1,
    "executorch_py::mm.out": 0,
    "executorch_py::addmm.out": 1,
    "aten::baddbmm.out": 1,
}
_ATTENTION = "::scaled_dot_product_attention.out"
# Operators that read no more of their inputs than they write.
_PARTIAL_READERS = (
    "select_copy",
    "slice_copy",
    "narrow_copy",
    "index",
    "gather",
    "embedding",
)


@dataclass(frozen=True)
class NodeProfile:
    """Time of one operator inside a delegate's call, as the delegate's library reports it.

    `debug_handle` is that of the exported graph's node, None where it is not known.
    """

    name: str
    seconds: float
    debug_handle: int | None = None


@dataclass(frozen=True)
class InstructionProfile:
    """Time of one instruction: an operator's overload, a backend's id, "move", "jump" or "free".

    Calls that the one before them did as well are part of it and not listed: a relu or clamp of a
    convolution's result in its memory.

    `calls` is above 1 in loops. `seconds` is the median over the profiled runs, all calls of a run
    together; `bytes` all tensors that it names, alone or in lists, each counted once per call, and
    `written` those of its results. `tensors` are (dtype, shape) of the last call, outputs last: of
    more than six the first five and the last. `bound_seconds` is the least that the machine needs,
    see bound_of(); None where that is not known. `nodes` are a delegate's, where it tells of them:
    XNNPACK does, in whole microseconds; of several calls one after the other.
    """

    instruction: int
    operator: str
    calls: int
    seconds: float
    bytes: int
    tensors: tuple[tuple[str, tuple[int, ...]], ...]
    written: int = 0
    bound_seconds: float | None = None
    nodes: tuple[NodeProfile, ...] = ()

    @property
    def roofline(self) -> float | None:
        """The share of the roofline that it reaches: 1.0 is as fast as this machine can be.

        More than 1 means that it did with less than bound_of() assumes: data in a nearer cache,
        masked scores skipped.
        """
        if self.bound_seconds is None or self.seconds == 0.0:
            return None
        return self.bound_seconds / self.seconds

    @property
    def flops(self) -> int | None:
        """Of products, convolutions and attention, a multiply-add as two; None for others."""
        shapes = [shape for _, shape in self.tensors]
        if len(shapes) < 3:
            return None
        if self.operator in _SUMMED_OPERAND:
            summed = shapes[_SUMMED_OPERAND[self.operator]][-1]
            return 2 * self.calls * math.prod(shapes[-1]) * summed
        if self.operator.endswith("::convolution.out"):
            weight = shapes[1]
            transposed = weight[0] != shapes[-1][1]
            pixels = math.prod(shapes[0] if transposed else shapes[-1])
            return 2 * self.calls * pixels * math.prod(weight[1:])
        if self.operator.endswith(_ATTENTION):
            query, key, out = shapes[0], shapes[1], shapes[-1]
            return 2 * self.calls * math.prod(query[:-1]) * key[-2] * (query[-1] + out[-1])
        return None

    @property
    def moved_bytes(self) -> int | None:
        """Bytes read and written, as far as they follow from shapes; None where no kernel ran."""
        library, _, name = self.operator.partition("::")
        if not name or library == "executorch_prim" or not self.tensors:
            return None
        if name.startswith(_PARTIAL_READERS):
            total = sum(math.prod(shape) * _itemsize(dtype) for dtype, shape in self.tensors)
            dtype, shape = self.tensors[-1]
            return 2 * self.bytes * math.prod(shape) * _itemsize(dtype) // max(1, total)
        return self.bytes


def _itemsize(dtype: str) -> int:
    """Of the format's names, which carry the width in bits: f32, bf16, i64, b8."""
    bits = re.search(r"\d+", dtype)
    return int(bits[0]) // 8 if bits else 0


def bound_of(p: InstructionProfile, roof: Roofline) -> float | None:
    """Seconds that the machine needs at least: the longer of its arithmetic and its memory traffic.

    flops ÷ the peak of multiply-adds, and bytes ÷ bandwidth: as many bytes as are both read and
    written at the rate of a copy, the rest at that of reading or writing. Bytes are moved_bytes:
    every tensor of the call once, none for what a kernel packs or keeps aside. The bandwidth is
    that within a working set of one call's bytes, so small tensors are expected in a cache.
    Arithmetic that flops does not count (exp, sums) is taken to cost nothing. None where no
    kernel ran.
    """
    moved, flops = p.moved_bytes, p.flops
    if moved is None:
        return None
    written = min(p.written, moved)
    seconds = roof.memory_seconds(moved - written, written, moved // p.calls)
    if flops is not None:
        seconds = max(seconds, roof.compute_seconds(flops, p.tensors[-1][0]))
    return seconds


def profile_of(
    method: _C.Method, inputs: Sequence[Any], runs: int, n_threads: int
) -> list[InstructionProfile]:
    """Medians over runs with these inputs, the first of which is not counted."""
    if runs < 1:
        raise ValueError(f"profile: {runs} runs, needs 1 or more")

    def profiled() -> list[_C.InstructionRecord]:
        # Before every run: results may take the memory that inputs were copied to.
        method.set_inputs(inputs)
        return method.profile()

    profiled()
    rounds = [profiled() for _ in range(runs)]
    times: dict[int, list[int]] = {}
    node_times: dict[tuple[int, int], list[int]] = {}
    for records in rounds:
        for record in records:
            times.setdefault(record["instruction"], []).append(record["ns"])
            for i, (_, ns, _) in enumerate(record["nodes"]):
                node_times.setdefault((record["instruction"], i), []).append(ns)
    roof = measured(n_threads)
    profile = []
    for record in rounds[-1]:
        p = _from_record(record)
        nodes = tuple(
            replace(node, seconds=statistics.median(node_times[p.instruction, i]) / 1e9)
            for i, node in enumerate(p.nodes)
        )
        p = replace(p, nodes=nodes)
        seconds = statistics.median(times[p.instruction]) / 1e9
        profile.append(replace(p, seconds=seconds, bound_seconds=bound_of(p, roof)))
    return profile


def _from_record(record: _C.InstructionRecord) -> InstructionProfile:
    return InstructionProfile(
        record["instruction"],
        record["operator"],
        record["calls"],
        record["ns"] / 1e9,
        record["bytes"],
        tuple(record["tensors"]),
        record["written"],
        nodes=tuple(
            NodeProfile(name, ns / 1e9, None if handle < 0 else handle)
            for name, ns, handle in record["nodes"]
        ),
    )
