"""fold_quantization: nodes between conversions compute with quantized values.

Statically: a node all of whose operands were dequantized, and whose result is only quantized again,
works on int8. Dynamically: a product or convolution whose operand was quantized with scales found
at run time reads that, with quantized weights, and gives floats. Weights alone: a product of floats
reads quantized weights; XNNPACK multiplies a bias by the scales there, so it is added behind.
"""

from __future__ import annotations

import torch

from executorch_py.backends.xnnpack.payload.graph import (
    Dynamic,
    Graph,
    Needs,
    Node,
    PerChannel,
    PerGroup,
    PerTensor,
    Value,
    is_static,
)
from executorch_py.backends.xnnpack.payload.payload_flatbuffer import Datatype, NodeKind
from executorch_py.backends.xnnpack.payload.quantization import dequantized, int32_bias, scales_of

_WEIGHTED = frozenset(
    {
        *(NodeKind.FULLY_CONNECTED, NodeKind.CONV_2D, NodeKind.DEPTHWISE_CONV_2D),
        NodeKind.CONV_TRANSPOSE_2D,
    }
)
_STATIC = _WEIGHTED | {
    *(NodeKind.ADD, NodeKind.SUBTRACT, NodeKind.MULTIPLY, NodeKind.GLOBAL_AVG_POOLING_2D),
}
# Kinds whose result has the parameters of the operand.
_SAME_PARAMETERS = frozenset(
    {NodeKind.CLAMP, NodeKind.MAX_POOLING_2D, NodeKind.STATIC_CONSTANT_PAD}
)
_DYNAMIC_DIMS = {
    NodeKind.FULLY_CONNECTED: 1,
    NodeKind.CONV_2D: 3,
    NodeKind.CONV_TRANSPOSE_2D: 3,
}
_STATIC_WEIGHTS = (Datatype.QINT8, Datatype.QCINT8)
_QUANTIZED_WEIGHTS = (*_STATIC_WEIGHTS, Datatype.QCINT4, Datatype.QBINT4)


def fold_quantization(graph: Graph) -> bool:
    """Fold in place; True if any node was."""
    readers = graph.readers()
    replaced: dict[Value, Value] = {}
    changed = False
    for node in list(graph.nodes):
        if node.kind in _DYNAMIC_DIMS and _fold_dynamic(node):
            changed = True
        elif node.kind in _STATIC or node.kind in _SAME_PARAMETERS:
            folded = _fold_static(graph, node, readers, replaced)
            changed |= folded or _fold_weights(graph, node)
    graph.replace_all(replaced)
    return changed


# ---- scales known ahead of time


def _fold_static(
    graph: Graph, node: Node, readers: dict[Value, list[Node]], replaced: dict[Value, Value]
) -> bool:
    operands = [_quantized_operand(v) for v in node.inputs[: _n_operands(node)]]
    behind = _only_quantized(graph, node.output, readers)
    if behind is None or any(operand is None for operand in operands):
        return False
    first, result = operands[0], behind[0].output
    assert first is not None
    if node.kind is NodeKind.GLOBAL_AVG_POOLING_2D and not is_static(node.input().shape):
        return False  # XNNPACK has room for its sums as the first call needs it; see image_mean
    if node.kind in _SAME_PARAMETERS and first.quantization != result.quantization:
        return False
    if node.kind in _WEIGHTED and not _quantize_bias(node, first):
        return False
    node.inputs[: len(operands)] = operands
    made = node.output
    made.datatype, made.quantization = result.datatype, result.quantization
    for convert in behind:
        if convert.output in graph.outputs:
            made.name, made.dim_order = convert.output.name, convert.output.dim_order
        replaced[convert.output] = made
    return True


def _n_operands(node: Node) -> int:
    return 1 if node.kind in _WEIGHTED else len(node.inputs)


def _quantized_operand(value: Value | None) -> Value | None:
    """What an operand is in int8: a quantized constant, or what was dequantized to it."""
    if value is None:
        return None
    if value.is_constant:
        return value if value.datatype is Datatype.QINT8 and value.quantization else None
    before = value.producer
    if before is None or before.kind is not NodeKind.CONVERT:
        return None
    source = before.input()
    return source if source.datatype is Datatype.QINT8 else None


