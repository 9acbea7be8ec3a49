"""Rules that decide about outputs beyond the tolerances, in their order.

The same model in float64 decides about a model of floats (reference.py), the graph in lockstep with
the file about a quantized one (rounding.py). After float64 comes the graph of floats in lockstep
(float_lockstep.py): it allows the rounding error of each operator (operator_rounding.py) and the
bound of Winograd convolutions. For quantized weights the graph's sensitivity is the last rule.
The operands of a file of precision bf16 are rounded (rounded_products.py): the graph with the same
rounding decides, its outputs first, then in lockstep.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch.utils import _pytree as pytree

from executorch_py.testing.comparison import Comparison, ParityReport, compare_tensors
from executorch_py.testing.file_values import FileValues
from executorch_py.testing.float_lockstep import Slack, in_lockstep
from executorch_py.testing.graph_values import ModelGraph, model_graph
from executorch_py.testing.reference import WIDE, NoReference, NotComparable, in_float64
from executorch_py.testing.rounded_products import RoundedProducts
from executorch_py.testing.rounding import Rounded, RoundedOutput, as_sensitive, rounded
from executorch_py.testing.sensitivity import sqnr_of

# Largest ratio of the distances of the program and of eager torch from float64 at which a model of
# floats is judged in lockstep, which does not see errors of the size of rounding. A chain of
# additions rounds 4 times as much as 16 blocks.
LOCKSTEP_FACTOR = 4.0
# Beginning of a note: eager torch is too far from the model in float64.
_LOST_DIGITS = "no float64 reference: eager torch itself"

Inputs = tuple[Sequence[Any], Mapping[str, Any]]
# The tensors that a file computes of flat inputs, and with floats of delegates if the flag is set.
Values = Callable[[Sequence[Any], bool], FileValues]


@dataclass(frozen=True)
class Run:
    """A model and its inputs at one size, results of the program and of eager torch, file values.

    `structure` is that of the inputs, which are flat.
    """

    model: Callable[..., Any]
    flat: Sequence[Any]
    structure: pytree.TreeSpec
    ours: Sequence[Any]
    eager: Sequence[Any]
    values: Values | None
    products: RoundedProducts | None = None  # those in bf16, if there are any
    slack: Slack | None = None  # of Winograd convolutions, if the file has some

    def inputs(self) -> Inputs:
        """Positional and keyword arguments, which the caller may write to."""
        args, kwargs = pytree.tree_unflatten(cloned(self.flat), self.structure)
        return args, kwargs

    @cached_property
    def graph(self) -> ModelGraph:
        return model_graph(self.model, *self.inputs(), self.flat)


def cloned(values: Sequence[Any]) -> list[Any]:
    return [v.clone() if isinstance(v, torch.Tensor) else v for v in values]


def judge(
    found: list[Comparison], run: Run, is_quantized: bool, report: ParityReport
) -> list[Comparison]:
    """The comparisons, each by the first rule that it passes; the report explains the nodes."""
    if run.products is not None and not is_quantized:
        return _judge_bf16(found, run, run.products, report)
    if all(c.ok and c.rule == "tolerance" for c in found):
        return found
    sizes = found[0].sizes
    if not is_quantized:
        found = _judge_float64(found, run)
        if run.values is None or all(c.ok or _is_far(c) for c in found):
            return found
        try:
            return _judge_lockstep(found, run, run.graph, report)
        except NotComparable as error:
            report.explain(sizes, [f"nodes are not compared: {error}"], error)
            return found
    graph = None
    try:
        graph = run.graph
        if graph.is_quantized and run.values is not None:
            values = run.values
            result = rounded(graph, lambda: values(cloned(run.flat), False), run.ours, run.eager)
            report.explain(sizes, result.explanation, result.cause)
            return _judge_rounding(found, run, result)
    except NotComparable as error:
        report.explain(sizes, [f"nodes are not compared: {error}"], error)
    found = _judge_float64(found, run)
    if graph is None or all(c.ok for c in found):
        return found
    if not graph.is_quantized and run.values is not None:
        found = _judge_lockstep(found, run, graph, report)
    return _judge_sensitivity(found, run, graph)


def _judge_float64(found: list[Comparison], run: Run) -> list[Comparison]:
    """The float64 results decide comparisons beyond the default tolerance."""
    failed = [
        not c.ok and isinstance(e, torch.Tensor) and e.dtype in WIDE
        for c, e in zip(found, run.eager, strict=True)
    ]
    if not any(failed):
        return found
    try:
        wide = in_float64(run.model, *run.inputs())
        if len(wide) != len(run.eager):
            raise NoReference(f"expected {len(run.eager)} outputs, got {len(wide)}")
    except NoReference as error:
        note = f"no float64 reference: {error}"
        return [replace(c, note=note) if f else c for c, f in zip(found, failed, strict=True)]
    return [
        _by_float64(c, torch.as_tensor(a), b, w) if f else c
        for c, f, a, b, w in zip(found, failed, run.ours, run.eager, wide, strict=True)
    ]


def _by_float64(
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


def _distance(result: torch.Tensor, reference: torch.Tensor) -> float:
    """Largest difference; infinite if one of two elements is NaN or they differ by an infinity."""
    result = result.detach().to(reference.dtype)
    same = (result == reference) | (result.isnan() & reference.isnan())
    difference = (result - reference).abs().masked_fill(same, 0.0)
    if not difference.numel():
        return 0.0
    return float(difference.nan_to_num(nan=math.inf, posinf=math.inf).max())


def _is_far(comparison: Comparison) -> bool:
    """Whether the distances from float64 say that a result is wrong, whatever follows from what."""
    ours, eager = comparison.program_to_float64, comparison.eager_to_float64
    return ours is not None and eager is not None and ours > LOCKSTEP_FACTOR * eager


def _judge_rounding(found: list[Comparison], run: Run, all_: Rounded) -> list[Comparison]:
    return [
        _decided(c, torch.as_tensor(run.ours[i]), run.eager[i], all_, i)
        if isinstance(run.eager[i], torch.Tensor) and (not c.ok or c.rule == "quantization step")
        else c
        for i, c in enumerate(found)
    ]


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


def _judge_lockstep(
    found: list[Comparison], run: Run, graph: ModelGraph, report: ParityReport
) -> list[Comparison]:
    """Comparisons that pass if the output follows from the file's own floats."""
    assert run.values is not None
    sizes = found[0].sizes
    try:
        tensors = run.values(cloned(run.flat), True).tensors
        walk = in_lockstep(graph, tensors, slack_of=run.slack)
    except NotComparable as error:
        report.explain(sizes, [f"nodes are not compared: {error}"], error)
        return found
    report.explain(sizes, walk.explained())
    expected = walk.outputs[len(walk.outputs) - len(found) :]  # the graph's begin with its state
    return [
        c
        if c.ok or _is_far(c) or not _follows(c, a, b)
        else replace(c, rule="lockstep", mismatched=0, note="")
        for c, a, b in zip(found, run.ours, expected, strict=True)
    ]


