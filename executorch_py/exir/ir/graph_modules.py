"""Walking a graph module and the bodies of its control-flow operators.

One table says which arguments of cond, map, scan and while_loop are bodies; every pass that
recurses does it through these functions. Knows nothing of dialects.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any

import torch
from torch.fx import GraphModule, Node

# Positions of the body arguments of each control-flow operator.
CONTROL_FLOW_BODIES: dict[Any, tuple[int, ...]] = {
    torch.ops.higher_order.cond: (1, 2),
    torch.ops.higher_order.map_impl: (0,),
    torch.ops.higher_order.scan: (0,),
    torch.ops.higher_order.while_loop: (0, 1),
}


def get_control_flow_submodules(graph_module: GraphModule) -> list[tuple[str, GraphModule, Node]]:
    """(attribute name, body, calling node) per control-flow body that the graph itself uses."""
    found = []
    for node in graph_module.graph.nodes:
        if node.op != "call_function":
            continue
        for index in CONTROL_FLOW_BODIES.get(node.target, ()):
            body = node.args[index]
            module = graph_module.get_submodule(body.target)
            assert isinstance(module, GraphModule)
            found.append((body.target, module, node))
    return found


def get_cond_while_submodules(graph_module: GraphModule) -> list[tuple[str, GraphModule, Node]]:
    """The bodies of cond and while_loop that the graph itself uses."""
    return _bodies_of(graph_module, torch.ops.higher_order.cond, torch.ops.higher_order.while_loop)


def get_scan_submodules(graph_module: GraphModule) -> list[tuple[str, GraphModule, Node]]:
    """The bodies of scan that the graph itself uses."""
    return _bodies_of(graph_module, torch.ops.higher_order.scan)


def _bodies_of(graph_module: GraphModule, *targets: Any) -> list[tuple[str, GraphModule, Node]]:
    return [row for row in get_control_flow_submodules(graph_module) if row[2].target in targets]


def graph_modules(gm: GraphModule) -> Iterator[GraphModule]:
    """`gm` and every control-flow body in it, breadth first, each once."""
    queue, seen = [gm], {id(gm)}
    while queue:
        current = queue.pop(0)
        yield current
        for _, body, _ in get_control_flow_submodules(current):
            if id(body) not in seen:
                seen.add(id(body))
                queue.append(body)


def bfs_trace_with_node_process(gm: GraphModule, node_op: Callable[[Node], None]) -> None:
    """Call `node_op` on every node of `gm` and its control-flow bodies, breadth first."""
    for module in graph_modules(gm):
        for node in module.graph.nodes:
            node_op(node)


def contains_any_call_fn_target_op(graph_module: GraphModule, ops: Collection[Any]) -> bool:
    """Whether `graph_module` or one of its bodies calls one of `ops`, edge forms included."""
    return any(
        node.op == "call_function"
        and (node.target in ops or getattr(node.target, "_op", None) in ops)
        for module in graph_modules(graph_module)
        for node in module.graph.nodes
    )
