"""`executorch_py inspect`: contents of a program, its needs, and the layout of its file."""

from __future__ import annotations

import argparse
import json
from typing import Any

import numpy as np

from executorch_py import _C
from executorch_py.cli.delegate_nodes import delegate_nodes
from executorch_py.errors import ExecutorchError
from executorch_py.runtime import MethodMeta, Signature
from executorch_py.runtime.file_layout import describe
from executorch_py.runtime.program import open_program
from executorch_py.terminal_text import message_text, name_text, quoted, shortened


def inspect(options: argparse.Namespace) -> int:
    """Print the contents and needs of a program file."""
    facts = collect(options.file)
    add_banks(facts, [bank_of(text) for text in options.bank])
    # json.dumps() escapes every control character but DEL.
    data = json.dumps(facts, indent=2).replace("\x7f", "\\u007f") if options.json else ""
    print(data or text(options.file, facts))
    return 0


def bank_of(text: str) -> tuple[str, int, int]:
    """Name, memory and bytes of a bank on the command line."""
    name, _, rest = text.partition(":")
    memory, _, size = rest.partition(":")
    if not name or not memory.isdecimal() or not size.isdecimal() or int(memory) < 1:
        raise ValueError(
            f"--bank: expected NAME:MEMORY:BYTES such as sram:1:65536, got {quoted(text)}"
        )
    return name, int(memory), int(size)


def add_banks(facts: dict[str, Any], banks: list[tuple[str, int, int]]) -> None:
    """Adds the use of each bank to the facts of each method."""
    for method in facts["methods"]:
        planned = dict(enumerate(method["planned_bytes"], 1))
        method["banks"] = [
            {"name": name, "memory": memory, "used": planned.get(memory, 0), "size": size}
            for name, memory, size in banks
        ]


def collect(path: str) -> dict[str, Any]:
    """Contents and needs of a program file, as data."""
    program = open_program(path)
    known = _C.kernel_manifest()
    backends = _C.backend_names()
    origins = {op: path for path, ops in reversed(_C.loaded_ops()) for op in ops}
    nodes = delegate_nodes(program.buffer().data)
    methods = []
    constants = {}
    for name in program.method_names():
        info = program.method_info(name)
        meta, signature = MethodMeta(info), Signature(info)
        if meta.num_instructions == 0 and not signature.inputs and signature.outputs:
            constants[name] = _constant(program, signature)
        kinds = nodes.get(name) or [None] * len(meta.delegates)
        methods.append(
            {
                "name": name,
                "signature": str(signature),
                "inputs": [argument._asdict() for argument in signature.inputs],
                "outputs": [argument._asdict() for argument in signature.outputs],
                "attributes": [attribute["name"] for attribute in info["attributes"]],
                "values": info["n_values"],
                "instructions": meta.num_instructions,
                "planned_bytes": list(meta.planned_bytes),
                "banks": [],
                "operators": meta.operators,
                "missing_operators": sorted(set(meta.operators) - set(known)),
                "custom_operators": {op: origins[op] for op in meta.operators if op in origins},
                "delegates": [
                    {**delegate, "nodes": found}
                    for delegate, found in zip(meta.delegates, kinds, strict=False)
                ],
                "missing_backends": sorted({d["id"] for d in meta.delegates} - set(backends)),
            }
        )
    return {
        "methods": methods,
        "constant_methods": constants,
        "named_data": program.named_data(),
        "layout": describe(program.buffer().data),
    }


def _constant(program: _C.Program, signature: Signature) -> Any:
    """The value of a constant method as data for JSON; of tensors their dtypes and sizes."""
    described = [str(argument) for argument in signature.outputs]
    try:
        values = program.load_method(signature.method).execute([], kind="numpy")
    except ExecutorchError:  # NumPy has no such dtype
        return {"outputs": described}
    data = [
        value.item() if np.ndim(value) == 0 and isinstance(value, np.ndarray) else value
        for value in values
    ]
    if any(isinstance(value, (np.ndarray, list)) for value in data):
        return {"outputs": described}
    return data[0] if len(data) == 1 else data


def size(n: int) -> str:
    """A number of bytes with a unit."""
    for unit, scale in (("MB", 1_000_000), ("kB", 1_000)):
        if n >= scale:
            return f"{n / scale:.2f} {unit}"
    return f"{n} B"


