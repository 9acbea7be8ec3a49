"""Validation of annotations by the partitioner's capability table, and the list of float calls.

An annotation that XNNPACK cannot compute with integers raises AnnotationError, whichever quantizer
wrote it. Calls that stay float are recorded with the reason. Annotations of constants alone are not
checked: XNNPACK reads such weights as floats.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import fx, nn
from torchao.quantization.pt2e.quantizer import (
    FixedQParamsQuantizationSpec,
    QuantizationSpecBase,
    SharedQuantizationSpec,
)

from executorch_py.backends.xnnpack.support.quantized_support import (
    TensorQuantization,
    float_reason,
    integer_reason,
    is_move,
)
from executorch_py.exir.ir.op_traits import is_getitem, op_key
from executorch_py.exir.ir.warn import warn_caller
from executorch_py.quantizer.annotate import (
    KEY,
    LEFT_FLOAT,
    AnnotationError,
    AnnotationWarning,
    LeftFloat,
    data_of,
    is_annotated,
    is_float,
    only_user,
    output_spec,
)
from executorch_py.quantizer.observer_report import Table
from executorch_py.quantizer.observers import is_constant, module_path, names_of, node_name
from executorch_py.quantizer.patterns import LIMITS, SHARING, Match, NodeFilter, Operand
from executorch_py.quantizer.spec import QuantizationConfig

NOT_SET = "no configuration or filter selects it"
NO_SCALE = "it takes the scale of its operand, which has none"

_SCALES_OF_CHANNELS = frozenset(
    {
        torch.per_channel_affine,
        torch.per_channel_symmetric,
        torch.per_channel_affine_float_qparams,
    }
)
_WITH_ZERO_POINT = frozenset({torch.per_tensor_affine, torch.per_channel_affine})


# ---- annotated integers


def shared_spec(spec: QuantizationSpecBase | None) -> Any:
    """The specification that a SharedQuantizationSpec refers to, through others like it."""
    seen: list[Any] = []
    while isinstance(spec, SharedQuantizationSpec):
        place: Any = spec.edge_or_node
        if place in seen:
            return None
        seen.append(place)
        operand, reader = place if isinstance(place, tuple) else (None, place)
        note = reader.meta.get(KEY)
        if note is None:
            return None
        spec = note.output_qspec if operand is None else note.input_qspec_map.get(operand)
    return spec


def quantization_of(spec: QuantizationSpecBase | None) -> TensorQuantization | None:
    """The facts of a specification that the target depends on; None for a float."""
    spec = shared_spec(spec)
    if spec is None or getattr(spec, "finds_scales", True) is False:
        return None
    scheme = getattr(spec, "qscheme", None)
    axis = (getattr(spec, "ch_axis", None) or 0) if scheme in _SCALES_OF_CHANNELS else None
    zero = scheme in _WITH_ZERO_POINT
    if isinstance(spec, FixedQParamsQuantizationSpec):
        zero = spec.zero_point != 0
    is_dynamic = bool(getattr(spec, "finds_scales", False) or getattr(spec, "is_dynamic", False))
    return TensorQuantization(spec.dtype, axis, zero, is_dynamic)


def refusal(match: Match, config: QuantizationConfig) -> str | None:
    """Why XNNPACK would not compute a match with the integers of a configuration."""
    specs = {
        Operand.ACTIVATION: config.input_activation,
        Operand.WEIGHT: config.weight,
        Operand.BIAS: None,
    }
    operands = {node: quantization_of(specs[kind]) for kind, node in match.operands()}
    weight = match.operand(Operand.WEIGHT)
    given = {node: how for node, how in operands.items() if how is not None and node is not weight}
    if weight is not None and (how := operands[weight]) is not None:
        axis = None if how.axis is None else match.pattern.weight_axis
        given[weight] = TensorQuantization(how.dtype, axis, how.has_zero_point)
    if all(is_constant(node) for node in given):
        return None
    return integer_reason(
        match.anchor, given, quantization_of(config.output_activation), is_constant
    )


def check(model: fx.GraphModule) -> None:
    """Raise AnnotationError if XNNPACK cannot compute some annotations, with all in one message."""
    found = []
    for node in model.graph.nodes:
        operands = _operands(node)
        if not any(_is_annotated_input(node, operand) for operand in operands):
            continue
        why = integer_reason(node, operands, _result(node), is_constant)
        if why is not None:
            found.append(f"{node_name(node)} as {_signature(operands, _result(node))}: {why}")
    if found:
        raise AnnotationError(
            f"{len(found)} annotation{'s' * (len(found) > 1)} that XNNPACK cannot compute:\n  "
            + "\n  ".join(found)
            + "\nLeave them out of the quantizer that wrote them. For other targets, compose"
            " quantizers with torchao's ComposableQuantizer, which checks nothing"
        )


def _is_annotated_input(node: fx.Node, operand: fx.Node) -> bool:
    """Whether a call's own annotation quantizes an operand that is not constant."""
    is_read = quantization_of(node.meta[KEY].input_qspec_map.get(operand)) is not None
    return is_read and not is_constant(operand)


