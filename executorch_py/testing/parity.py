"""Whole-model parity: what the emitted bytes compute on the C runtime against what eager torch
computes.

Relies on a program's bytes, its exported program (for dynamic dimensions) and
executorch_py.runtime. Every check loads the program anew, so that mutable state starts as the file
says, and runs a copy of the model, so that the caller's is untouched. If rounding alone carries a
model past the tolerances, the same model in float64 (reference.py) says which of the two results is
further off.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree

from executorch_py.testing.quantization_step import output_quanta
from executorch_py.testing.reference import WIDE, NoReference, as_exported, in_float64
from executorch_py.testing.sizes import Sizes

if TYPE_CHECKING:
    from torch.export import ExportedProgram

    from executorch_py.exir.program.executorch import ExecutorchProgramManager


class ParityError(AssertionError):
    """Outputs of the program and of eager torch differ.

    The message names output, index, values and error figures.
    """


@dataclass(frozen=True)
class Tolerance:
    """|ours - eager| <= atol + rtol * |eager|, element by element."""

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


# A result may be so many times further from the float64 result than eager torch's own is.
FLOAT64_FACTOR = 2.0


@dataclass(frozen=True)
class Comparison:
    """One output at one set of sizes. Relative errors are of elements that eager has not as 0.

    `rule` is what decided: "tolerance"; "quantum" where elements beyond the default tolerance may
    be one `quantum` of a quantized output off; or "float64" where they are judged by how far the
    program and eager torch each are from the model in float64.
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
    quantum: float | None = None

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
        one = "" if self.quantum is None else f"one quantum of the output, {self.quantum:.3g}"
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
    """All comparisons of one verification, and the sizes that it left out. str() is a table."""

    comparisons: list[Comparison] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return all(c.ok for c in self.comparisons)

    @property
    def max_abs_error(self) -> float:
        return max((c.max_abs_error for c in self.comparisons), default=0.0)

    def __str__(self) -> str:
        return "\n".join([*map(str, self.comparisons), *(f"left out: {x}" for x in self.left_out)])


def _compare_tensors(
    label: str,
    sizes: str,
    ours: torch.Tensor,
    eager: torch.Tensor,
    rtol: float | None,
    atol: float | None,
    quantum: float | None = None,
) -> Comparison:
    if ours.shape != eager.shape or ours.dtype != eager.dtype:
        raise ParityError(
            f"{label} at {sizes}: the program returned {tuple(ours.shape)} {ours.dtype}, "
            f"eager torch {tuple(eager.shape)} {eager.dtype}"
        )
    base = MODEL_TOLERANCE.get(eager.dtype, EXACT)
    limit = Tolerance(base.rtol if rtol is None else rtol, base.atol if atol is None else atol)
    wide = torch.complex128 if eager.dtype.is_complex else torch.float64
    if not (eager.dtype.is_floating_point or eager.dtype.is_complex):
        wide, limit = torch.int64, EXACT
        if eager.dtype == torch.uint64:
            wide = torch.float64
    if quantum is not None:  # and the rounding of the scale
        limit = replace(limit, atol=max(limit.atol, quantum * (1 + 1e-5)))
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
        rule="tolerance" if quantum is None else "quantum",
        quantum=quantum,
    )


def _compare_values(
    label: str,
    sizes: str,
    ours: Any,
    eager: Any,
    rtol: float | None,
    atol: float | None,
    quantum: float | None,
) -> Comparison:
    if isinstance(eager, torch.Tensor):
        if not isinstance(ours, torch.Tensor):
            ours = torch.as_tensor(ours)
        found = _compare_tensors(label, sizes, ours, eager, rtol, atol)
        if found.ok or quantum is None or rtol is not None or atol is not None:
            return found
        return _compare_tensors(label, sizes, ours, eager, rtol, atol, quantum)
    close = ours == eager
    if isinstance(eager, float) and isinstance(ours, float):
        close = math.isclose(ours, eager, rel_tol=rtol or 1e-6, abs_tol=atol or 1e-6) or (
            math.isnan(ours) and math.isnan(eager)
        )
    worst = "" if close else f"program {ours!r}, eager {eager!r}"
    return Comparison(label, sizes, 0.0, 0.0, 0 if close else 1, 1, worst)


def _clone(values: Sequence[Any]) -> list[Any]:
    return [v.clone() if isinstance(v, torch.Tensor) else v for v in values]


def _distance(result: torch.Tensor, reference: torch.Tensor) -> float:
    """The largest difference; infinite where only one of the two is a number or they differ by
    an infinity.
    """
    result = result.detach().to(reference.dtype)
    same = (result == reference) | (result.isnan() & reference.isnan())
    difference = (result - reference).abs().masked_fill(same, 0.0)
    if not difference.numel():
        return 0.0
    return float(difference.nan_to_num(nan=math.inf, posinf=math.inf).max())


def _judge(
    comparison: Comparison, ours: torch.Tensor, eager: torch.Tensor, reference: Any
) -> Comparison:
    """A comparison that failed by the default tolerance, decided by the float64 result."""
    if not isinstance(reference, torch.Tensor) or reference.shape != eager.shape:
        return replace(comparison, note="no float64 reference: it has another shape")
    off = _distance(eager, reference)
    finite = reference.abs()[reference.abs().isfinite()]
    size = float(finite.max()) if finite.numel() else 0.0
    # With half the digits gone, the float64 run took another turn than the model did (it rounds,
    # compares or picks), or no result of this dtype means anything: it would excuse any program.
    limit = math.sqrt(torch.finfo(eager.dtype).eps) * size
    if off > limit:
        return replace(
            comparison,
            note=f"no float64 reference: eager torch itself is {off:.3g} from it, "
            f"more than {limit:.3g}",
        )
    return replace(
        comparison,
        rule="float64",
        program_to_float64=_distance(ours, reference),
        eager_to_float64=off,
    )


