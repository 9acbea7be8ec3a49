"""Payloads whose intermediate values are results, for verifiers that look for the first wrong node.

A node whose value is a result is not fused with its readers, which changes the rounding of floats.
So floats are results only behind dynamic quantization, whose integers XNNPACK keeps inside, unless
the verifier asks for all floats. Relies on the format's tables only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from executorch_py.backends.xnnpack.payload.payload_flatbuffer import (
    EXTERNAL_INPUT,
    EXTERNAL_OUTPUT,
    NO_ID,
    Datatype,
    PerTensorQuant,
    XNNGraph,
    XNNQuantizedTensorValue,
    XValue,
    payload_bytes,
    read_payload,
)
from executorch_py.exir.backend.opened_payload import OpenedPayload, OpenedValue
from executorch_py.exir.schema import ScalarType

_INTEGERS = {Datatype.QINT8: ScalarType.CHAR, Datatype.QUINT8: ScalarType.BYTE}
_SCALAR_TYPES = {
    **_INTEGERS,
    Datatype.FP32: ScalarType.FLOAT,
    Datatype.FP16: ScalarType.HALF,
    Datatype.BF16: ScalarType.BFLOAT16,
    Datatype.INT32: ScalarType.INT,
}
# The runtime's limit of arguments.
_MOST_ARGUMENTS = 4096


def opened(payload: bytes, with_floats: bool = False) -> OpenedPayload:
    """The payload with results for quantized intermediate values, in the order of the nodes.

    With results for all floats as well if `with_floats`.
    """
    graph = read_payload(payload)
    n_inputs = sum(bool(v.tensor.flags & EXTERNAL_INPUT) for v in graph.xvalues)
    by_id = {value.tensor.id_out: value for value in graph.xvalues}
    inner = [by_id[i] for i in _results(graph, by_id, with_floats) if by_id[i].tensor.flags == 0]
    inner = inner[: _MOST_ARGUMENTS - graph.num_externs]
    places = {v.tensor.id_out: graph.num_externs + k for k, v in enumerate(inner)}
    wider = replace(
        graph,
        xvalues=[_as_result(v, places.get(v.tensor.id_out, NO_ID)) for v in graph.xvalues],
        num_externs=graph.num_externs + len(inner),
        output_ids=[*graph.output_ids, *places],
    )
    return OpenedPayload(payload_bytes(wider), n_inputs, [_described(v) for v in inner])


def _results(graph: XNNGraph, by_id: dict[int, XValue], with_floats: bool) -> Iterator[int]:
    """Values that are computed as integers, or from integers with scales found at run time."""
    for node in graph.xnodes:
        read = by_id.get(getattr(node.xnode_union, "input1_id", NO_ID))
        is_dynamic = read is not None and read.tensor.datatype == Datatype.QDINT8
        shown = _SCALAR_TYPES if is_dynamic or with_floats else _INTEGERS
        result = by_id.get(getattr(node.xnode_union, "output_id", NO_ID))
        if result is not None and result.tensor.datatype in shown:
            yield result.tensor.id_out


def _described(value: XValue) -> OpenedValue:
    quant = getattr(value.xvalue_union, "quant_params", None)
    grid = (quant.scale, quant.zero_point) if isinstance(quant, PerTensorQuant) else None
    scalar_type = _SCALAR_TYPES[Datatype(value.tensor.datatype)]
    return OpenedValue(scalar_type, tuple(value.tensor.dims), grid)


def _as_result(value: XValue, place: int) -> XValue:
    if place == NO_ID:
        return value
    tensor = replace(value.tensor, external_id=place, flags=EXTERNAL_OUTPUT)
    if isinstance(value.xvalue_union, XNNQuantizedTensorValue):
        return XValue(replace(value.xvalue_union, tensor_value=tensor))
    return XValue(tensor)
