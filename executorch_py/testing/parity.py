"""Whole-model parity: results of the emitted bytes on the C runtime against those of eager torch.

Relies on a program's bytes, its exported program (for dynamic dimensions) and
executorch_py.runtime. Every check loads the program again, so that mutable state has its initial
values, and runs a copy of the model, so that the caller's model is not changed. If a result is
beyond the tolerances, the same model in float64 (reference.py) decides which of the two results
has the larger error; of a quantized model, the graph in lockstep with the file (rounding.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree

from executorch_py.testing.comparison import (
    EXACT,
    FLOAT64_FACTOR,
    MODEL_TOLERANCE,
    Comparison,
    ParityError,
    ParityReport,
    Tolerance,
    compare_tensors,
    compare_values,
)
from executorch_py.testing.file_values import FileValues, file_values
from executorch_py.testing.graph_values import model_graph
from executorch_py.testing.quantization_step import is_quantized, output_steps
from executorch_py.testing.random_draws import draws_of_model, draws_of_program
from executorch_py.testing.reference import (
    WIDE,
    NoReference,
    as_exported,
    first_line,
    in_float64,
    named_error,
)
from executorch_py.testing.rounding import Rounded, RoundedOutput, as_sensitive, rounded
from executorch_py.testing.sizes import SizedInputs, Sizes

if TYPE_CHECKING:
    from torch.export import ExportedProgram

    from executorch_py.exir.program.executorch import ExecutorchProgramManager

__all__ = [
    "EXACT",
    "FLOAT64_FACTOR",
    "MODEL_TOLERANCE",
    "Comparison",
    "ParityError",
    "ParityReport",
    "Tolerance",
    "assert_parity",
    "compare_runs",
    "verify_program",
]

# Beginning of a note: eager torch is too far from the model in float64.
_LOST_DIGITS = "no float64 reference: eager torch itself"

Values = Callable[[Sequence[Any]], FileValues]


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
            note=f"{_LOST_DIGITS} is {eager_distance:.3g} from it, more than {limit:.3g}",
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


def _by_rounding(
    comparison: Comparison, ours: torch.Tensor, eager: torch.Tensor, output: RoundedOutput
) -> Comparison:
    """A comparison that passes if the output follows from the file's own integers."""
    label, sizes = comparison.output, comparison.sizes
    plain = compare_tensors(label, sizes, ours, eager, None, None)
    exact = compare_tensors(label, sizes, ours, output.expected, None, None)
    passes = exact.ok or output.is_rounding(ours)
    return replace(
        plain,
        rule="rounding",
        mismatched=0 if passes else max(plain.mismatched, 1),
        worst=plain.worst or exact.worst,
        sqnr_db=output.sqnr_db,
        moved_sqnr_db=output.moved_sqnr_db,
        note=output.figures(),
    )


def _decided(
    comparison: Comparison, ours: torch.Tensor, eager: torch.Tensor, all_: Rounded, i: int
) -> Comparison:
    """The comparison of a quantized program's output by the first rule that it passes."""
    output = all_.outputs[i]
    found = _by_rounding(comparison, ours, eager, output)
    if found.ok or all_.is_wrong:
        return found
    if not all_.is_hidden:
        return replace(
            found,
            note=f"{found.note}; first difference: {output.source}, behind integers that agree",
        )
    if comparison.ok:  # by one step of the output, and no node is wrong for certain
        return comparison
    return replace(found, rule="sensitivity", mismatched=0) if output.is_as_sensitive else found


def _judge_rounding(
    found: list[Comparison],
    ours: Sequence[Any],
    eager: Sequence[Any],
    all_: Rounded,
) -> list[Comparison]:
    return [
        _decided(c, torch.as_tensor(ours[i]), eager[i], all_, i)
        if isinstance(eager[i], torch.Tensor) and (not c.ok or c.rule == "quantization step")
        else c
        for i, c in enumerate(found)
    ]


