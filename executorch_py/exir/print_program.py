"""Listings of programs and graphs: the tables of a program, a graph with a cursor.

`print_program` is the condensed listing (values, then instructions, method by method);
`pretty_print` shows the tables one to one. Reads schema.py objects and FX graphs, changes nothing.
"""

from __future__ import annotations

import dataclasses
import enum
import reprlib
import sys
from typing import Any, TextIO

from torch.fx import Graph, GraphModule, Node

from executorch_py.exir import schema
from executorch_py.exir.error import ExportError, ExportErrorType
from executorch_py.terminal_text import name_text

_LONGEST_BYTES = 16


def _format_tensor(tensor: schema.Tensor, show_meminfo: bool, mark_dynamic: bool) -> str:
    kind = tensor.scalar_type.name.lower()
    dynamic = tensor.shape_dynamism != schema.TensorShapeDynamism.STATIC
    text = f"{kind}{list(tensor.sizes)}" + ("~" if dynamic and mark_dynamic else "")
    if not show_meminfo:
        return text
    where = tensor.allocation_info
    if where is not None:
        text += f" at {where.memory_id}:{where.memory_offset}"
    if not tensor.data_buffer_idx:
        return text
    # Planned memory with data is a buffer with these initial values.
    data = f"data {tensor.data_buffer_idx}"
    return f"{text} from {data}" if where is not None else f"{text} {data}"


def _format_value(value: Any, show_meminfo: bool, mark_dynamic: bool) -> str:
    if isinstance(value, schema.Tensor):
        return _format_tensor(value, show_meminfo, mark_dynamic)
    if isinstance(value, schema.Null):
        return "None"
    if isinstance(value, (schema.Int, schema.Bool, schema.Double, schema.String)):
        return repr(getattr(value, dataclasses.fields(value)[0].name))
    if isinstance(value, (schema.BoolList, schema.DoubleList)):
        return str(list(value.items))
    # Items of the other lists are indices of values.
    items = ", ".join("None" if i < 0 else f"%{i}" for i in value.items)
    return f"[{items}]"


def _format_instruction(plan: schema.ExecutionPlan, arguments: Any) -> str:
    if isinstance(arguments, schema.KernelCall):
        op = plan.operators[arguments.op_index]
        name = f"{op.name}.{op.overload}" if op.overload else op.name
        return f"{name_text(name)} {_format_ids(arguments.args)}"
    if isinstance(arguments, schema.DelegateCall):
        backend = name_text(plan.delegates[arguments.delegate_index].id)
        return f"delegate {arguments.delegate_index} ({backend}) {_format_ids(arguments.args)}"
    if isinstance(arguments, schema.MoveCall):
        return f"move %{arguments.move_from} -> %{arguments.move_to}"
    if isinstance(arguments, schema.JumpFalseCall):
        return f"unless %{arguments.cond_value_index} jump to {arguments.destination_instruction}"
    return f"free %{arguments.value_index}"


def _format_ids(ids: list[int]) -> str:
    return " ".join(f"%{i}" for i in ids)


def print_program(
    program: schema.Program,
    show_meminfo: bool = True,
    mark_dynamic_shape_tensor: bool = False,
    out: TextIO | None = None,
) -> None:
    """Print every method: its values, inputs, outputs and numbered instructions."""
    stream = out or sys.stdout
    for plan in program.execution_plan:
        planned = plan.non_const_buffer_sizes[1:]
        print(f"method {name_text(plan.name)}: planned bytes {planned}", file=stream)
        for i, value in enumerate(plan.values):
            text = _format_value(value.val, show_meminfo, mark_dynamic_shape_tensor)
            print(f"  %{i} = {text}", file=stream)
        print(f"  inputs {_format_ids(plan.inputs)}", file=stream)
        for chain in plan.chains:
            for i, instruction in enumerate(chain.instructions):
                text = _format_instruction(plan, instruction.instr_args)
                print(f"  {i:3}: {text}", file=stream)
        print(f"  outputs {_format_ids(plan.outputs)}", file=stream)


def pretty_print(obj: Any, indent: int = 0, out: TextIO | None = None) -> None:
    """Print an object of the file format field by field; long bytes are cut."""
    if isinstance(obj, GraphModule):
        raise ExportError(
            ExportErrorType.INVALID_INPUT_TYPE,
            "pretty_print() does not accept GraphModule as input.",
        )
    print(_pretty(obj, indent), file=out or sys.stdout)


def _pretty(obj: Any, indent: int) -> str:
    pad, inner = "  " * indent, "  " * (indent + 1)
    if isinstance(obj, enum.Enum):
        return obj.name
    if isinstance(obj, (bytes, bytearray, memoryview)):
        shown = reprlib.Repr()
        shown.maxstring = shown.maxother = _LONGEST_BYTES * 4
        return shown.repr(bytes(obj[:_LONGEST_BYTES])) + (
            f" … {len(obj)} bytes" if len(obj) > _LONGEST_BYTES else ""
        )
    if isinstance(obj, (list, tuple)):
        if not obj or not dataclasses.is_dataclass(obj[0]):
            return repr(list(obj))
        rows = [f"{inner}{_pretty(item, indent + 1)}, (index={i})" for i, item in enumerate(obj)]
        return "[\n" + "\n".join(rows) + f"\n{pad}]"
    if not dataclasses.is_dataclass(obj):
        return reprlib.repr(obj) if not isinstance(obj, (int, float, str)) else repr(obj)
    fields = [(f.name, getattr(obj, f.name)) for f in dataclasses.fields(obj)]
    if all(isinstance(v, (int, float, str, type(None))) for _, v in fields):
        return f"{type(obj).__name__}({', '.join(f'{k}={_pretty(v, 0)}' for k, v in fields)})"
    rows = [f"{inner}{name}={_pretty(value, indent + 1)}," for name, value in fields]
    return f"{type(obj).__name__}(\n" + "\n".join(rows) + f"\n{pad})"


def add_cursor_to_graph(graph: Graph, finding_node: Node) -> str:
    """The listing of a graph with an arrow in front of one node."""
    lines = ["graph():"]
    for node in graph.nodes:
        text = node.format_node()
        if text is not None:
            lines.append(("--> " if node is finding_node else "    ") + text)
    return "\n".join(lines)


def inspect_node(graph: Graph, node: Node) -> str:
    """Description of a node: its position in the graph, its meta, the source line."""
    lines = [add_cursor_to_graph(graph, node), "", f"node {node.name}: {node.op} {node.target}"]
    for key in ("val", "spec", "debug_handle"):
        if key in node.meta:
            lines.append(f"  {key}: {node.meta[key]}")
    trace = node.meta.get("stack_trace")
    if trace:
        lines.append(f"Traceback (most recent call last):\n{trace.rstrip()}")
    return "\n".join(lines)
