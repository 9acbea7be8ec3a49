"""Comparison of one output with eager torch's: tolerances, deciding rules, and their report.

A comparison states the errors and the rule that decided. Knows neither programs nor graphs.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, field, replace
from typing import Any

import torch


class ParityError(AssertionError):
    """Outputs of the program and of eager torch differ.

    The message names the output, the index, both values and the errors.
    """


@dataclass(frozen=True)
class Tolerance:
    """Limit of an element's error: |program - eager| <= atol + rtol * |eager|."""

    rtol: float
    atol: float


# Whole models accumulate rounding over many operators; integers and bools must be equal.
MODEL_TOLERANCE = {
    torch.float64: Tolerance(1e-7, 1e-7),
    torch.float32: Tolerance(1e-4, 1e-5),
    torch.float16: Tolerance(1e-2, 1e-3),
    torch.bfloat16: Tolerance(5e-2, 1e-2),
    torch.complex64: Tolerance(1e-4, 1e-5),
    torch.complex128: Tolerance(1e-7, 1e-7),
}
EXACT = Tolerance(0.0, 0.0)

# Reasons of the rules for quantized programs.
REASONS = {
    "rounding": "it follows from the file's own values, each next to eager torch's",
    "bf16": "it follows from the file's precision: eager torch with operands rounded to bfloat16",
    "lockstep": "it follows from the file's own floats, each next to eager torch's",
    "winograd": "rounding error from float64, on the file's own image",
    "sensitivity": "eager torch itself moves about as far; a wrong node of less effect is not seen",
}
# Comparisons that a failure shows.
MOST_FAILURES = 5


# Largest allowed ratio of two distances from the float64 result: the program's and eager torch's.
FLOAT64_FACTOR = 2.0


@dataclass(frozen=True)
class Comparison:
    """Comparison of one output at one set of sizes.

    Relative errors are of elements that are not 0 in eager torch. `rule` names the deciding rule:
    "tolerance"; "quantization step", if elements beyond the default tolerance may differ by one
    `quantization_step` of the output; "float64", if the distances of the program and of eager
    torch from the model in float64 decide; "rounding", if the output follows from the file's own
    integers; "bf16", if eager torch with operands rounded to bfloat16 decides, as in the file;
    integers; "lockstep", if it follows from the file's own floats; "sensitivity", if the converted
    graph itself moves as far when its input moves a little; "winograd", of a Winograd convolution,
    if it is within the bound of its rounding error. Errors of the last are those from float64. For
    "rounding" and "sensitivity", `sqnr_db` is the signal-to-noise ratio against eager torch, and
    `moved_sqnr_db` that of eager torch against itself after its input moved.
    """

    output: str
    sizes: str
    max_abs_error: float
    max_rel_error: float
    mismatched: int
    elements: int
    worst: str
    rule: str = "tolerance"
    program_to_float64: float | None = None
    eager_to_float64: float | None = None
    note: str = ""
    quantization_step: float | None = None
    sqnr_db: float | None = None
    moved_sqnr_db: float | None = None

    @property
    def quantum(self) -> float | None:
        """Deprecated name of `quantization_step`."""
        warnings.warn(
            "Comparison.quantum is deprecated: use Comparison.quantization_step",
            DeprecationWarning,
            stacklevel=2,
        )
        return self.quantization_step

    @property
    def ok(self) -> bool:
        if self.mismatched == 0:
            return True
        ours, eager = self.program_to_float64, self.eager_to_float64
        if self.rule != "float64" or ours is None or eager is None:
            return False
        return ours <= FLOAT64_FACTOR * eager

    def __str__(self) -> str:
        text = (
            f"{self.output} at {self.sizes}: max abs error {self.max_abs_error:.3g}, "
            f"max rel error {self.max_rel_error:.3g}: "
        )
        if self.rule in REASONS and self.mismatched == 0:
            reason = "; ".join(part for part in (REASONS[self.rule], self.note) if part)
            return text + f"ok by {self.rule}: {reason}"
        step = self.quantization_step
        one = "" if step is None else f"one quantization step of the output, {step:.3g}"
        if self.mismatched == 0:
            return text + f"ok by {one or 'tolerance'}"
        by = f" by more than {one}" if one else ""
        differ = f"{self.mismatched} of {self.elements} elements differ{by}; {self.worst}"
        if self.rule != "float64":
            return text + differ + (f"; {self.note}" if self.note else "")
        errors = (
            f"the program is {self.program_to_float64:.3g} from the model in float64, eager torch "
            f"{self.eager_to_float64:.3g}, allowed are {FLOAT64_FACTOR:g} times that"
        )
        return text + (f"ok by float64: {errors}" if self.ok else f"{differ}; {errors}")


