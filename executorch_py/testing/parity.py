"""Whole-model parity: results of the emitted bytes on the C runtime against those of eager torch.

Relies on a program's bytes, its exported program (for dynamic dimensions) and
executorch_py.runtime. Every check loads the program again, so that mutable state has its initial
values, and runs a copy of the model, so that the caller's model is not changed. The rules about
results beyond the tolerances are those of verdicts.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
    compare_values,
)
from executorch_py.testing.export_difference import export_difference
from executorch_py.testing.file_values import TracedFile
from executorch_py.testing.not_finite import explain_not_finite
from executorch_py.testing.quantization_step import is_quantized, output_steps
from executorch_py.testing.random_draws import draws_of_model, draws_of_program
from executorch_py.testing.reference import as_exported, first_line
from executorch_py.testing.rounded_products import RoundedProducts
from executorch_py.testing.sizes import Sizes
from executorch_py.testing.verdicts import Run, Values, cloned, judge
from executorch_py.testing.winograd_layers import WinogradLayers

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


def compare_runs(
    exported: ExportedProgram,
    run: Callable[[Sequence[Any]], Sequence[Any]],
    model: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    rtol: float | None,
    atol: float | None,
    values: Values | None = None,
    layers: WinogradLayers | None = None,
) -> ParityReport:
    """Compares run(flat inputs) -> flat outputs with the model at every size of Sizes.

    values(flat inputs, with_floats) are the tensors that a program computes on the way. layers are
    compared at each size as well.
    """
    sizes, steps = Sizes(exported, args, kwargs), output_steps(exported)
    report = ParityReport(left_out=sizes.left_out)
    quantized, products = is_quantized(exported), RoundedProducts(exported)
    _, structure = pytree.tree_flatten((tuple(args), dict(kwargs)))
    for case in sizes:
        try:
            ours = list(run(cloned(case.flat)))  # first, since it names a wrong input
            expected = as_exported(model, *pytree.tree_unflatten(cloned(case.flat), structure))
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
        in_bf16 = products if products.n_calls > 0 else None
        slack = layers.slack if layers else None
        results = Run(model, case.flat, structure, ours, expected, values, in_bf16, slack)
        if rtol is None and atol is None:
            found = judge(found, results, quantized, report)
        lines = explain_not_finite(found, results)
        report.not_finite.append((case.label, lines))
        report.comparisons += found
        if layers and rtol is None and atol is None:
            of_layers, notes = layers.compare(cloned(case.flat), case.label)
            report.comparisons += of_layers
            report.explain(case.label, notes)
    return report


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
    integers, each of which is one that eager torch may round to; or activations are floats, and it
    follows from the file's own. Outputs of a file of precision bf16 are compared with
    eager torch that rounds the same operands; the report has the distances from both. Of a file
    with Winograd convolutions (math="fast"), each of these is compared with float64 on the image
    that the file gives it, and must be within the bound of its rounding error (winograd_bound.py);
    an output beyond all tolerances passes if it follows from the file's own floats, each within
    that bound or a rounding of eager torch's. If a tolerance is given, only that tolerance counts.
    Raises ParityError, which names the output, the index, both values and the
    errors, and of a quantized model the first node that differs. Before that, it names NaN and
    infinite values in eager torch, and the node that makes the first.
    """

    def run(flat: Sequence[Any]) -> Sequence[Any]:
        return list(program._load(method).execute(list(flat)))

    args, kwargs = program._arguments(method, args, kwargs)
    exported = program.exported_program(method)
    values = TracedFile(program, method).values
    layers = WinogradLayers(program, method)
    report = compare_runs(exported, run, model, args, kwargs, rtol, atol, values, layers)
    if not report.ok:
        cause = (
            draws_of_program(exported)
            or draws_of_model(model, args, kwargs)
            or export_difference(model, args, kwargs)
        )
        lines = [f"method '{method}' differs from eager torch", cause, report.failure()]
        raise ParityError("\n".join(line for line in lines if line)) from report.cause
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