def text(path: str, facts: dict[str, Any]) -> str:
    """The facts as text."""
    lines = [f"{path}: {size(facts['layout']['file_bytes'])}"]
    constants = facts["constant_methods"]
    for method in facts["methods"]:
        if method["name"] not in constants:
            lines += ["", *method_lines(method)]
    if constants:
        lines += ["", "constant methods"]
        lines += [f"  {name_text(name)}: {constant_text(v)}" for name, v in constants.items()]
    return "\n".join([*lines, "", *layout_lines(facts)])


def constant_text(value: Any) -> str:
    """The value of a constant method in a line."""
    if isinstance(value, dict):
        return ", ".join(text.partition(": ")[2] for text in value["outputs"])
    return quoted(value) if isinstance(value, str) else message_text(shortened(repr(value)))


def method_lines(method: dict[str, Any]) -> list[str]:
    """Inputs, outputs, memory plan and operators of a method."""
    lines = [f"method {method['signature']}"]
    planned = ", ".join(size(n) for n in method["planned_bytes"]) or "none"
    lines.append(f"  {method['instructions']} instructions, {method['values']} values")
    lines.append(f"  planned memory: {planned}")
    for bank in method["banks"]:
        over = bank["used"] - bank["size"]
        note = f", {over} too many" if over > 0 else ""
        lines.append(
            f"    memory {bank['memory']}, {name_text(bank['name'])}: {bank['used']} of "
            f"{bank['size']} bytes{note}"
        )
    if method["attributes"]:
        lines.append(f"  named buffers: {', '.join(map(name_text, method['attributes']))}")
    if method["operators"]:
        total = sum(method["operators"].values())
        lines.append(f"  operators: {len(method['operators'])} kinds, {total} calls")
        ordered = sorted(method["operators"].items(), key=lambda item: (-item[1], item[0]))
        for name, calls in ordered:
            lines.append(f"    {calls:5} x {name_text(name)}{operator_note(method, name)}")
        if method["missing_operators"]:
            lines.append("  to add a kernel of your own: executorch_py build-ops, then --ops")
    if method["delegates"]:
        lines.append(f"  delegates: {len(method['delegates'])}")
        for delegate in method["delegates"]:
            missing = (
                "   (not in this build)" if delegate["id"] in method["missing_backends"] else ""
            )
            lines.append(
                f"    {delegate['calls']:5} x {name_text(delegate['id'])}, payload "
                f"{size(delegate['nbytes'])}{missing}"
            )
            for kind, count in (delegate["nodes"] or {}).items():
                lines.append(f"          {count:5} {kind}")
    return lines


def operator_note(method: dict[str, Any], name: str) -> str:
    """Note on an operator that is missing or comes from a loaded library."""
    if name in method["missing_operators"]:
        return "   (no kernel in this build)"
    path = method["custom_operators"].get(name)
    return f"   (from {path})" if path else ""


def layout_lines(facts: dict[str, Any]) -> list[str]:
    """Sizes of a file's parts: flatbuffer, segments, constants, delegate payloads, named data."""
    layout = facts["layout"]
    constants = layout["constants"]
    lines = ["layout of the file"]
    rows = [("program structure (flatbuffer)", layout["flatbuffer_bytes"])]
    for i, segment in enumerate(layout["segments"]):
        use = ", ".join(map(name_text, segment["use"])) or "unused"
        rows.append((f"segment {i}: {use}", segment["nbytes"]))
    accounted = sum(n for _, n in rows)
    rows.append(("alignment between them", max(0, layout["file_bytes"] - accounted)))
    lines += [f"  {n:>12}  {name}" for name, n in rows]
    lines.append(
        f"constants: {constants['distinct']} distinct of {constants['tensors']} tensors, "
        f"{size(constants['nbytes'])} in the file"
        + (f"; {constants['external']} in a .ptd file" if constants["external"] else "")
    )
    if layout["inline_delegate_bytes"]:
        lines.append(f"delegate payloads inside the flatbuffer: {layout['inline_delegate_bytes']}")
    if facts["named_data"]:
        lines.append(f"named data: {len(facts['named_data'])} blobs")
        lines += [f"  {n:>12}  {name_text(key)}" for key, n in facts["named_data"].items()]
    return lines