def _judge_bf16(
    found: list[Comparison], run: Run, products: RoundedProducts, report: ParityReport
) -> list[Comparison]:
    """Comparisons with the model whose products round their operands as the file does."""
    sizes = found[0].sizes
    lines = [f"precision bf16: operands of {products.n_calls} products are rounded to bfloat16"]
    try:
        graph = run.graph
        wanted = products.outputs(graph)[-len(found) :]  # the graph's begin with its state
        lines += [
            f"{c.output}: {_figures(ours, eager)} of eager torch in f32, "
            f"{_figures(ours, near)} of eager torch with rounded operands"
            for c, ours, eager, near in zip(found, run.ours, run.eager, wanted, strict=True)
            if isinstance(near, torch.Tensor) and near.is_floating_point()
        ]
        follows = [_follows(c, a, b) for c, a, b in zip(found, run.ours, wanted, strict=True)]
        if not all(follows) and run.values is not None:
            values = run.values(cloned(run.flat), True).tensors
            walk = in_lockstep(graph, values, products.of_run().value_of, run.slack)
            lines += walk.explained()
            expected = walk.outputs[-len(found) :]
            follows = [
                f or _follows(c, a, b)
                for f, c, a, b in zip(follows, found, run.ours, expected, strict=True)
            ]
    except NotComparable as error:
        report.explain(sizes, [*lines, f"nodes are not compared: {error}"], error)
        return found
    report.explain(sizes, lines)
    return [
        replace(c, rule="bf16", mismatched=0 if ok else max(c.mismatched, 1), note="")
        if isinstance(b, torch.Tensor)
        else c
        for c, ok, b in zip(found, follows, wanted, strict=True)
    ]


def _figures(ours: Any, wanted: torch.Tensor) -> str:
    """The signal-to-noise ratio and the largest difference of a result."""
    result = torch.as_tensor(ours)
    ratio = sqnr_of(result, wanted) if result.numel() else math.inf
    return f"SQNR {ratio:.1f} dB, max abs error {_distance(result, wanted):.3g}"


def _follows(comparison: Comparison, ours: Any, expected: Any) -> bool:
    if not isinstance(expected, torch.Tensor):
        return False
    label, sizes = comparison.output, comparison.sizes
    return compare_tensors(label, sizes, torch.as_tensor(ours), expected, None, None).ok


def _judge_sensitivity(found: list[Comparison], run: Run, graph: ModelGraph) -> list[Comparison]:
    """Comparisons of outputs without correct digits in eager torch, judged by its sensitivity."""
    lost = [c.note.startswith(_LOST_DIGITS) for c in found]
    if not any(lost):
        return found
    try:
        outputs = as_sensitive(graph, run.ours, run.eager)
    except NotComparable:  # said before
        return found
    return [_by_sensitivity(c, o) if n else c for c, o, n in zip(found, outputs, lost, strict=True)]


def _by_sensitivity(comparison: Comparison, output: RoundedOutput) -> Comparison:
    found = replace(comparison, sqnr_db=output.sqnr_db, moved_sqnr_db=output.moved_sqnr_db)
    if output.is_as_sensitive:
        return replace(found, rule="sensitivity", mismatched=0, note=output.figures())
    return replace(found, note=f"{comparison.note}; {output.figures()}")
