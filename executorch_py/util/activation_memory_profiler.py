"""The memory plan of a method as a Chrome trace, for a trace viewer.

Every step of the graph is a thread of the trace. Every tensor that is live in a step is an event
whose duration is the tensor's size. Reads the graph after memory planning; runs nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import fx

from executorch_py.atomic_file import write_text
from executorch_py.exir import memory
from executorch_py.exir.memory.lifetime import node_specs
from executorch_py.exir.program.executorch import ExecutorchProgramManager

__all__ = [
    "Allocation",
    "MemoryTimeline",
    "create_tensor_allocation_info",
    "generate_memory_trace",
]


@dataclass
class Allocation:
    """One tensor in planned memory."""

    name: str
    op_name: str
    memory_id: int
    memory_offset: int
    size_bytes: int
    fqn: str
    file_and_line_num: str


@dataclass
class MemoryTimeline:
    """Allocations during one step of a graph."""

    allocations: list[Allocation] = field(default_factory=list)


def create_tensor_allocation_info(graph: fx.Graph) -> list[MemoryTimeline | None]:
    """Live tensors of every step of the graph; None for steps without planned tensors."""
    timeline: list[MemoryTimeline | None] = [None] * len(graph.nodes)
    for allocation, first, last in _planned(graph):
        for step in range(first, last + 1):
            at = timeline[step] = timeline[step] or MemoryTimeline()
            at.allocations.append(allocation)
    return timeline


def _planned(graph: fx.Graph) -> Iterator[tuple[Allocation, int, int]]:
    """Each planned tensor once, at the node that computes it, with its first and last step."""
    seen = set()
    for node in graph.nodes:
        if node.op == "output" or node.target in (memory.alloc, memory.view):
            continue
        for spec in node_specs(node):
            if spec.mem_id is None or spec.const or spec.storage_base is not None or spec in seen:
                continue
            seen.add(spec)
            first, last = spec.lifetime
            allocation = Allocation(
                name=node.name,
                op_name=str(node.target),
                memory_id=spec.mem_id,
                memory_offset=spec.mem_offset or 0,
                size_bytes=spec.nbytes(),
                fqn=_module_path(node),
                file_and_line_num=str(node.meta.get("stack_trace")),
            )
            yield allocation, first or 0, last or 0


def _module_path(node: fx.Node) -> str:
    stack = node.meta.get("nn_module_stack")
    return str(list(stack.values())[-1][0]) if stack else ""


def generate_memory_trace(
    executorch_program_manager: ExecutorchProgramManager,
    chrome_trace_filename: str | Path,
    enable_memory_offsets: bool = False,
    method_name: str = "forward",
    ommit_metadata: bool = False,
) -> None:
    """Write the trace of one method; with offsets, events start at the tensors' offsets."""
    if not isinstance(executorch_program_manager, ExecutorchProgramManager):
        raise ValueError(
            "generate_memory_trace: expected the ExecutorchProgramManager that to_executorch() "
            f"returns, got {type(executorch_program_manager).__name__}"
        )
    graph = executorch_program_manager.exported_program(method_name).graph
    if not any(node.target is memory.alloc for node in graph.nodes):
        raise ValueError(f"method '{method_name}' has no planned memory to trace")
    events: list[dict[str, Any]] = []
    steps = [step for step in create_tensor_allocation_info(graph) if step is not None]
    for thread, step in enumerate(steps):
        position = 0
        for item in step.allocations:
            start = item.memory_offset if enable_memory_offsets else position
            events.append(_event(item, start, thread, metadata=not ommit_metadata))
            position += item.size_bytes
    text = json.dumps({"traceEvents": events}, indent=2)
    write_text(chrome_trace_filename, text)


def _event(item: Allocation, start: int, thread: int, *, metadata: bool) -> dict[str, Any]:
    args = {
        "op_name": item.op_name,
        "Memory ID": item.memory_id,
        "fqn": item.fqn,
        "source": item.file_and_line_num,
        "bytes": item.size_bytes,
    }
    return {
        "name": item.name,
        "cat": "memory_allocation",
        "ph": "X",
        "ts": start,
        "dur": item.size_bytes,
        "pid": item.memory_id,
        "tid": thread,
        "args": args if metadata else {},
    }
