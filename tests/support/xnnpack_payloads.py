"""Payloads of lowered programs, and the nodes in them that compute with integers."""

from __future__ import annotations

from executorch_py.backends.xnnpack.payload.payload_flatbuffer import (
    Datatype,
    NodeKind,
    XNNGraph,
    read_payload,
)
from executorch_py.exir.delegate import executorch_call_delegate
from executorch_py.exir.program.managers import EdgeProgramManager

WEIGHTED = (
    NodeKind.FULLY_CONNECTED,
    NodeKind.CONV_2D,
    NodeKind.DEPTHWISE_CONV_2D,
    NodeKind.CONV_TRANSPOSE_2D,
)


def payloads_of(manager: EdgeProgramManager) -> list[XNNGraph]:
    """The payloads in the order of the calls."""
    gm = manager.exported_program().graph_module
    calls = [node for node in gm.graph.nodes if node.target is executorch_call_delegate]
    return [read_payload(getattr(gm, call.args[0].target).processed_bytes) for call in calls]


def integer_nodes(graph: XNNGraph, kinds: tuple[NodeKind, ...], datatype: Datatype) -> int:
    """The number of nodes of these kinds that read integers."""
    values = {value.tensor.id_out: value.tensor.datatype for value in graph.xvalues}
    tables = [node.xnode_union for node in graph.xnodes if node.kind in kinds]
    reads = [getattr(t, "input1_id" if hasattr(t, "input1_id") else "input_id") for t in tables]
    return sum(values[value] is datatype for value in reads)