@dataclass
class ParityReport:
    """Comparisons of one verification, and the sizes that it left out. str() is a table.

    `explained` has lines about the nodes of a quantized program at some sizes, where outputs alone
    say nothing. `cause` is the error for which nodes were not compared, if there was one.
    `not_finite` has lines about NaN and infinite values, which come before the comparisons.
    """

    comparisons: list[Comparison] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    explained: list[tuple[str, list[str]]] = field(default_factory=list)
    cause: BaseException | None = None
    not_finite: list[tuple[str, list[str]]] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return all(c.ok for c in self.comparisons)

    @property
    def max_abs_error(self) -> float:
        return max((c.max_abs_error for c in self.comparisons), default=0.0)

    def __str__(self) -> str:
        left_out = [f"left out: {x}" for x in self.left_out]
        comparisons = map(str, self.comparisons)
        first = _lines_of(self.not_finite)
        return "\n".join([*first, *comparisons, *self.explanation, *left_out])

    @property
    def explanation(self) -> list[str]:
        """Lines about the nodes, each with the sizes that it is about."""
        return _lines_of(self.explained)

    def explain(self, sizes: str, lines: list[str], cause: BaseException | None = None) -> None:
        """Adds lines about the nodes at some sizes."""
        self.explained.append((sizes, lines))
        self.cause = self.cause or cause

    def failure(self) -> str:
        """The comparisons that failed, the first in full, and the explanations of their sizes.

        Values that are not finite come first, since they explain differences.
        """
        failed = [c for c in self.comparisons if not c.ok]
        lines = [str(c) for c in failed[:MOST_FAILURES]]
        if failed[MOST_FAILURES:]:
            lines.append(f"and {len(failed) - MOST_FAILURES} more outputs that differ")
        n_right = len(self.comparisons) - len(failed)
        if n_right:
            lines.append(f"{n_right} other comparisons are ok")
        sizes = {c.sizes for c in failed}
        first, last = (
            _lines_of([e for e in explained if e[0] in sizes])
            for explained in (self.not_finite, self.explained)
        )
        return "\n".join([*first, *lines, *last])


def _lines_of(explained: list[tuple[str, list[str]]]) -> list[str]:
    """Explanations, each once, with all sizes in its first line."""
    sizes: dict[tuple[str, ...], list[str]] = {}
    for label, lines in explained:
        if lines and label not in sizes.setdefault(tuple(lines), []):
            sizes[tuple(lines)].append(label)
    return [
        line
        for (first, *more), labels in sizes.items()
        for line in (f"{first} (at {', '.join(labels)})", *more)
    ]


def compare_tensors(
    label: str,
    sizes: str,
    ours: torch.Tensor,
    eager: torch.Tensor,
    rtol: float | None,
    atol: float | None,
    step: float | None = None,
) -> Comparison:
    if ours.shape != eager.shape or ours.dtype != eager.dtype:
        raise ParityError(
            f"{label} at {sizes}: expected {tuple(eager.shape)} {eager.dtype} as in eager torch, "
            f"got {tuple(ours.shape)} {ours.dtype} from the program"
        )
    base = MODEL_TOLERANCE.get(eager.dtype, EXACT)
    limit = Tolerance(base.rtol if rtol is None else rtol, base.atol if atol is None else atol)
    wide = torch.complex128 if eager.dtype.is_complex else torch.float64
    if not (eager.dtype.is_floating_point or eager.dtype.is_complex):
        wide, limit = torch.int64, EXACT
        if eager.dtype == torch.uint64:
            wide = torch.float64
    if step is not None:  # and the rounding of the scale
        limit = replace(limit, atol=max(limit.atol, step * (1 + 1e-5)))
    a, b = ours.detach().to(wide), eager.detach().to(wide)
    same = (a == b) | (a.isnan() & b.isnan()) if wide != torch.int64 else a == b
    difference = torch.where(same, torch.zeros_like((a - b).abs()), (a - b).abs()).to(torch.float64)
    allowed = limit.atol + limit.rtol * b.abs().to(torch.float64)
    wrong = ~same & ~(difference <= allowed)
    count = int(wrong.sum())
    size = b.abs().to(torch.float64)
    relative = torch.where(size > 0, difference / size, torch.zeros_like(size))
    worst = ""
    if count:
        score = torch.where(
            wrong, torch.nan_to_num(difference, nan=math.inf), torch.full_like(difference, -1.0)
        )
        flat = int(score.argmax())
        index = tuple(int(i) for i in torch.unravel_index(torch.tensor(flat), eager.shape))
        worst = (
            f"worst at {list(index)}: program {ours[index].item()!r}, "
            f"eager {eager[index].item()!r} "
            f"(allowed: rtol {limit.rtol:g}, atol {limit.atol:g})"
        )
    return Comparison(
        output=label,
        sizes=sizes,
        max_abs_error=float(difference.max()) if difference.numel() else 0.0,
        max_rel_error=float(relative.max()) if relative.numel() else 0.0,
        mismatched=count,
        elements=eager.numel(),
        worst=worst,
        rule="tolerance" if step is None else "quantization step",
        quantization_step=step,
    )


def compare_values(
    label: str,
    sizes: str,
    ours: Any,
    eager: Any,
    rtol: float | None,
    atol: float | None,
    step: float | None,
) -> Comparison:
    if isinstance(eager, torch.Tensor):
        if not isinstance(ours, torch.Tensor):
            ours = torch.as_tensor(ours)
        found = compare_tensors(label, sizes, ours, eager, rtol, atol)
        if found.ok or step is None or rtol is not None or atol is not None:
            return found
        return compare_tensors(label, sizes, ours, eager, rtol, atol, step)
    close = ours == eager
    if isinstance(eager, float) and isinstance(ours, float):
        close = math.isclose(ours, eager, rel_tol=rtol or 1e-6, abs_tol=atol or 1e-6) or (
            math.isnan(ours) and math.isnan(eager)
        )
    worst = "" if close else f"program {ours!r}, eager {eager!r}"
    return Comparison(label, sizes, 0.0, 0.0, 0 if close else 1, 1, worst)
