"""fold_quantization: folds conversions into the nodes between, which then compute with integers.

Static: a node whose operands were all dequantized, and whose result is only quantized again, works
on int8. Dynamic: a product or convolution whose operand was quantized with dynamic scales reads the
integers, with quantized weights, and returns floats. Weights alone: a product of floats reads
quantized weights; XNNPACK would multiply its bias by the scales, so a node after it adds the bias.
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
        NodeKind.CONV_2D,
        NodeKind.CONV_TRANSPOSE_2D,
        NodeKind.DEPTHWISE_CONV_2D,
        NodeKind.FULLY_CONNECTED,
    }
)
_STATIC = _WEIGHTED | {
    NodeKind.ADD,
    NodeKind.GLOBAL_AVG_POOLING_2D,
    NodeKind.MULTIPLY,
    NodeKind.SUBTRACT,
}
# Kinds whose result has the quantization parameters of the operand.
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
    """Fold in place; True if any node changed."""
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


# ---- static scales


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
        return False  # XNNPACK allocates sums for the batch of the first call; see image_mean
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
    """The int8 value of an operand: a quantized constant, or the source of its conversion."""
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
    """The readers of a value, if all are conversions to int8 with one set of parameters."""
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
    """Quantize a float bias to int32 with the scales of operand and weight.

    Returns False for weights other than int8 and for computed biases, which stay unchanged.
    """
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
    """Whether a weight has a zero point, which only operands of sums and products may have."""
    return isinstance(weight.quantization, PerTensor) and weight.quantization.zero_point != 0


# ---- dynamic scales


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
        # No node moves dynamically quantized elements: the conversion itself needs the layout.
        source.producer.needs = Needs.IMAGE
    node.inputs[0] = source
    _widen_bias(node)
    return True


def _widen_bias(node: Node) -> None:
    """Make a float16 bias float32, which XNNPACK's products of dynamic integers read."""
    bias = node.inputs[2]
    if bias is None or bias.data is None or bias.datatype is not Datatype.FP16:
        return
    made = Value(bias.name, bias.shape, Datatype.FP32, data=bias.data.to(torch.float32))
    made.is_weight, made.external_tag = bias.is_weight, bias.external_tag
    node.inputs[2] = made


def _scale_rows(weight: Value) -> bool:
    """Replace a scale for the whole weight by equal scales for each row; True if it had one."""
    if not isinstance(weight.quantization, PerTensor):
        return False
    rows = weight.shape[0]
    assert isinstance(rows, int)
    scales = torch.full((rows,), weight.quantization.scale)
    weight.datatype, weight.quantization = Datatype.QCINT8, PerChannel(scales, 0)
    return True


# ---- weights alone


def _fold_weights(graph: Graph, node: Node) -> bool:
    if node.kind is not NodeKind.FULLY_CONNECTED or node.input().datatype is not Datatype.FP32:
        return False
    weight, bias = node.inputs[1], node.inputs[2]
    if weight is None or weight.datatype not in _QUANTIZED_WEIGHTS:
        return False
    changed = _scale_rows(weight)
    how = weight.quantization
    if isinstance(how, PerGroup) and how.group_size == weight.shape[1]:
        weight.datatype = Datatype.QCINT4
        weight.quantization = how = PerChannel(how.scales.reshape(-1), 0)
        changed = True
    if bias is None or not isinstance(how, PerChannel) or how.axis != 0:
        return changed
    _add_behind(graph, node, bias)
    return True


def _add_behind(graph: Graph, node: Node, bias: Value) -> None:
    """Add the bias by a node behind the product, which takes over the clamp of the product."""
    result = node.output
    product = Value(result.name, result.shape, result.datatype, producer=node)
    if bias.is_constant:
        tag, bias = bias.external_tag, Value(bias.name, bias.shape, bias.datatype, data=bias.data)
        bias.external_tag = tag
    added = Node(NodeKind.ADD, [product, bias], [result], clamp=node.clamp, origin=node.origin)
    result.producer = added
    node.inputs[2], node.outputs, node.clamp = None, [product], None
    graph.nodes.insert(graph.nodes.index(node) + 1, added)