def _judge_sensitivity(
    found: list[Comparison],
    model: Callable[..., Any],
    inputs: tuple[Sequence[Any], Mapping[str, Any]],
    case: SizedInputs,
    ours: Sequence[Any],
    eager: Sequence[Any],
) -> list[Comparison]:
    """Comparisons of outputs without correct digits in eager torch, judged by its sensitivity."""
    if not any(c.note.startswith(_LOST_DIGITS) for c in found):
        return found
    try:
        outputs = as_sensitive(model_graph(model, *inputs, case.flat), ours, eager)
    except Exception:  # a model without a graph: the comparisons say why they fail
        return found
    return [
        replace(
            c,
            rule="sensitivity",
            mismatched=0,
            note=o.figures(),
            sqnr_db=o.sqnr_db,
            moved_sqnr_db=o.moved_sqnr_db,
        )
        if c.note.startswith(_LOST_DIGITS) and o.is_as_sensitive
        else c
        for c, o in zip(found, outputs, strict=True)
    ]


def _rounded(
    model: Callable[..., Any],
    inputs: tuple[Sequence[Any], Mapping[str, Any]],
    case: SizedInputs,
    values: Values,
    ours: Sequence[Any],
    eager: Sequence[Any],
) -> Rounded | str | None:
    """The model in lockstep with the file, None if it is not quantized, or why there is none."""
    try:
        graph = model_graph(model, *inputs, case.flat)
        if not graph.is_quantized:
            return None
        return rounded(graph, lambda: values(_clone(case.flat)), ours, eager)
    except Exception as error:  # the report says why, whatever the model or the file does
        return f"nodes are not compared: {named_error(error)}"


def compare_runs(
    exported: ExportedProgram,
    run: Callable[[Sequence[Any]], Sequence[Any]],
    model: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    rtol: float | None,
    atol: float | None,
    values: Values | None = None,
) -> ParityReport:
    """Compares run(flat inputs) -> flat outputs with the model at every size of Sizes.

    values(flat inputs) are the tensors that a quantized program computes on the way.
    """
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
            raise ParityError(
                f"at {case.label}, that is {case.sizes}: {first_line(error)}"
            ) from error
        if len(ours) != len(expected):
            raise ParityError(
                f"at {case.label}: expected {len(expected)} outputs as in eager torch, got "
                f"{len(ours)} from the program"
            )
        found = [
            compare_values(f"output {i}", case.label, a, b, rtol, atol, step)
            for i, (a, b, step) in enumerate(zip(ours, expected, steps, strict=True))
        ]
        if rtol is None and atol is None:
            inputs = pytree.tree_unflatten(_clone(case.flat), structure)
            judged = None
            if values is not None and is_quantized(exported) and not _all_by_tolerance(found):
                judged = _rounded(model, inputs, case, values, ours, expected)
            if isinstance(judged, Rounded):
                found = _judge_rounding(found, ours, expected, judged)
                report.explain(case.label, judged.explanation)
            else:
                report.explain(case.label, [judged] if judged else [])
                found = _judge_all(found, ours, expected, lambda: on_model(in_float64))
                if is_quantized(exported):
                    found = _judge_sensitivity(found, model, inputs, case, ours, expected)
        report.comparisons += found
    return report


def _all_by_tolerance(found: Sequence[Comparison]) -> bool:
    return all(c.ok and c.rule == "tolerance" for c in found)


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
    passes in these cases: its distance from the model in float64 is at most FLOAT64_FACTOR times
    that of eager torch; or the model is quantized, and the output follows from the file's own
    integers, each of which is one that eager torch may round to. If a tolerance is given, only that
    tolerance counts. Raises ParityError, which names the output, the index, both values and the
    errors, and of a quantized model the first node that differs.
    """

    def run(flat: Sequence[Any]) -> Sequence[Any]:
        return list(program._load(method).execute(list(flat)))

    def values(flat: Sequence[Any]) -> FileValues:
        return file_values(program, method, flat)

    args, kwargs = program._arguments(method, args, kwargs)
    exported = program.exported_program(method)
    report = compare_runs(exported, run, model, args, kwargs, rtol, atol, values)
    if not report.ok:
        draws = draws_of_program(exported) or draws_of_model(model, args, kwargs)
        lines = [f"method '{method}' differs from eager torch", draws, report.failure()]
        raise ParityError("\n".join(line for line in lines if line))
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
