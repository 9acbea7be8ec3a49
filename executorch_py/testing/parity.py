"""Whole-model parity: results of the emitted bytes on the C runtime against those of eager torch.

Relies on a program's bytes, its exported program (for dynamic dimensions) and
executorch_py.runtime. Every check loads the program again, so that mutable state has its initial
values, and runs a copy of the model, so that the caller's model is not changed. If a result is
beyond the tolerances, the same model in float64 (reference.py) decides which of the two results
has the larger error.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree

from executorch_py.testing.quantization_step import output_steps
from executorch_py.testing.reference import WIDE, NoReference, as_exported, in_float64
from executorch_py.testing.sizes import Sizes

if TYPE_CHECKING:
    from torch.export import ExportedProgram

    from executorch_py.exir.program.executorch import ExecutorchProgramManager


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


# Largest allowed ratio of two distances from the float64 result: the program's and eager torch's.
FLOAT64_FACTOR = 2.0


@dataclass(frozen=True)
class Comparison:
    """Comparison of one output at one set of sizes.

    Relative errors are of elements that are not 0 in eager torch. `rule` names the deciding rule:
    "tolerance"; "quantization step", if elements beyond the default tolerance may differ by one
    `quantization_step` of the output; "float64", if the distances of the program and of eager
    torch from the model in float64 decide.
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
    """Comparisons of one verification, and the sizes that it left out. str() is a table."""

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


def _compare_values(
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
        found = _compare_tensors(label, sizes, ours, eager, rtol, atol)
        if found.ok or step is None or rtol is not None or atol is not None:
            return found
        return _compare_tensors(label, sizes, ours, eager, rtol, atol, step)
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
    """Largest difference; infinite if one of two elements is NaN or they differ by an infinity."""
    result = result.detach().to(reference.dtype)
    same = (result == reference) | (result.isnan() & reference.isnan())
    difference = (result - reference).abs().masked_fill(same, 0.0)
    if not difference.numel():
        return 0.0
    return float(difference.nan_to_num(nan=math.inf, posinf=math.inf).max())


def _judge(
    comparison: Comparison, ours: torch.Tensor, eager: torch.Tensor, reference: Any
) -> Comparison:
    """Decides by the float64 result a comparison that failed by the default tolerance."""
    if not isinstance(reference, torch.Tensor) or reference.shape != eager.shape:
        return replace(comparison, note="no float64 reference: its shape is not eager torch's")
    eager_distance = _distance(eager, reference)
    finite = reference.abs()[reference.abs().isfinite()]
    size = float(finite.max()) if finite.numel() else 0.0
    # An eager result with half its digits lost is no measure: either the float64 run chose another
    # branch or element than the model, or this dtype is too narrow. It would accept any program.
    limit = math.sqrt(torch.finfo(eager.dtype).eps) * size
    if eager_distance > limit:
        return replace(
            comparison,
            note=f"no float64 reference: eager torch itself is {eager_distance:.3g} from it, "
            f"more than {limit:.3g}",
        )
    return replace(
        comparison,
        rule="float64",
        program_to_float64=_distance(ours, reference),
        eager_to_float64=eager_distance,
    )


def _judge_all(
    found: list[Comparison],
    ours: Sequence[Any],
    eager: Sequence[Any],
    wide_run: Callable[[], Sequence[Any]],
) -> list[Comparison]:
    """All comparisons; the float64 results decide those beyond the default tolerance."""
    failed = [
        not c.ok and isinstance(e, torch.Tensor) and e.dtype in WIDE
        for c, e in zip(found, eager, strict=True)
    ]
    if not any(failed):
        return found
    try:
        wide = list(wide_run())
        if len(wide) != len(eager):
            raise NoReference(f"expected {len(eager)} outputs, got {len(wide)}")
    except NoReference as error:
        note = f"no float64 reference: {error}"
        return [replace(c, note=note) if f else c for c, f in zip(found, failed, strict=True)]
    return [
        _judge(c, torch.as_tensor(a), b, w) if f else c
        for c, f, a, b, w in zip(found, failed, ours, eager, wide, strict=True)
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
    sizes, steps = Sizes(exported, args, kwargs), output_steps(exported)
    report = ParityReport(left_out=sizes.left_out)
    _, structure = pytree.tree_flatten((tuple(args), dict(kwargs)))
    for case in sizes:

        def on_model(how: Callable[..., list[Any]], flat: Sequence[Any] = case.flat) -> list[Any]:
            return how(model, *pytree.tree_unflatten(_clone(flat), structure))

        try:
            ours = list(run(_clone(case.flat)))  # first, since it names a wrong input
            expected = on_model(as_exported)
        except Exception as error:
            if case.is_given:
                raise
            raise ParityError(f"at {case.label}, that is {case.sizes}: {error}") from error
        if len(ours) != len(expected):
            raise ParityError(
                f"at {case.label}: expected {len(expected)} outputs as in eager torch, got "
                f"{len(ours)} from the program"
            )
        found = [
            _compare_values(f"output {i}", case.label, a, b, rtol, atol, step)
            for i, (a, b, step) in enumerate(zip(ours, expected, steps, strict=True))
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
        f"\nThe program draws random numbers ({', '.join(sorted(found))}), which differ from those "
        "of eager torch. To compare, pass them as an input, or export in eval mode."
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
    maximum of each. The report lists sizes that were left out because a delegate runs no tensors
    without elements. Tolerances default per dtype (MODEL_TOLERANCE). An output beyond them still
    passes in two cases: it was quantized last and no element differs by more than one quantization
    step; or its distance from the model in float64 is at most FLOAT64_FACTOR times that of eager
    torch. If a tolerance is given, only that tolerance counts. Raises ParityError, which names the
    output, the index, both values and the errors.
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
