"""Facts about planned graphs for planning passes written for upstream: calls with bodies, specs of
inputs and results, parts of a memory.

Names and arguments are upstream's. Relies on `node.meta["spec"]`; the planner of this package does
not use it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from torch import fx

from executorch_py.exir.ir.op_traits import higher_order_name
from executorch_py.exir.ir.tensor_spec import TensorSpec
from executorch_py.exir.memory.spec_queries import get_graph_input_tensors, get_graph_output_tensors

__all__ = [
    "AllocationSpec",
    "SharedObject",
    "get_cond_nodes",
    "get_input_specs",
    "get_map_nodes",
    "get_return_specs",
    "get_scan_nodes",
    "get_while_nodes",
]


@dataclass
class AllocationSpec:
    """A tensor in a shared object, and its offset there."""

    offset: int
    spec: TensorSpec


@dataclass
class SharedObject:
    """A part of a memory that several tensors use, one after the other or side by side."""

    idx: int
    offset: int
    size: int
    first_used_index: int
    last_used_index: int
    allocations: list[AllocationSpec] = field(default_factory=list)


def _calls(graph_module: fx.GraphModule, name: str) -> Iterator[fx.Node]:
    for node in graph_module.graph.nodes:
        if node.op == "call_function" and higher_order_name(node.target) == name:
            yield node


def get_cond_nodes(graph_module: fx.GraphModule) -> Iterator[fx.Node]:
    """The calls of torch.cond in a graph."""
    return _calls(graph_module, "cond")


def get_while_nodes(graph_module: fx.GraphModule) -> Iterator[fx.Node]:
    """The calls of while_loop in a graph."""
    return _calls(graph_module, "while_loop")


def get_map_nodes(graph_module: fx.GraphModule) -> Iterator[fx.Node]:
    """The calls of map in a graph."""
    return _calls(graph_module, "map_impl")


def get_scan_nodes(graph_module: fx.GraphModule) -> Iterator[fx.Node]:
    """The calls of scan in a graph."""
    return _calls(graph_module, "scan")


def get_return_specs(graph_module: fx.GraphModule) -> set[TensorSpec]:
    """Specs of the results of a graph."""
    return get_graph_output_tensors(graph_module.graph.nodes)


def get_input_specs(graph_module: fx.GraphModule) -> set[TensorSpec]:
    """Specs of the inputs of a graph."""
    return get_graph_input_tensors(graph_module.graph.nodes)
