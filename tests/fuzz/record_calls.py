"""Adds good calls of operators that have none to calls.txt, taken from the operator tests.

    PYTHONPATH=tests python -m pytest -p fuzz.record_calls tests/kernels/test_reduce.py

A pytest plugin that records the calls of op_driver.run_op, each as a line of text without the
contents of tensors. Of an operator's calls it keeps the shortest, a middle and the longest
structure.
"""

from __future__ import annotations

import ctypes
import re
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent
CALLS = FOLDER / "calls.txt"
MAX_CHARACTERS = 260
PREFIXES = {8: "i", 9: "t", 11: "o"}
recorded: dict[str, set[str]] = {}


def text_of(c: Any, v: Any) -> str:
    """A C value (of op_values.py) as fuzz_read of arguments.c reads it."""

    def items(kind: Any) -> list[Any]:
        return list((kind * v.n).from_address(v.u.p)) if v.n else []

    def member(address: int | None) -> str:
        return text_of(c, c.CValue.from_address(address)) if address else "-"

    if v.tag == c.TENSOR:
        t = c.CTensor.from_address(v.u.p)
        name = {number: dtype for dtype, number in c.DTYPES.items()}[t.dtype]
        short = re.sub(
            r"^(\D+)(\d*)$",
            lambda m: (
                {"uint": "u", "int": "i", "float": "f", "bfloat": "bf", "complex": "c"}.get(
                    m[1], "b8"
                )
                + m[2]
            ),
            str(name).removeprefix("torch."),
        )
        order = [t.dim_order[d] for d in range(t.rank)]
        tail = "" if order == sorted(order) else "/" + "".join(map(str, order))
        return f"{short}[{','.join(str(t.sizes[d]) for d in range(t.rank))}]{tail}"
    if v.tag == c.STRING:
        return f"'{ctypes.string_at(v.u.p).decode()}'"
    if v.tag == c.BOOL_LIST:
        return f"b({' '.join(map(str, items(ctypes.c_uint8)))})"
    if v.tag == c.DOUBLE_LIST:
        return f"d({' '.join(map(repr, items(ctypes.c_double)))})"
    if v.tag in PREFIXES:
        return f"{PREFIXES[v.tag]}({' '.join(map(member, items(ctypes.c_void_p)))})"
    scalars = {
        c.NONE: "-",
        c.DOUBLE: repr(v.u.d),
        c.INT: str(v.u.i),
        c.BOOL: str(v.u.b).lower(),
    }
    return scalars[v.tag]


def structure(line: str) -> str:
    """The key of calls that differ only in sizes, numbers and element types."""
    line = re.sub(r"[a-z]+\d*\[([\d,]*)\]", lambda m: "T" + "," * m[1].count(","), line)
    return re.sub(r"-?\d+(\.\d+)?(e-?\d+)?", "n", line)


def picked(lines: set[str]) -> list[str]:
    short = [x for x in lines if len(x) < MAX_CHARACTERS and not re.search(r"[\[,]0[],]", x)]
    of_structure: dict[str, str] = {}
    for line in sorted(short, key=lambda x: ("f32" not in x, len(x), x)):
        of_structure.setdefault(structure(line), line)
    kept = sorted(of_structure.values(), key=lambda x: (len(x), x))
    return sorted({kept[0], kept[len(kept) // 2], kept[-1]}) if kept else []


def pytest_configure(config: Any) -> None:
    sys.path.insert(0, str(FOLDER.parent))
    from support import op_driver as driver
    from support import op_values

    def record(name: str, values: list[Any]) -> None:
        line = " ".join([name, *(text_of(op_values, v) for v in values)])
        recorded.setdefault(name, set()).add(line)

    run_op, run_scalar_op = driver.run_op, driver.run_scalar_op

    def recording_op(
        name: str, *args: Any, out: Any = (), tensor_list_out: bool = False, **options: Any
    ) -> Any:
        found = run_op(name, *args, out=out, tensor_list_out=tensor_list_out, **options)
        keep = op_values.Values(False)
        _, values = keep.call(args, out, tensor_list_out)
        record(name, values[:-1])
        return found

    def recording_scalar_op(name: str, *args: Any) -> Any:
        found = run_scalar_op(name, *args)
        keep = op_values.Values(False)
        record(name, [keep.value(arg) for arg in args])
        return found

    driver.run_op, driver.run_scalar_op = recording_op, recording_scalar_op


def pytest_sessionfinish(session: Any) -> None:
    lines = CALLS.read_text().splitlines()
    there = {line.split(" ", 1)[0] for line in lines}
    added = [line for name in recorded if name not in there for line in picked(recorded[name])]
    CALLS.write_text("".join(f"{line}\n" for line in sorted([*lines, *added])))
    print(f"\n{len(added)} calls added to {CALLS.name}")
