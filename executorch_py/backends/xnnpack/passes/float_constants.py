"""float_constants: dequantizes constants for nodes that compute with floats."""

from __future__ import annotations

from executorch_py.backends.xnnpack.payload.graph import Graph, Node, Value
from executorch_py.backends.xnnpack.payload.payload_flatbuffer import Datatype, NodeKind
from executorch_py.backends.xnnpack.payload.quantization import dequantized

_FLOATS = {Datatype.FP32, Datatype.FP16, Datatype.BF16}
_BESIDE_FLOATS = {Datatype.QCINT8, Datatype.QCINT4}


def float_constants(graph: Graph) -> bool:
    """Dequantize in place; True if there were any such constants."""
    made: dict[Value, Value] = {}
    for node in graph.nodes:
        for i, value in enumerate(node.inputs):
            if value is None or value.data is None or value.quantization is None:
                continue
            if _reads_quantized(node):
                continue
            if value not in made:
                made[value] = Value(
                    value.name,
                    value.shape,
                    Datatype.FP32,
                    data=dequantized(value),
                    is_weight=value.is_weight,
                    external_tag=value.external_tag,
                )
            node.inputs[i] = made[value]
    return bool(made)


def _reads_quantized(node: Node) -> bool:
    if node.kind is NodeKind.CONVERT:
        return False
    if node.kind is NodeKind.FULLY_CONNECTED and node.input().datatype is Datatype.FP32:
        weight = node.inputs[1]
        return weight is not None and weight.datatype in _BESIDE_FLOATS
    return any(
        v is not None and not v.is_constant and v.datatype not in _FLOATS for v in node.inputs
    )
