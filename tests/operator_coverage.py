"""Writes the page of what runs: every kernel with its dtypes, ranks, layouts and tests, and every
overload that torch tags `core` with the way it takes to the runtime.

    python tests/operator_coverage.py [build/docs/operators.md]        (make docs)

The page is generated from the kernel table that is linked into `executorch_py._C`, from torch's
registry and from the test files; nothing of it is kept by hand but the reasons below.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parent
# Core overloads without a way to the runtime, and why.
REASONS: dict[str, str] = {}
# Kernels that refuse some layouts; every other one takes any dim order of every operand.
LAYOUTS = {
    "aten::_unique2.out": "result in rows",
    "aten::unique_consecutive.out": "result in rows",
    "aten::unique_dim.out": "result in rows",
    "executorch_prim::et_view.default": "bytes stay where they are",
}


@dataclass(frozen=True)
class Kernel:
    name: str
    inputs: str
    outputs: str
    rank: str
    layouts: str
    tests: str


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


def kernels() -> list[Kernel]:
    """Every linked kernel, sorted by name."""
    from executorch_py import _C

    texts = {
        str(path.relative_to(TESTS)): path.read_text()
        for pattern in ("kernels/test_*.py", "exir/**/test_*.py", "c/test_*.c")
        for path in sorted(TESTS.glob(pattern))
    }
    rows = []
    for name, facts in sorted(_C.kernel_manifest().items()):
        rank = facts.get("max_rank")
        rows.append(
            Kernel(
                name,
                " ".join(facts["inputs"]),
                " ".join(facts["outputs"]),
                "any" if rank is None or rank >= 16 else f"at most {rank}",
                LAYOUTS.get(name, "any"),
                _test_files(name, texts),
            )
        )
    return rows


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
    """How an overload reaches a kernel; empty when it does not."""
    import torch

    from executorch_py import _C
    from executorch_py.exir.dialects.sym_ops import KEPT_AS_TORCH_OPS
    from executorch_py.exir.ir.linked_kernels import has_linked_kernel
    from executorch_py.exir.program.decompositions import decomposition_table
    from executorch_py.exir.program.uncommon_ops import uncommon_decompositions

    name = op._schema.name.removeprefix("aten::")
    overload = op._schema.overload_name or "default"
    if has_linked_kernel(op) or op._schema.name in _C.kernel_manifest():
        return "kernel"
    if op in decomposition_table():
        return "decomposed by torch"
    if op in uncommon_decompositions():
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
    lines = [f"# Operators\n\n{len(rows)} kernels.\n"]
    lines.append("| kernel | inputs | outputs | rank | layouts | tests |\n|" + " --- |" * 6)
    lines += [
        f"| `{k.name}` | {k.inputs} | {k.outputs} | {k.rank} | {k.layouts} | {k.tests} |"
        for k in rows
    ]
    core = [(str(op), way_of(op) or REASONS.get(str(op), "cannot run")) for op in core_overloads()]
    lines.append(f"\n# Torch's {len(core)} core overloads\n")
    lines.append("| overload | how it runs |\n| --- | --- |")
    lines += [f"| `{name}` | {way} |" for name, way in core]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    target = Path(sys.argv[1] if len(sys.argv) > 1 else "build/docs/operators.md")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(page())
    print(f"{target}: {len(kernels())} kernels; core overloads without a way: {remaining() or 0}")
