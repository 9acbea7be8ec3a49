"""The rules of the tree as tests:

arrows between layers, file sizes, names, sorted tables, no malloc below the bindings.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
TRACKED = [
    ROOT / line
    for line in subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    if (ROOT / line).exists()
]
C_FILES = [p for p in TRACKED if p.suffix in {".c", ".h"}]
PY_FILES = [p for p in TRACKED if p.suffix == ".py"]

# A C file in the layer on the left may include headers of the layers on the right.
LAYERS = {
    "runtime": {"runtime"},
    "kernels": {"kernels", "runtime"},
    "backends": {"backends", "runtime"},
    "tools": {"tools", "kernels", "runtime"},
    "bindings": {"bindings", "tools", "backends", "kernels", "runtime"},
}
LONGEST_FILE = 900


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def includes(path: Path) -> list[str]:
    return re.findall(r'^#include "([^"]+)"', path.read_text(), flags=re.M)


@pytest.mark.parametrize("layer", LAYERS)
def test_c_layers_include_downward_only(layer: str) -> None:
    wrong = []
    for path in C_FILES:
        if not relative(path).startswith(f"csrc/{layer}/"):
            continue
        for name in includes(path):
            target = name.split("/")[0]
            allowed = target in LAYERS[layer] or name.startswith("kernels/micro/")
            if "/" in name and not allowed:
                wrong.append(f"{relative(path)} includes {name}")
    assert not wrong, "\n".join(wrong)


def test_operator_files_do_not_include_each_other() -> None:
    wrong = [
        f"{relative(path)} includes {name}"
        for path in C_FILES
        if relative(path).startswith("csrc/kernels/op/")
        for name in includes(path)
        if name.startswith("kernels/op/") and name.endswith(".c")
    ]
    assert not wrong, "\n".join(wrong)


def test_runtime_and_kernels_never_allocate_or_print() -> None:
    forbidden = re.compile(r"\b(malloc|calloc|realloc|free|printf|fprintf|puts|abort|exit)\s*\(")
    wrong = []
    for path in C_FILES:
        name = relative(path)
        if name.startswith(("csrc/runtime/", "csrc/kernels/")) and path.suffix == ".c":
            code = re.sub(r"//[^\n]*", "", path.read_text())
            wrong += [f"{name}: {match.group(0)}" for match in forbidden.finditer(code)]
    assert not wrong, "\n".join(wrong)


def test_operator_table_is_sorted_and_unique() -> None:
    text = (ROOT / "csrc/kernels/ops.inc.h").read_text()
    names = re.findall(r'^ET_OP(?:_PREPARED)?\(\s*"([^"]+)"', text, flags=re.M)
    assert names == sorted(names, key=str.encode)
    assert len(names) == len(set(names))


def test_no_file_outgrows_one_subject() -> None:
    long = {
        relative(path): lines
        for path in C_FILES + PY_FILES
        if (lines := len(path.read_text().splitlines())) > LONGEST_FILE
    }
    assert not long, long


def test_every_source_file_says_what_it_is_for() -> None:
    silent = []
    for path in C_FILES + PY_FILES:
        text = path.read_text().strip()
        if not text or path.name == "__init__.py":
            continue
        opening = text.removeprefix("#!/usr/bin/env python3\n").lstrip()
        if not opening.startswith(("//", '"""', "#")):
            silent.append(relative(path))
    assert not silent, silent


def test_torch_is_imported_by_the_exporter_only() -> None:
    exporter = (
        "executorch_py/exir/",
        "executorch_py/quantizer/",
        "executorch_py/backends/",
        "executorch_py/testing",
        "executorch_py/devtools/",
        "executorch_py/export/",
        "executorch_py/extension/export_util/",
        "executorch_py/extension/llm/",
        "executorch_py/extension/pytree/",
        "executorch_py/util/",
    )
    wrong = []
    for path in PY_FILES:
        name = relative(path)
        if not name.startswith("executorch_py/") or name.startswith(exporter):
            continue
        if re.search(r"^(import torch|from torch)\b", path.read_text(), flags=re.M):
            wrong.append(name)
    assert not wrong, wrong


def test_nothing_large_or_foreign_is_tracked() -> None:
    large = [relative(p) for p in TRACKED if p.stat().st_size > 512 * 1024]
    assert not large, large
