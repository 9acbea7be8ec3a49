"""Node kinds in the XNNPACK payloads of a program file, with their counts.

A payload is verified when its delegate is loaded, not when the file is opened. A payload that
cannot be read has no node kinds here.
"""

from __future__ import annotations

import struct
from collections import Counter

from executorch_py.runtime.file_layout import (
    DELEGATE_ID,
    DELEGATE_PROCESSED,
    PLAN_DELEGATES,
    PLAN_NAME,
    PROGRAM_INLINE,
    PROGRAM_PLANS,
    Table,
    describe,
)

BACKEND = "XnnpackBackend"
# Node kinds by their codes in the format's union, from 1.
KINDS = (
    "ADD",
    "FULLY_CONNECTED",
    "SOFTMAX",
    "SIGMOID",
    "STATIC_TRANSPOSE",
    "CLAMP",
    "CONV_2D",
    "DIV",
    "STATIC_RESIZE_BILINEAR_2D",
    "STATIC_CONSTANT_PAD",
    "AVG_POOLING_2D",
    "MINIMUM",
    "DEPTHWISE_CONV_2D",
    "MAX_POOLING_2D",
    "MULTIPLY",
    "SUBTRACT",
    "FLOOR",
    "CONVERT",
    "GLOBAL_AVG_POOLING_2D",
    "STATIC_RESHAPE",
    "ARG_MAX_POOLING_2D",
    "SQUARE_ROOT",
    "CEILING",
    "HARDSWISH",
    "LEAKY_RELU",
    "MAXIMUM",
    "NEGATE",
    "SQUARE",
    "ELU",
    "ABS",
    "PRELU",
    "CONCATENATE_2",
    "CONCATENATE_3",
    "CONCATENATE_4",
    "STATIC_SLICE",
    "SCALED_DOT_PRODUCT_ATTENTION",
    "BATCH_MATRIX_MULTIPLY",
    "CONCATENATE_5",
    "CONV_TRANSPOSE_2D",
    "RECIPROCAL_SQUARE_ROOT",
    "LOG",
    "GELU",
    "TANH",
    "EXP",
    "SIN",
    "COPY",
    "COS",
)
# Zero, magic, size of the header, offset and size of the flatbuffer.
_HEADER = struct.Struct("<I4sHII")
_GRAPH_NODES, _NODE_KIND = 1, 0


def delegate_nodes(data: bytes | memoryview) -> dict[str, list[dict[str, int] | None]]:
    """Node kinds of each method's delegates, in order, with their counts, highest first.

    A delegate has None for another backend, and if a payload cannot be read.
    """
    root = Table(data, struct.unpack_from("<I", data, 0)[0])
    segments, inline = describe(data)["segments"], root.tables(PROGRAM_INLINE)
    found = {}
    for plan in root.tables(PROGRAM_PLANS):
        nodes: list[dict[str, int] | None] = []
        for delegate in plan.tables(PLAN_DELEGATES):
            location = delegate.table(DELEGATE_PROCESSED)
            kinds = None
            if location is not None and delegate.text(DELEGATE_ID) == BACKEND:
                index = location.scalar(1, "I")
                if location.scalar(0, "b") == 1 and index < len(segments):
                    begin = segments[index]["offset"]
                    kinds = _kinds(bytes(data[begin : begin + segments[index]["nbytes"]]))
                elif location.scalar(0, "b") == 0 and index < len(inline):
                    kinds = _kinds(bytes(inline[index].scalars(0, "B")))
            nodes.append(kinds)
        found[plan.text(PLAN_NAME)] = nodes
    return found


def _kinds(payload: bytes) -> dict[str, int] | None:
    try:
        if payload[4:8] == b"XH00":
            _, _, _, begin, size = _HEADER.unpack_from(payload)
            payload = payload[begin : begin + size]
        graph = Table(payload, struct.unpack_from("<I", payload, 0)[0])
        codes = [node.scalar(_NODE_KIND, "B") for node in graph.tables(_GRAPH_NODES)]
        counts = Counter(KINDS[code - 1] for code in codes)
    except (struct.error, IndexError):
        return None
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
