"""Rows of the operator table and element types that given programs need, as C text.

The rows are those of kernels/ops.inc.h, so that functions, argument counts and rules equal those of
the full build. Their type sets are reduced to the types of the programs. Knows no compiler.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from executorch_py.errors import NotFound, OperatorMissing
from executorch_py.terminal_text import name_text
from executorch_py.toolchain.needs import Needs

# ScalarType numbers.
_U8, _I8, _I16, _I32, _I64, _F16, _F32, _F64 = range(8)
_C64, _C128, _B8, _BF16 = 9, 10, 11, 15
# Backends with a library that only the CMake build of csrc links.
LINKED_APART = frozenset({"XnnpackBackend"})
_ORDER = (_U8, _I8, _I16, _I32, _I64)


@dataclass(frozen=True)
class Row:
    """One line of ops.inc.h."""

    name: str
    run: str
    prepare: str | None
    n_args: str
    inputs: str
    outputs: str
    rest: tuple[str, ...]

    def text(self, types: int) -> str:
        """The line with reduced type sets; an empty set stands for no condition."""
        macro = "ET_OP" if self.prepare is None else "ET_OP_PREPARED"
        functions = [self.run] if self.prepare is None else [self.run, self.prepare]
        sets = [f"({s}) & {types:#x}u" for s in (self.inputs, self.outputs)]
        return f'{macro}("{self.name}", {", ".join([*functions, self.n_args, *sets, *self.rest])})'

    @property
    def functions(self) -> list[str]:
        return [self.run] if self.prepare is None else [self.run, self.prepare]


def read_rows(table: Path) -> dict[str, Row]:
    """The operator table, kernels/ops.inc.h."""
    rows = {}
    for match in re.finditer(
        r'^(ET_OP|ET_OP_PREPARED)\("([^"]+)", (.*)\)$', table.read_text(), re.M
    ):
        prepared = match[1] == "ET_OP_PREPARED"
        run, *parts = _split(match[3])
        prepare = parts.pop(0) if prepared else None
        n_args, inputs, outputs, *rest = parts
        rows[match[2]] = Row(match[2], run, prepare, n_args, inputs, outputs, tuple(rest))
    return rows


def _split(text: str) -> list[str]:
    """Parts of a text between commas that are outside of parentheses."""
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += (c == "(") - (c == ")")
        if c == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    return [*parts, text[start:].strip()]


def check_needs(needs: Sequence[Needs], rows: Mapping[str, Row], backends: Iterable[str]) -> None:
    """Raises an error that names all operators and backends that this build does not have."""
    missing = {name: n.path for n in needs for name in n.operators if name not in rows}
    if missing:
        listed = ", ".join(f"{name_text(name)} ({path})" for name, path in sorted(missing.items()))
        raise OperatorMissing(
            f"no kernel for: {listed}\n"
            "Write it in one C file (executorch_py build-ops --example prints one) and name the "
            "file with --ops my_op.c.\nOr, if your program links its own table (see "
            f"kernels/custom.h), name the operator with --elsewhere {name_text(min(missing))}"
        )
    usable = set(backends) - LINKED_APART
    absent = {name: n.path for n in needs for name in n.backends if name not in usable}
    if absent:
        listed = ", ".join(f"{name_text(name)} ({path})" for name, path in sorted(absent.items()))
        apart = "" if LINKED_APART.isdisjoint(absent) else ", or build all of csrc with CMake"
        raise NotFound(
            f"no such backend in this library: {listed}; export without its partitioner{apart}"
        )


def merged(needs: Sequence[Needs]) -> dict[str, set[int]]:
    """Operators of all files with their element types, in the order of the table."""
    together: dict[str, set[int]] = {}
    for need in needs:
        for name, types in need.operators.items():
            together.setdefault(name, set()).update(types)
    return dict(sorted(together.items(), key=lambda item: item[0].encode()))


def closure(types: set[int]) -> set[int]:
    """Types that kernels may compute in, given the types of tensors.

    Kernels compute in common types of two types, f32 (half precision, divisions, most scalars), i64
    (sums and scalars) and bool (masks).
    """
    closed = {*types, _F32, _B8}
    integers = [t for t in _ORDER if t in closed]
    if len(integers) > 1 and _U8 in integers and _I8 in integers:
        closed.add(_I16)
    if integers or _B8 in types:
        closed.add(_I64)
    if closed & {_C64, _C128} and _F64 in closed:
        closed.add(_C128)
    if _C128 in closed:
        closed.add(_F64)
    return closed


def bits(types: Iterable[int]) -> int:
    return sum(1 << t for t in set(types))


def table_source(
    operators: Mapping[str, set[int]],
    rows: Mapping[str, Row],
    origin: Sequence[str],
    loops: str,
    next_table: str | None = None,
) -> str:
    """The C file with the table, for kernels/op_registry.c; `next_table` is a library's symbol."""
    lines = "\n".join(rows[name].text(bits(types)) for name, types in operators.items())
    comment = "\n".join(f"// {line}" for line in origin)
    fields = [".ops = ops", ".n_ops = sizeof ops / sizeof ops[0]"] if operators else []
    if next_table is not None:
        fields.append(f".next = &{next_table}.table")
    table = f"static const et_op ops[] = {{\n{lines}\n}};\n" if operators else ""
    custom = "" if next_table is None else f"extern const et_op_library {next_table};\n"
    header = "" if next_table is None else '#include "kernels/custom.h"\n'
    return f"""\
// The operators of these programs only; made by executorch_py build-kernels.
{comment}
{header}#include "kernels/dtype_sets.h"
#include "kernels/ops.h"
#include "runtime/et.h"

#define ET_OP(name_, run_, n_args_, in_, out_, ...) \\
  {{.name = name_, .run = run_, .n_args = n_args_, .in_dtypes = in_, .out_dtypes = out_, \\
   __VA_ARGS__}},
#define ET_OP_PREPARED(name_, run_, prepare_, n_args_, in_, out_, ...) \\
  {{.name = name_, .run = run_, .prepare = prepare_, .n_args = n_args_, .in_dtypes = in_, \\
   .out_dtypes = out_, __VA_ARGS__}},

{table}{custom}
const et_op_table et_ops_portable = {{{", ".join(fields)}}};

// Symbols by which {loops} selects loops; no code reads them.
#define ETI_LOOP(kind, name) extern const char eti_use_##kind##_##name; \\
  const char eti_use_##kind##_##name = 0;
"""


def loop_names(header: Path) -> list[tuple[str, str]]:
    """Loops of the tables per instruction set in micro/eltwise/eltwise.h, as (kind, name)."""
    text = header.read_text()
    found = []
    for kind, list_name in (
        ("unary", "UNARY"),
        ("binary", "BINARY"),
        ("ints", "INT"),
        ("rows", "ROW"),
    ):
        body = re.search(rf"#define ETI_{list_name}_LIST\(X\)((?:.*\\\n)*.*)\n", text)
        assert body is not None, f"{header} has no list of {kind} functions"
        found += [(kind, name) for name in re.findall(r"X\((\w+)\)", body[1])]
    return found


def loops_header(names: Sequence[tuple[str, str]], kept: set[tuple[str, str]]) -> str:
    lines = [f"#define ETI_KEEP_{kind}_{name} {int((kind, name) in kept)}" for kind, name in names]
    first = "// Loops per instruction set that the selected operators use; made by build-kernels.\n"
    return first + "\n".join(lines) + "\n"