def _operands(node: fx.Node) -> dict[fx.Node, TensorQuantization]:
    """The operands of a call that are quantized for it or were quantized as results before."""
    if node.op != "call_function" or not is_annotated(node):
        return {}
    note = node.meta[KEY]
    inputs = {n: quantization_of(spec) for n, spec in note.input_qspec_map.items()}
    if not any(inputs.values()):
        return {}
    results = {n: quantization_of(output_spec(n)) for n in node.all_input_nodes if n not in inputs}
    return {n: how for n, how in {**results, **inputs}.items() if how is not None}


def _result(node: fx.Node) -> TensorQuantization | None:
    """The quantization of a result: its own, that behind fused clamps, or that of all readers."""
    last: fx.Node | None = node
    while last is not None:
        found = quantization_of(output_spec(last))
        if found is not None:
            return found
        notes = [user.meta.get(KEY) for user in last.users]
        read = [None if n is None else n.input_qspec_map.get(last) for n in notes]
        if read and read[0] is not None and all(spec == read[0] for spec in read):
            return quantization_of(read[0])
        last = only_user(last)
        is_part = last is not None and (last.target in LIMITS or "batch_norm" in str(last.target))
        last = last if is_part else None
    return None


def _signature(
    operands: dict[fx.Node, TensorQuantization], result: TensorQuantization | None
) -> str:
    """The element types of a call: `int8 a, int8 b -> float`."""

    def word(how: TensorQuantization | None) -> str:
        if how is None:
            return "float"
        name = str(how.dtype).removeprefix("torch.")
        return f"{'dynamic ' * how.is_dynamic}{name}{' per channel' * (how.axis is not None)}"

    given = ", ".join(f"{word(how)} {node.name}" for node, how in operands.items())
    return f"{given} -> {word(result)}"


# ---- calls left float


def left_float(model: nn.Module) -> Table:
    """A table with a row and a reason for each call of a model that stays float.

    model: prepared or converted; conversion adds divisors that it would round to 0.
    """
    rows = model.meta.get(LEFT_FLOAT, ()) if isinstance(model, fx.GraphModule) else ()
    return Table(rows, _COLUMNS, f"{len(rows)} calls left float")


_COLUMNS: Sequence[tuple[str, Callable[[LeftFloat], str]]] = (
    ("left float", lambda r: r.name),
    ("module", lambda r: r.module),
    ("operator", lambda r: r.operator),
    ("reason", lambda r: r.reason),
)