def _only_quantized(
    graph: Graph, value: Value, readers: dict[Value, list[Node]]
) -> list[Node] | None:
    """The conversions to int8 that are all that reads a value, with one set of parameters."""
    found = readers.get(value, [])
    if value in graph.outputs or not found:
        return None
    parameters = {(node.kind, node.output.datatype, node.output.quantization) for node in found}
    if len(parameters) != 1 or found[0].kind is not NodeKind.CONVERT:
        return None
    if found[0].output.datatype is not Datatype.QINT8:
        return None
    return found if sum(node.output in graph.outputs for node in found) < 2 else None


def _quantize_bias(node: Node, operand: Value) -> bool:
    """Whether the weights are int8; a float bias becomes int32 in units of operand and weight."""
    weight, bias = node.inputs[1], node.inputs[2]
    if weight is None or weight.datatype not in _STATIC_WEIGHTS or _has_zero_point(weight):
        return False
    if bias is None:
        return True
    if bias.data is None:
        return False
    how = operand.quantization
    assert isinstance(how, PerTensor)
    scales = scales_of(weight) * torch.tensor(how.scale, dtype=torch.float32)
    made = Value(bias.name, bias.shape, Datatype.QINT32, data=int32_bias(dequantized(bias), scales))
    made.is_weight, made.external_tag = True, bias.external_tag
    if isinstance(weight.quantization, PerChannel):
        made.datatype, made.quantization = Datatype.QCINT32, PerChannel(scales, 0)
    else:
        made.quantization = PerTensor(float(scales.item()), 0)
    node.inputs[2] = made
    return True


def _has_zero_point(weight: Value) -> bool:
    """Operands of sums may have one, weights may not."""
    return isinstance(weight.quantization, PerTensor) and weight.quantization.zero_point != 0


# ---- scales found at run time


def _fold_dynamic(node: Node) -> bool:
    weight, before = node.inputs[1], node.input().producer
    if before is None or before.kind is not NodeKind.CONVERT or weight is None:
        return False
    source = before.input()
    if source.datatype is not Datatype.QDINT8 or weight.quantization is None:
        return False
    if _has_zero_point(weight):
        return False
    _scale_rows(weight)
    source.quantization = Dynamic(_DYNAMIC_DIMS[node.kind])
    if node.needs is Needs.IMAGE and source.producer is not None:
        # Elements with scales of run time are only read, never moved: they are floats until then.
        source.producer.needs = Needs.IMAGE
    node.inputs[0] = source
    return True


def _scale_rows(weight: Value) -> None:
    """One scale for all becomes one for each row."""
    if isinstance(weight.quantization, PerTensor):
        rows = weight.shape[0]
        assert isinstance(rows, int)
        scales = torch.full((rows,), weight.quantization.scale)
        weight.datatype, weight.quantization = Datatype.QCINT8, PerChannel(scales, 0)


# ---- weights alone


def _fold_weights(graph: Graph, node: Node) -> bool:
    if node.kind is not NodeKind.FULLY_CONNECTED or node.input().datatype is not Datatype.FP32:
        return False
    weight, bias = node.inputs[1], node.inputs[2]
    if weight is None or weight.datatype not in _QUANTIZED_WEIGHTS:
        return False
    _scale_rows(weight)
    how = weight.quantization
    if isinstance(how, PerGroup) and how.group_size == weight.shape[1]:
        weight.datatype = Datatype.QCINT4
        weight.quantization = how = PerChannel(how.scales.reshape(-1), 0)
    if not isinstance(how, PerChannel) or how.axis != 0:
        return False
    if bias is not None:
        _add_behind(graph, node, bias)
    return True


def _add_behind(graph: Graph, node: Node, bias: Value) -> None:
    """A node of its own adds the bias, and limits the sum if the product was limited."""
    result = node.output
    product = Value(result.name, result.shape, result.datatype, producer=node)
    if bias.is_constant:
        tag, bias = bias.external_tag, Value(bias.name, bias.shape, bias.datatype, data=bias.data)
        bias.external_tag = tag
    added = Node(NodeKind.ADD, [product, bias], [result], clamp=node.clamp, origin=node.origin)
    result.producer = added
    node.inputs[2], node.outputs, node.clamp = None, [product], None
    graph.nodes.insert(graph.nodes.index(node) + 1, added)
