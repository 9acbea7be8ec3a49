"""Annotations, which quantizers write on graph nodes: the quantization of inputs and results.

Custom quantizers use these functions. A node's annotation has a specification for each operand and
for the result; `prepare_pt2e` inserts an observer for each. A value that two nodes read with the
same specification is observed once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import fx
from torchao.quantization.pt2e.quantizer import (
    QuantizationAnnotation,
    QuantizationSpecBase,
    SharedQuantizationSpec,
)

from executorch_py.exir.ir.op_traits import op_key

KEY = "quantization_annotation"
LEFT_FLOAT = "left_float"  # key in `meta`: of a node, why it stays float; of a model, its rows
GREATEST = 3.4028235e15  # torch.histc, which observers use, is wrong beyond this number


@dataclass(frozen=True)
class LeftFloat:
    """One call that computes with floats."""

    name: str
    module: str
    operator: str
    reason: str


class AnnotationError(ValueError):
    """An annotation whose integers the quantizer's target cannot compute with."""


class AnnotationWarning(UserWarning):
    """A setting of a quantizer that matches nothing in the model."""


def annotation_of(node: fx.Node) -> QuantizationAnnotation:
    """The node's annotation, a new one if it has none."""
    made: QuantizationAnnotation = node.meta.setdefault(KEY, QuantizationAnnotation())
    return made


def is_annotated(*nodes: fx.Node) -> bool:
    """Whether a quantizer has annotated any of the nodes."""
    return any(KEY in node.meta and node.meta[KEY]._annotated for node in nodes)


def mark(*nodes: fx.Node) -> None:
    """Mark nodes as annotated, so that no other pattern or quantizer annotates them."""
    for node in nodes:
        annotation_of(node)._annotated = True


def quantize_input(node: fx.Node, operand: fx.Node, how: QuantizationSpecBase | None) -> None:
    """Annotate that `node` reads `operand` quantized, or as a float if `how` is None."""
    annotation_of(node).input_qspec_map[operand] = how
    mark(node)


def quantize_output(node: fx.Node, how: QuantizationSpecBase | None) -> None:
    """Annotate that the node's result is quantized, or stays float if `how` is None."""
    annotation_of(node).output_qspec = how
    mark(node)


def output_spec(node: fx.Node) -> QuantizationSpecBase | None:
    """The specification of a node's result; None if it stays float."""
    annotation = node.meta.get(KEY)
    return annotation.output_qspec if annotation is not None and annotation._annotated else None


def share_input(node: fx.Node, operand: fx.Node) -> None:
    """Annotate a node that moves or clamps its operand: the result has the operand's scale."""
    like = SharedQuantizationSpec(operand)
    quantize_input(node, operand, like)
    quantize_output(node, like)


def is_float(value: object) -> bool:
    """Whether a value is a node of float32, the only type that observers accept."""
    fake = value.meta.get("val") if isinstance(value, fx.Node) else None
    return isinstance(fake, torch.Tensor) and fake.dtype == torch.float32


def is_too_large(value: fx.Node, model: torch.nn.Module) -> bool:
    """Whether a value is a constant of one number too large for the histograms of observers."""
    if value.op != "get_attr":
        return False
    found: object = model
    for part in str(value.target).split("."):
        found = getattr(found, part, None)
    return isinstance(found, torch.Tensor) and found.numel() == 1 and abs(found.item()) > GREATEST


def data_of(model: fx.GraphModule) -> set[fx.Node]:
    """The values of a graph that depend on elements of its inputs.

    Other values depend on constants and sizes alone, such as tables of positions. They are computed
    before the model runs, or once per run for dynamic sizes. Integers would gain nothing there, and
    the values may be infinite.
    """
    found: set[fx.Node] = set()
    for node in model.graph.nodes:
        is_size = node.op == "call_function" and op_key(node.target).startswith("aten::sym_")
        if node.op == "placeholder" or (not is_size and not found.isdisjoint(node.all_input_nodes)):
            found.add(node)
    return found


def only_user(node: fx.Node) -> fx.Node | None:
    """The single reader of a node, if there is exactly one."""
    return next(iter(node.users)) if len(node.users) == 1 else None


def scalars_to_constants(model: fx.GraphModule, targets: Iterable[object]) -> None:
    """Replace number operands of these operators by constants, which can be observed.

    Numbers that are added to integers, such as positions, stay numbers.
    """
    for node in list(model.graph.nodes):
        if node.op != "call_function" or node.target not in targets or not is_float(node):
            continue
        for position, operand in enumerate(node.args[:2]):
            if isinstance(operand, (int, float)):
                node.update_arg(position, _constant(model, node, float(operand)))
    model.recompile()


def _constant(model: fx.GraphModule, before: fx.Node, number: float) -> fx.Node:
    taken = dict(model.named_buffers())
    name = next(
        n for n in (f"_tensor_constant_{i}" for i in range(len(taken) + 1)) if n not in taken
    )
    value = torch.tensor(number)
    model.register_buffer(name, value)
    with model.graph.inserting_before(before):
        made = model.graph.get_attr(name)
    mode = before.meta["val"].fake_mode
    made.meta["val"] = mode.from_tensor(value, static_shapes=True)
    return made


__all__ = [
    "annotation_of",
    "data_of",
    "is_annotated",
    "is_float",
    "is_too_large",
    "mark",
    "only_user",
    "output_spec",
    "quantize_input",
    "quantize_output",
    "scalars_to_constants",
    "share_input",
]
