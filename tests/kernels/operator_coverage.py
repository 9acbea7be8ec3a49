"""Generator of the page of operators: kernels with dtypes, ranks, layouts, tests; core overloads.

Core overloads are those that torch tags `core`; the page has the way of each to the runtime.

    python tests/kernels/operator_coverage.py [build/docs/operators.md]        (make docs)

The page is generated from the kernel table that is linked into `executorch_py._C`, from torch's
registry, from the rows of `kernels/table` and from the test files; nothing of it is kept by hand
but the reasons below.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parents[1]
# Core overloads without a way to the runtime, with reasons.
REASONS: dict[str, str] = {}
# Kernels that refuse some layouts; every other one takes any dim order of every operand.
LAYOUTS = {
    "aten::_unique2.out": "result in rows",
    "aten::unique_consecutive.out": "result in rows",
    "aten::unique_dim.out": "result in rows",
    "executorch_prim::et_view.default": "bytes stay where they are",
}


# Kernels without rows in the operator table, by the start of their names, with reasons.
WITHOUT_ROWS = {
    "executorch_prim::": "numbers, not tensors",
    "executorch_py::": "judged by the operators they are made of",
    "aten::sym_": "a number, not a tensor",
    "aten::_local_scalar_dense": "a number, not a tensor",
    "aten::copy_": "updates its argument",
    "aten::index_put_": "updates its argument",
    "aten::_native_batch_norm_legit.out": "updates its arguments",
    "llama::": "judged by definitions of their own",
    "preprocess::tile_crop": "judged by a definition of its own",
    "quantized_decomposed::mixed_": "judged by a definition of its own",
    "quantized_decomposed::embedding_": "the same loops as without the dtype",
    "aten::multinomial": "random",
    "aten::native_dropout": "random in training",
    "aten::rand": "random",
    "aten::fractional_max_pool": "windows are drawn",
    "aten::empty": "elements are left alone",
    "dim_order_ops::_empty": "elements are left alone",
    "aten::as_strided_copy": "reads memory, not elements",
    "aten::_linalg_": "factors are not unique",
    "aten::unique_dim": "slices, with a bound",
    "aten::special_zeta.": "the same loop as with two tensors",
}


@dataclass
class Tabled:
    """Coverage of one kernel by the operator table."""

    rows: int = 0
    dtypes: set[str] = field(default_factory=set)
    layouts: set[str] = field(default_factory=set)
    growing: bool = False

    def __str__(self) -> str:
        if self.rows == 0:
            return ""
        order = ["contiguous", "channels last", "other dim orders"]
        layouts = ", ".join(name for name in order if name in self.layouts)
        sizes = ", changing sizes" if self.growing else ""
        return f"{self.rows}: {' '.join(sorted(self.dtypes))}; {layouts}{sizes}"


@dataclass(frozen=True)
class Kernel:
    name: str
    inputs: str
    outputs: str
    rank: str
    layouts: str
    tabled: Tabled
    tests: str


@cache
def table() -> dict[str, Tabled]:
    """The operator table, counted by kernel."""
    if str(TESTS) not in sys.path:
        sys.path.insert(0, str(TESTS))
    from kernels.table import every_row

    counted: dict[str, Tabled] = defaultdict(Tabled)
    for row in every_row():
        entry = counted[row.op]
        entry.rows += 1
        entry.dtypes.add(row.dtype)
        entry.layouts.add(row.layout)
        entry.growing |= row.bound is not None
    return counted


def _test_files(name: str, texts: dict[str, str]) -> str:
    """Test files that name the operator, or whose rows make its name from parts."""
    base = name.partition("::")[2].partition(".")[0]
    stem = re.escape(re.split(r"\d", base)[0])
    tail = re.escape(re.split(r"\d", base)[0].partition("_")[2])
    for pattern in (rf"(?<!\w){re.escape(base)}(?!\w)", rf"(?<!\w){stem}\{{", rf"\}}_{tail}\{{"):
        found = [file for file, text in texts.items() if re.search(pattern, text)]
        if found:
            return ", ".join(found)
    return ""


@cache
@cache
def _linked_names() -> frozenset[str]:
    """Names of the kernels of a process without libraries."""
    code = "from executorch_py import _C; print(*_C.kernel_manifest())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return frozenset(done.stdout.split())


def kernels() -> list[Kernel]:
    """Every linked kernel, sorted by name; not those of libraries that this process has loaded."""
    from executorch_py import _C

    texts = {
        str(path.relative_to(TESTS)): path.read_text()
        for pattern in (
            "kernels/test_*.py",
            "kernels/table/*.py",
            "exir/**/test_*.py",
            "c/test_*.c",
        )
        for path in sorted(TESTS.glob(pattern))
    }
    rows = []
    counted = table()
    linked = _linked_names()
    for name, facts in sorted(_C.kernel_manifest().items()):
        if name not in linked:
            continue
        rank = facts.get("max_rank")
        rows.append(
            Kernel(
                name,
                " ".join(facts["inputs"]),
                " ".join(facts["outputs"]),
                "any" if rank is None or rank >= 16 else f"at most {rank}",
                LAYOUTS.get(name, "any"),
                counted.get(name, Tabled()),
                _test_files(name, texts),
            )
        )
    return rows


def reason_without_rows(name: str) -> str:
    """The reason why a kernel has no rows in the operator table; empty if there is none."""
    found = [why for start, why in WITHOUT_ROWS.items() if name.startswith(start)]
    return found[0] if found else ""


def core_overloads() -> Iterator[Any]:
    """Every overload of torch that is tagged `core`, sorted by name."""
    import torch

    for name in sorted(torch._C._dispatch_get_all_op_names()):
        library, _, rest = name.partition("::")
        base, _, overload = rest.partition(".")
        packet = getattr(getattr(torch.ops, library), base, None)
        op = getattr(packet, overload or "default", None)
        if op is not None and torch.Tag.core in op.tags:
            yield op


def way_of(op: Any) -> str:
    """The way of an overload to a kernel; empty if there is none."""
    import torch

    from executorch_py import _C
    from executorch_py.exir.decompose.core import decomposition_table
    from executorch_py.exir.decompose.non_core_ops import non_core_decompositions
    from executorch_py.exir.dialects.sym_ops import KEPT_AS_TORCH_OPS
    from executorch_py.exir.ir.runtime_kernels import has_linked_kernel

    name = op._schema.name.removeprefix("aten::")
    overload = op._schema.overload_name or "default"
    if has_linked_kernel(op) or op._schema.name in _C.kernel_manifest():
        return "kernel"
    if op in decomposition_table():
        return "decomposed by torch"
    if op in non_core_decompositions():
        return "decomposed by the exporter"
    if op in KEPT_AS_TORCH_OPS:
        return "number"
    if op.is_view:
        copy = getattr(getattr(torch.ops.aten, f"{name}_copy", None), overload, None)
        return "a copy, or nothing where it can alias" if copy is not None else ""
    if name.endswith("_") and hasattr(torch.ops.aten, name[:-1]):
        functional = getattr(getattr(torch.ops.aten, name[:-1]), overload, None)
        return "functional form: " + way_of(functional) if functional is not None else ""
    return ""


def remaining() -> list[str]:
    """Core overloads that neither reach a kernel nor have a reason."""
    return [str(op) for op in core_overloads() if not way_of(op) and str(op) not in REASONS]


def page() -> str:
    """The page as Markdown."""
    rows = kernels()
    n_rows = sum(k.tabled.rows for k in rows)
    n_tabled = sum(k.tabled.rows > 0 for k in rows)
    lines = [f"# Operators\n\n{len(rows)} kernels. The operator table (`tests/kernels/table`) runs"]
    lines[0] += f" {n_rows} rows of {n_tabled} of them; the tests named last say what is special.\n"
    lines.append("| kernel | inputs | outputs | rank | layouts | rows of the table | tests |")
    lines.append("|" + " --- |" * 7)
    lines += [
        f"| `{k.name}` | {k.inputs} | {k.outputs} | {k.rank} | {k.layouts} | "
        f"{str(k.tabled) or 'none: ' + reason_without_rows(k.name)} | {k.tests} |"
        for k in rows
    ]
    core = [(str(op), way_of(op) or REASONS.get(str(op), "cannot run")) for op in core_overloads()]
    left = [name for name, way in core if way == "cannot run" or name in REASONS]
    lines.append(f"\n# Torch's {len(core)} core overloads\n")
    lines.append(f"Without a way to the runtime: {', '.join(left) or 'none'}.\n")
    lines.append("| overload | how it runs |\n| --- | --- |")
    lines += [f"| `{name}` | {way} |" for name, way in core]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    target = Path(sys.argv[1] if len(sys.argv) > 1 else "build/docs/operators.md")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(page())
    print(f"{target}: {len(kernels())} kernels; core overloads without a way: {remaining() or 0}")
