"""Reports on delegation: the delegates of a graph, readable graphs, rejected nodes."""

from __future__ import annotations

import logging
import operator
from typing import Any

from torch import fx
from torch._higher_order_ops.executorch_call_delegate import (
    executorch_call_delegate,
    is_lowered_module,
)
from torch.fx.passes.operator_support import OperatorSupportBase

# Key of node.meta under which a partitioner stores its reason for not delegating the node.
REASON = "delegation_reason"


def note_reason(node: fx.Node, reason: str, is_weak: bool = False) -> None:
    """Record why a node is not delegated; of several partitioners the last one with a reason wins.

    A weak reason names only the options of a partitioner, nothing about the node. It never replaces
    another reason.
    """
    if not is_weak or node.meta.get(REASON) is None:
        node.meta[REASON] = reason


def reason_of(node: fx.Node) -> str | None:
    """The reason why the last partitioner left a node; None if there is none."""
    found = node.meta.get(REASON)
    return None if found is None else str(found)


def _is_delegate_result(node: fx.Node) -> bool:
    head = node.args[0] if node.args else None
    return (
        node.target is operator.getitem
        and isinstance(head, fx.Node)
        and head.target is executorch_call_delegate
    )


def get_non_lowered_nodes(graph: fx.Graph) -> list[fx.Node]:
    """Operator nodes that are in no delegate."""
    return [
        node
        for node in graph.nodes
        if node.op == "call_function"
        and node.target is not executorch_call_delegate
        and not _is_delegate_result(node)
    ]


def get_delegates(graph: fx.Graph) -> list[fx.Node]:
    """The get_attr nodes of the graph's delegates."""
    return [
        node
        for node in graph.nodes
        if node.op == "get_attr" and node.name.startswith("lowered_module_")
    ]


def get_delegated_payload(graph_module: fx.GraphModule) -> dict[str, tuple[str, list[Any], bytes]]:
    """(backend id, compile specs, payload) of each delegate, by the name of its node."""
    found = {}
    for node in get_delegates(graph_module.graph):
        module = getattr(graph_module, str(node.target), None)
        if is_lowered_module(module):
            assert module is not None
            found[node.name] = (module.backend_id, module.compile_specs, module.processed_bytes)
    return found


def format_delegated_graph(graph_module: fx.GraphModule) -> str:
    """The graph as text, each delegate followed by its backend and its own graph."""
    lines = ["graph():"]
    for node in graph_module.graph.nodes:
        text = node.format_node()
        if text:
            lines.append(f"  {text}")
        module = getattr(graph_module, str(node.target), None) if node.op == "get_attr" else None
        if is_lowered_module(module):
            assert module is not None
            lines += [f"    backend_id: {module.backend_id}", "    lowered graph():"]
            inner = (n.format_node() for n in module.original_module.graph.nodes)
            lines += [f"      {text}" for text in inner if text]
    return "\n".join(lines)


def print_delegated_graph(graph_module: fx.GraphModule) -> None:
    """Print format_delegated_graph."""
    print(format_delegated_graph(graph_module))


class WhyNoPartition:
    """Logs, at debug level, why a node was not lowered."""

    def __init__(self, logger: logging.Logger) -> None:
        self.logger = logger
        self.node: fx.Node | None = None
        self.reason = ""

    def __call__(self, node: fx.Node, reason: str) -> None:
        self.node, self.reason = node, reason
        self.logger.debug(self)

    def __str__(self) -> str:
        return f"WhyNoPartition: Node {self.node} was not partitioned because {self.reason}."


class WhyNoPartitionReporter:
    """Collects rejected nodes, the first reason of each, for one table."""

    def __init__(self) -> None:
        self._rejected_nodes: dict[fx.Node, str] = {}

    def report_reject(self, node: fx.Node, reason: str) -> None:
        """Remember why a node was rejected."""
        self._rejected_nodes.setdefault(node, reason)

    def get_table_report(self) -> str:
        """All rejected operators with their reasons, one a line."""
        rows = [("Node name", "Target", "Reason")]
        for node, reason in self._rejected_nodes.items():
            if node.op not in ("placeholder", "output"):
                rows.append((node.name, str(getattr(node.target, "_op", node.target)), reason))
        if len(rows) == 1:
            return "No nodes rejected."
        widths = [max(len(row[i]) for row in rows) for i in range(3)]
        return "\n".join(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        )

    def wrap_check(
        self, operator_support: OperatorSupportBase, message: str
    ) -> OperatorSupportBase:
        """The same check, with rejected nodes reported under `message`."""
        return _ReportRejected(operator_support, self, message)


class _ReportRejected(OperatorSupportBase):
    def __init__(
        self, inner: OperatorSupportBase, reporter: WhyNoPartitionReporter, message: str
    ) -> None:
        self._inner, self._reporter, self._message = inner, reporter, message

    def is_node_supported(self, submodules: Any, node: fx.Node) -> bool:
        supported = bool(self._inner.is_node_supported(submodules, node))
        if not supported:
            self._reporter.report_reject(node, self._message)
        return supported