def note_left_float(model: fx.GraphModule) -> tuple[LeftFloat, ...]:
    """Find the calls that compute with floats, and keep their rows in the model's `meta`."""
    rows = []
    parts = _fused_nodes(model)
    data = data_of(model)
    for node in model.graph.nodes:
        if not _computes(node) or node not in data or node in parts or has_integers(node):
            continue
        rows.append(
            LeftFloat(
                node.name,
                module_path(node),
                op_key(node.target).removeprefix("aten::"),
                _why(node),
            )
        )
    model.meta[LEFT_FLOAT] = tuple(rows)
    return tuple(rows)


def has_integers(node: fx.Node) -> bool:
    """Whether a call is annotated to read integers, even if these are only its weights."""
    return bool(_operands(node))


def _computes(node: fx.Node) -> bool:
    """Whether a node is a call that computes floats from tensors, and is not just a move."""
    if node.op != "call_function" or is_getitem(node.target) or is_constant(node):
        return False
    value = node.meta.get("val")
    values = value if isinstance(value, (list, tuple)) else [value]
    makes = any(isinstance(v, torch.Tensor) and v.is_floating_point() for v in values)
    reads = any(isinstance(n.meta.get("val"), torch.Tensor) for n in node.all_input_nodes)
    return makes and reads and isinstance(node.target, torch._ops.OpOverload) and not is_move(node)


def _fused_nodes(model: fx.GraphModule) -> set[fx.Node]:
    """Clamps and batch norms that are fused with quantized calls before them."""
    found: set[fx.Node] = set()
    for node in model.graph.nodes:
        after = only_user(node)
        if after is None or not (has_integers(node) or node in found) or has_integers(after):
            continue
        if is_annotated(after) and (after.target in LIMITS or "batch_norm" in str(after.target)):
            found.add(after)
    return found


def _why(node: fx.Node) -> str:
    noted = node.meta.get(LEFT_FLOAT)
    if noted is not None:
        return str(noted)
    operands = [n for n in node.all_input_nodes if isinstance(n.meta.get("val"), torch.Tensor)]
    other = next((n for n in operands if not is_float(n)), None)
    if other is not None and other.meta["val"].is_floating_point():
        name = str(other.meta["val"].dtype).removeprefix("torch.")
        return f"it reads {name}; float32 alone is observed"
    return float_reason(node, is_constant) or (NO_SCALE if node.target in SHARING else NOT_SET)


# ---- settings that match nothing


def warn_if_nothing(rows: Iterable[LeftFloat], what: str) -> None:
    """Warn that the calls of a setting were not annotated, with their reasons."""
    reasons: dict[str, list[str]] = {}
    for row in rows:
        reasons.setdefault(row.reason, []).append(row.name)
    why = "; ".join(f"{names_of(names)}: {reason}" for reason, names in reasons.items())
    text = f"{what}: nothing is annotated, so nothing will be quantized"
    warn_caller(f"{text}. {why}" if why else text, AnnotationWarning)


def warn_of_unknown(name: str, model: fx.GraphModule) -> None:
    """Warn that no module has a name, and list similar names."""
    stacks = (node.meta.get("nn_module_stack") or {} for node in model.graph.nodes)
    paths = {str(path) for stack in stacks for path, _ in stack.values()} - {""}
    like = difflib.get_close_matches(name, sorted(paths), 3)
    text = f"set_module_name({name!r}): no call comes from a module of that name"
    hint = f"; similar names are {', '.join(like)}" if like else ""
    warn_caller(text + hint, AnnotationWarning)


def rows_within(rows: Iterable[LeftFloat], nodes: Iterable[fx.Node]) -> list[LeftFloat]:
    """The rows of the given nodes."""
    names = {node.name for node in nodes}
    return [row for row in rows if row.name in names]


__all__ = [
    "AnnotationError",
    "AnnotationWarning",
    "LeftFloat",
    "NodeFilter",
    "check",
    "has_integers",
    "left_float",
    "note_left_float",
    "quantization_of",
    "refusal",
    "rows_within",
    "shared_spec",
    "warn_if_nothing",
    "warn_of_unknown",
]