def _judge_all(
    found: list[Comparison],
    ours: Sequence[Any],
    eager: Sequence[Any],
    wide_run: Callable[[], Sequence[Any]],
) -> list[Comparison]:
    """The comparisons, those beyond the default tolerance decided by the float64 results."""
    doubtful = [
        not c.ok and isinstance(e, torch.Tensor) and e.dtype in WIDE
        for c, e in zip(found, eager, strict=True)
    ]
    if not any(doubtful):
        return found
    try:
        wide = list(wide_run())
        if len(wide) != len(eager):
            raise NoReference(f"it has {len(wide)} outputs instead of {len(eager)}")
    except NoReference as error:
        note = f"no float64 reference: {error}"
        return [replace(c, note=note) if d else c for c, d in zip(found, doubtful, strict=True)]
    return [
        _judge(c, torch.as_tensor(a), b, w) if d else c
        for c, d, a, b, w in zip(found, doubtful, ours, eager, wide, strict=True)
    ]


def compare_runs(
    exported: ExportedProgram,
    run: Callable[[Sequence[Any]], Sequence[Any]],
    model: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    rtol: float | None,
    atol: float | None,
) -> ParityReport:
    """Compares run(flat inputs) -> flat outputs with the model at every size of Sizes."""
    sizes, quanta = Sizes(exported, args, kwargs), output_quanta(exported)
    report = ParityReport(left_out=sizes.left_out)
    _, structure = pytree.tree_flatten((tuple(args), dict(kwargs)))
    for case in sizes:

        def on_model(how: Callable[..., list[Any]], flat: Sequence[Any] = case.flat) -> list[Any]:
            return how(model, *pytree.tree_unflatten(_clone(flat), structure))

        try:
            ours = list(run(_clone(case.flat)))  # first: it refuses wrong inputs by name
            expected = on_model(as_exported)
        except Exception as error:
            if case.is_given:
                raise
            raise ParityError(f"at {case.label}, that is {case.sizes}: {error}") from error
        if len(ours) != len(expected):
            raise ParityError(
                f"at {case.label}: the program returned {len(ours)} outputs, "
                f"eager torch {len(expected)}"
            )
        found = [
            _compare_values(f"output {i}", case.label, a, b, rtol, atol, quantum)
            for i, (a, b, quantum) in enumerate(zip(ours, expected, quanta, strict=True))
        ]
        if rtol is None and atol is None:
            found = _judge_all(found, ours, expected, lambda: on_model(in_float64))
        report.comparisons += found
    return report


def _random_operators(exported: ExportedProgram) -> str:
    from executorch_py.exir.ir.graph_modules import graph_modules
    from executorch_py.exir.ir.op_traits import is_random, op_key, op_overload

    found = {
        op_key(node.target)
        for module in graph_modules(exported.graph_module)
        for node in module.graph.nodes
        if node.op == "call_function"
        and (op := op_overload(node.target)) is not None
        and is_random(op)
    }
    if not found:
        return ""
    return (
        f"\nThe program draws random numbers ({', '.join(sorted(found))}), not those that eager "
        "torch draws. To compare, take them as an input, or export in eval mode."
    )


def verify_program(
    program: ExecutorchProgramManager,
    model: Callable[..., Any],
    *args: Any,
    method: str = "forward",
    rtol: float | None = None,
    atol: float | None = None,
    **kwargs: Any,
) -> ParityReport:
    """Runs the program's bytes on the C runtime and compares with eager torch.

    The inputs are used as given and, where dimensions are dynamic, at the minimum, middle and
    maximum of each; the report says which sizes were left out because a delegate runs no tensors
    without elements. Tolerances default per dtype (MODEL_TOLERANCE). An output beyond them still
    passes when no element is more than one quantum off, where it was quantized last, or when it is
    at most FLOAT64_FACTOR times as far from the model in float64 as eager torch is. A tolerance
    that is given is all that counts. Raises ParityError naming output, index, both values and the
    error figures.
    """

    def run(flat: Sequence[Any]) -> Sequence[Any]:
        return list(program._load(method).execute(list(flat)))

    args, kwargs = program._arguments(method, args, kwargs)
    report = compare_runs(program.exported_program(method), run, model, args, kwargs, rtol, atol)
    if not report.ok:
        hint = _random_operators(program.exported_program(method))
        raise ParityError(f"method '{method}' differs from eager torch\n{report}{hint}")
    return report


def assert_parity(
    model: torch.nn.Module,
    inputs: Sequence[Any],
    *,
    kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
    partitioner: Any = None,
    rtol: float | None = None,
    atol: float | None = None,
) -> ParityReport:
    """Exports, lowers and emits the model, then verify_program.

    For pytest: raises ParityError (an AssertionError).
    """
    from executorch_py.exir import to_edge_transform_and_lower

    with torch.no_grad():
        exported = torch.export.export(
            model, tuple(inputs), kwargs=dict(kwargs or {}), dynamic_shapes=dynamic_shapes
        )
    program = to_edge_transform_and_lower(exported, partitioner=partitioner).to_executorch()
    return verify_program(program, model, *inputs, rtol=rtol, atol=atol, **dict(kwargs or {}))
