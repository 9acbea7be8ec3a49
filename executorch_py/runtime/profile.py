"""Profile of a run: one InstructionProfile per instruction, from Method.profile().

The profile has the operations and bytes of each instruction, and compares its time with the
machine's roofline. The module is imported on the first profile, because a program that only runs
does not need it.
"""

from __future__ import annotations

import math
import numbers
import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from executorch_py import _C
from executorch_py.runtime.roofline import Roofline, measured

# Operand whose last dimension a matrix product sums over, counted among the instruction's tensors.
_SUMMED_OPERAND = {
    "aten::mm.out": 0,
    "aten::bmm.out": 0,
    "aten::linear.out": 0,
    "aten::addmm.out": 1,
    "executorch_py::mm.out": 0,
    "executorch_py::addmm.out": 1,
    "executorch_py::linear_bf16.out": 0,
    "executorch_py::packed_linear.out": 0,
    "aten::baddbmm.out": 1,
}
_ATTENTION = "::scaled_dot_product_attention.out"
# Operators that read as many elements of their input as they write.
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

    `debug_handle` is that of the exported graph's node, None if it is unknown.
    """

    name: str
    seconds: float
    debug_handle: int | None = None


@dataclass(frozen=True)
class InstructionProfile:
    """Time of one instruction: an operator's overload, a backend's id, "move", "jump" or "free".

    A call that the preceding kernel absorbs is part of that call and is not listed: a relu or clamp
    in the memory of a convolution's result.

    `calls` is above 1 in loops. `seconds` is the median over the profiled runs, all calls of a run
    together. `bytes` counts all its tensors, alone or in lists, once per call, and `written` those
    of its results: of a delegate the last one. A move or a free touches no element, a jump reads
    its condition. `tensors` are (dtype, shape) of the last call, outputs last; of more than six,
    the first five and the last. `bound_seconds` is the minimum time on this machine, see
    bound_of(); None if it is unknown. `nodes` are the nodes of a delegate that reports them, in the
    order of its calls: XNNPACK does, in whole microseconds.
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
        """The share of the roofline that it reaches: 1.0 is the peak of this machine.

        More than 1 means less traffic or arithmetic than bound_of() assumes: data in a lower cache
        level, or masked scores that were skipped.
        """
        if self.bound_seconds is None or self.seconds == 0.0:
            return None
        return self.bound_seconds / self.seconds

    @property
    def flops(self) -> int | None:
        """Operations of matrix products, convolutions and attention (a multiply-add is two)."""
        shapes = [shape for _, shape in self.tensors]
        if len(shapes) < 3:
            return None
        if self.operator in _SUMMED_OPERAND:
            summed = shapes[_SUMMED_OPERAND[self.operator]][-1]
            return 2 * self.calls * math.prod(shapes[-1]) * summed
        if self.operator == "executorch_py::convolution_bf16.out":
            return 2 * self.calls * math.prod(shapes[-1]) * shapes[1][1] * shapes[1][3]
        if self.operator == "executorch_py::packed_convolution.out":
            return 2 * self.calls * math.prod(shapes[-1]) * shapes[1][2]
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
        """Bytes read and written, estimated from shapes.

        None if no kernel ran, or one that wrote no tensor: a size of a tensor moves none of its
        elements.
        """
        library, _, name = self.operator.partition("::")
        if not name or library == "executorch_prim" or not self.tensors or not self.written:
            return None
        if name.startswith(_PARTIAL_READERS):
            total = sum(math.prod(shape) * _itemsize(dtype) for dtype, shape in self.tensors)
            dtype, shape = self.tensors[-1]
            return 2 * self.bytes * math.prod(shape) * _itemsize(dtype) // max(1, total)
        return self.bytes


def _itemsize(dtype: str) -> int:
    """Bytes of an element of a dtype, whose short name has the width in bits: f32, bf16, b8."""
    bits = re.search(r"\d+", dtype)
    return int(bits[0]) // 8 if bits else 0


def bound_of(p: InstructionProfile, roof: Roofline) -> float | None:
    """Minimum time on this machine: the maximum of arithmetic time and memory time, in seconds.

    Arithmetic time is flops ÷ the peak rate of multiply-adds. Memory time is bytes ÷ bandwidth:
    bytes that are both read and written count at the rate of a copy, the rest at that of reading
    or writing. The bytes are moved_bytes: every tensor of the call once, without buffers that a
    kernel packs. The bandwidth is that of a working set of one call's bytes, so small tensors are
    expected in a cache. Arithmetic that flops does not count (exp, sums) has no time. None if no
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
    """Medians over runs with these inputs, after one run that is not counted."""
    given: Any = runs
    if isinstance(given, bool) or not isinstance(given, numbers.Integral) or given < 1:
        raise ValueError(f"profile: expected 1 or more runs, got {runs!r}")

    def profiled() -> list[_C.InstructionRecord]:
        # Set before every run, since results may reuse the memory that inputs were copied to.
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
