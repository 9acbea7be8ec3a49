"""Where the time of a run goes: one InstructionProfile per instruction, from Method.profile()."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from executorch_py import _C

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
class InstructionProfile:
    """What one instruction took: an operator's overload, a backend's id, "move", "jump" or "free".

    `calls` is above 1 in loops. `seconds` is the median over the profiled runs, all calls of a run
    together; `bytes` all tensors that it names, each counted once per call. `tensors` are (dtype,
    shape) of the last call, outputs last, six at most.
    """

    instruction: int
    operator: str
    calls: int
    seconds: float
    bytes: int
    tensors: tuple[tuple[str, tuple[int, ...]], ...]

    @property
    def flops(self) -> int | None:
        """Of products and convolutions, a multiply-add as two; None for other operators."""
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


def profile_of(method: _C.Method, inputs: Sequence[Any], runs: int) -> list[InstructionProfile]:
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
    for records in rounds:
        for record in records:
            times.setdefault(record["instruction"], []).append(record["ns"])
    last = [_from_record(record) for record in rounds[-1]]
    # Here, because importing the runtime should not import decimals and random numbers.
    import statistics

    return [replace(p, seconds=statistics.median(times[p.instruction]) / 1e9) for p in last]


def _from_record(record: _C.InstructionRecord) -> InstructionProfile:
    return InstructionProfile(
        record["instruction"],
        record["operator"],
        record["calls"],
        record["ns"] / 1e9,
        record["bytes"],
        tuple(record["tensors"]),
    )
