"""Debug handles: numbers that link the nodes of later stages to the operators of the export.

Nodes that descend from the same node of the exported graph share a handle; handles count from 1
in breadth-first order over the graph and its control-flow bodies.
"""

from __future__ import annotations

from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

from executorch_py.exir.ir.graph_modules import bfs_trace_with_node_process
from executorch_py.exir.passes.base import Contract, GraphPass

FROM_NODE_KEY = "from_node"
DEBUG_HANDLE_KEY = "debug_handle"
UNSET_DEBUG_HANDLE = 0


def get_greatest_ancestor_node_identifier(node: Node) -> str:
    """Name and graph of the oldest node that `node` descends from; its own if it has none."""
    history = node.meta.get(FROM_NODE_KEY)
    if not history:
        return f"{node.name}.{id(node.graph)}"
    source = history[-1]
    while source.from_node:
        source = source.from_node[-1]
    return f"{source.name}.{source.graph_id}"


class DebugHandleGeneratorPass(GraphPass):
    """Set `meta["debug_handle"]` on every node that computes something."""

    contract = Contract()

    def apply(self, gm: GraphModule) -> bool:
        handles: dict[str, int] = {}
        changed = False

        def assign(node: Node) -> None:
            nonlocal changed
            if node.op in ("placeholder", "output"):
                return
            origin = get_greatest_ancestor_node_identifier(node)
            handle = handles.setdefault(origin, len(handles) + 1)
            changed |= node.meta.get(DEBUG_HANDLE_KEY) != handle
            node.meta[DEBUG_HANDLE_KEY] = handle

        bfs_trace_with_node_process(gm, assign)
        return changed


def generate_missing_debug_handles(ep: ExportedProgram) -> None:
    """Give nodes without a handle, such as those made by later passes, fresh ones."""
    nodes: list[Node] = []
    bfs_trace_with_node_process(ep.graph_module, nodes.append)
    highest = max((node.meta.get(DEBUG_HANDLE_KEY) or 0 for node in nodes), default=0)
    for node in nodes:
        if not node.meta.get(DEBUG_HANDLE_KEY):
            highest += 1
            node.meta[DEBUG_HANDLE_KEY] = highest
