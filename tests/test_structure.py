"""The rules of the tree as tests: arrows, circles, sizes, names, sorted tables, no malloc.

The tables of arrows say which room may import or include which; a room that is not in a table is an
error, so that a new folder is a decision. `support/tree.py` reads the checkout.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from pathlib import Path, PurePosixPath

import pytest
from support.arrows import C_ARROWS, LAZY_UPWARD, PYTHON_ARROWS, TEST_ARROWS
from support.loop_model import isa_flags
from support.paths import ROOT
from support.tree import (
    Function,
    Import,
    c_calls,
    c_files,
    c_functions,
    c_macros,
    circles,
    computed_imports,
    imports,
    imports_of_tests,
    includes,
    literal_splats,
    modules,
    python_files,
    python_functions,
    relative_imports,
    text,
    tracked,
)

LONGEST_FILE = 600
LONGEST_FUNCTION = 60
# Longer files, each with its reason.
LONG_FILES = {
    "csrc/runtime/et.h": "the whole public C interface, to be read from top to bottom",
    "csrc/kernels/micro/fft/fft_pass.body.h": "one template: the passes of all radices",
}
# Longer functions: flat tables, which a split would not improve.
LONG_FUNCTIONS = {
    ("tests/bench/operator_moves.py", "layouts"),
    ("tests/support/xnnpack_cases.py", "moves"),
}
# Folders of tests that mirror the package; `bindings`, `cmake` and `kernels` mirror csrc.
MIRRORS = {
    "backends",
    "cli",
    "devtools",
    "exir",
    "extension",
    "quantizer",
    "runtime",
    "testing",
    "toolchain",
}
LONGEST_MACRO = 12
# Longer macros, each with its reason. Lists (X-macros named …_LIST) have one line an entry.
LONG_MACROS = {
    "FOR_ROWS": "calls a body with constants, so that each number of rows has code of its own",
    "PASS": "a function for each radix, whose helpers have the radix in their names",
    "ET_OP_LIBRARY": "one initialiser of a structure",
}
# Suffixes of the files of one family: `<name>_<isa>.c` beside `<name>.h`.
VARIANTS = re.compile(rf"_(scalar|{'|'.join(isa_flags())})$")


def room_of(name: str, rooms: dict[str, set[str]], separator: str) -> str | None:
    """The innermost room of the table that holds a module or file."""
    parts = name.split(separator)
    for n in range(len(parts), 0, -1):
        room = separator.join(parts[:n])
        if room in rooms:
            return room
    return None


def unused(arrows: dict[str, set[str]], used: set[tuple[str | None, str | None]]) -> list[str]:
    """The arrows of a table along which nothing goes."""
    listed = {(here, there) for here, rooms in arrows.items() for there in rooms}
    return [f"{here} -> {there}" for here, there in sorted(listed - used)]


# ---- arrows in C


def c_room(path: str) -> str | None:
    return room_of(path.removeprefix("csrc/"), C_ARROWS, "/")


def test_every_c_file_lies_in_a_room_of_the_table() -> None:
    homeless = [path for path in c_files("csrc/") if c_room(path) is None]
    assert not homeless, homeless


def test_c_rooms_include_only_the_rooms_that_the_table_allows() -> None:
    wrong = []
    for path in c_files("csrc/"):
        here = c_room(path)
        for name in includes(path):
            target = f"csrc/{name}" if (ROOT / "csrc" / name).exists() else None
            there = c_room(target) if target else here
            if here is not None and there != here and there not in C_ARROWS[here]:
                wrong.append(f"{path} includes {name}: {here} may not know {there}")
    assert not wrong, "\n".join(wrong)


def test_c_rooms_call_only_the_rooms_that_the_table_allows() -> None:
    wrong = []
    for path, targets in sorted(c_calls().items()):
        here = c_room(path)
        for target in sorted(targets):
            there = c_room(target)
            if here is not None and there != here and there not in C_ARROWS[here]:
                wrong.append(f"{path} calls {target}: {here} may not know {there}")
    assert not wrong, "\n".join(wrong)


def test_every_arrow_of_c_is_used() -> None:
    used = {
        (c_room(path), c_room(f"csrc/{name}"))
        for path in c_files("csrc/")
        for name in includes(path)
        if (ROOT / "csrc" / name).exists()
    }
    used |= {(c_room(path), c_room(target)) for path in c_calls() for target in c_calls()[path]}
    assert not unused(C_ARROWS, used)


def test_the_table_of_c_rooms_has_no_circle() -> None:
    assert circles(C_ARROWS) == []


def test_no_c_files_call_each_other_in_a_circle() -> None:
    found = circles(c_calls())
    assert not found, found


def test_operator_files_do_not_include_each_other() -> None:
    wrong = [
        f"{path} includes {name}"
        for path in c_files("csrc/kernels/op/")
        for name in includes(path)
        if name.startswith("kernels/op/") and name.endswith(".c")
    ]
    assert not wrong, "\n".join(wrong)


def test_internals_of_xnnpack_are_included_by_one_header() -> None:
    wrong = []
    for path in c_files("csrc/"):
        if re.search(r"^#include [<\"]xnnpack/", text(path), flags=re.M):
            wrong.append(path)
    assert wrong == ["csrc/backends/xnnpack/tuned/xnn_private.h"], wrong


# ---- arrows in Python


def python_room(module: str) -> str | None:
    return room_of(module, PYTHON_ARROWS, ".")


def test_every_python_module_lies_in_a_room_of_the_table() -> None:
    homeless = [name for name in modules() if python_room(name) is None]
    assert not homeless, homeless


def upward(found: Import) -> bool:
    """Whether an import is of a room that the importer's room may not import."""
    here, there = python_room(found.importer), python_room(found.imported)
    return here is not None and there != here and there not in PYTHON_ARROWS[here]


def test_python_rooms_import_only_the_rooms_that_the_table_allows() -> None:
    wrong = [
        f"{i.importer} imports {i.imported}{f' ({i.kind})' if i.kind else ''}: "
        f"{python_room(i.importer)} may not know {python_room(i.imported)}"
        for i in imports()
        if upward(i) and (i.importer, i.imported) not in LAZY_UPWARD
    ]
    assert not wrong, "\n".join(wrong)


def test_upward_imports_that_are_listed_exist_and_are_lazy() -> None:
    kinds = defaultdict(set)
    for i in imports():
        kinds[i.importer, i.imported].add(i.kind)
    stale = [pair for pair in LAZY_UPWARD if not kinds[pair] or "" in kinds[pair]]
    assert not stale, stale


def test_every_arrow_of_python_is_used() -> None:
    used = {
        (python_room(i.importer), python_room(i.imported))
        for i in imports()
        if (i.importer, i.imported) not in LAZY_UPWARD
    }
    assert not unused(PYTHON_ARROWS, used)


def test_the_table_of_python_rooms_has_no_circle() -> None:
    assert circles(PYTHON_ARROWS) == []


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Imports in functions count; those for types alone and those that point up do not."""
    graph = defaultdict(set)
    for i in imports():
        if i.kind != "type" and (i.importer, i.imported) not in LAZY_UPWARD:
            graph[i.importer].add(i.imported)
    assert circles(graph) == []


def test_no_import_is_relative() -> None:
    assert not relative_imports()


def test_names_of_modules_are_computed_from_tables_that_arrows_read() -> None:
    """`_HOME` is read as lazy imports; the other table is of upstream's import paths."""
    with_tables = {name for name, path in modules().items() if "\n_HOME = {" in text(path)}
    assert computed_imports() - with_tables == {"executorch_py._upstream_paths"}


def test_torch_is_imported_by_the_exporter_only() -> None:
    exporter = ("exir", "quantizer", "backends", "testing", "devtools", "export", "util")
    exporter += ("extension/export_util", "extension/llm", "extension/pytree", "optimum/export")
    wrong = []
    for path in python_files("executorch_py/"):
        inside = path.removeprefix("executorch_py/")
        if any(inside.startswith(f"{room}/") for room in exporter):
            continue
        if re.search(r"^(import torch|from torch)\b", text(path), flags=re.M):
            wrong.append(path)
    assert not wrong, wrong


# ---- arrows between tests


def test_nothing_imports_a_test_module() -> None:
    wrong = [
        f"{i.importer} imports {i.imported}"
        for i in imports_of_tests()
        if i.imported.rpartition(".")[2].startswith(("test_", "conftest"))
        and i.importer != "test_conftest"
    ]
    assert not wrong, "\n".join(wrong)


def test_folders_of_tests_import_support_and_what_the_table_allows() -> None:
    wrong, used = [], set()
    for i in imports_of_tests():
        here, there = i.importer.split(".")[0], i.imported.split(".")[0]
        used.add((here, there))
        allowed = {here} if here == "support" else {here, "support", *TEST_ARROWS.get(here, ())}
        if there not in allowed:
            wrong.append(f"{i.importer} imports {i.imported}: {here} may not import {there}")
    assert not wrong, "\n".join(wrong)
    assert not unused(TEST_ARROWS, used)


def test_folders_of_tests_mirror_the_package() -> None:
    folders = {PurePosixPath(path).parent.relative_to("tests") for path in python_files("tests/")}
    mirrors = {folder for folder in folders if folder.parts and folder.parts[0] in MIRRORS}
    missing = [str(f) for f in mirrors if not (ROOT / "executorch_py" / f).is_dir()]
    assert len(mirrors) > len(MIRRORS) and not missing, missing


# ---- sizes and names


def too_long(functions: list[Function]) -> list[str]:
    return [
        f"{f.path}: {f.name} has {f.lines} lines"
        for f in functions
        if f.lines > LONGEST_FUNCTION and (f.path, f.name) not in LONG_FUNCTIONS
    ]


def test_functions_fit_a_screen() -> None:
    wrong = too_long([f for path in c_files() for f in c_functions(path)])
    wrong += too_long([f for path in python_files() for f in python_functions(path)])
    assert not wrong, "\n".join(wrong)


def test_files_hold_one_subject() -> None:
    wrong = {
        path: lines
        for path in c_files() + python_files()
        if (lines := len(text(path).splitlines())) > LONGEST_FILE and path not in LONG_FILES
    }
    assert not wrong, wrong


def test_macros_have_few_lines() -> None:
    wrong = [
        f"{m.path}: {m.name} has {m.lines} lines"
        for path in c_files()
        for m in c_macros(path)
        if m.lines > LONGEST_MACRO and m.name not in LONG_MACROS and not m.name.endswith("_LIST")
    ]
    assert not wrong, "\n".join(wrong)


def test_no_base_name_stands_in_two_folders_of_csrc() -> None:
    """`<name>.h`, `.c`, `.body.h`, `.inc.h` and `_<isa>.c` of one folder are one family."""
    folders = defaultdict(set)
    for path in c_files("csrc/"):
        stem = VARIANTS.sub("", PurePosixPath(path).name.partition(".")[0])
        folders[stem].add(str(PurePosixPath(path).parent))
    twins = {stem: sorted(homes) for stem, homes in folders.items() if len(homes) > 1}
    assert not twins, twins


def layer_of(module: str) -> str:
    """The package whose modules need names of their own: exir, quantizer, backends.xnnpack …"""
    parts = module.split(".")[1:]
    return ".".join(parts[: 2 if parts[0] == "backends" else 1])


def test_no_module_name_stands_twice_within_a_python_package() -> None:
    names: Counter[tuple[str, str]] = Counter()
    for module, path in modules().items():
        if module != "executorch_py" and not path.endswith("__init__.py"):
            names[layer_of(module), module.rpartition(".")[2]] += 1
    assert not [name for name, n in names.items() if n > 1]


def test_no_exported_c_type_has_two_definitions() -> None:
    found = defaultdict(set)
    for path in c_files("csrc/"):
        if path.endswith(".h"):
            for name in re.findall(r"^typedef struct (\w+) \w+;", text(path), flags=re.M):
                found[name].add(path)
            for name in re.findall(r"^\} (\w+);", text(path), flags=re.M):
                found[name].add(path)
    twins = {name: sorted(paths) for name, paths in found.items() if len(paths) > 1}
    assert not twins, twins


def test_every_source_file_says_what_it_is_for() -> None:
    silent = []
    for path in c_files() + python_files():
        opening = text(path).strip().removeprefix("#!/usr/bin/env python3\n").lstrip()
        if not opening or PurePosixPath(path).name == "__init__.py":
            continue
        if not opening.startswith(("//", '"""', "#")):
            silent.append(path)
    assert not silent, silent


# ---- tables and habits


def test_no_literal_is_unpacked_where_it_stands() -> None:
    assert not literal_splats()


def test_runtime_and_kernels_never_allocate_or_print() -> None:
    forbidden = re.compile(r"\b(malloc|calloc|realloc|free|printf|fprintf|puts|abort|exit)\s*\(")
    wrong = []
    for path in c_files("csrc/runtime/") + c_files("csrc/kernels/"):
        if path.endswith(".c"):
            code = re.sub(r"//[^\n]*", "", text(path))
            wrong += [f"{path}: {match.group(0)}" for match in forbidden.finditer(code)]
    assert not wrong, "\n".join(wrong)


def test_operator_table_is_sorted_and_unique() -> None:
    table = text("csrc/kernels/ops.inc.h")
    names = re.findall(r'^ET_OP(?:_PREPARED)?\(\s*"([^"]+)"', table, flags=re.M)
    assert names == sorted(names, key=str.encode)
    assert len(names) == len(set(names))


def test_nothing_large_or_foreign_is_tracked() -> None:
    large = [path for path in tracked() if (ROOT / path).stat().st_size > 512 * 1024]
    assert not large, large


READMES = [path for path in tracked() if Path(path).name == "README.md"]


@pytest.mark.parametrize("path", READMES)
def test_a_readme_is_short_and_scans(path: str) -> None:
    lines = text(path).splitlines()
    assert len(lines) <= (110 if path == "README.md" else 40)
    wide = [line for line in lines if len(line) > 120]
    assert not wide, wide


@pytest.mark.parametrize(
    "folder",
    [
        "csrc",
        "csrc/runtime",
        "csrc/kernels",
        "csrc/backends/xnnpack",
        "csrc/bindings",
        "executorch_py",
        "executorch_py/exir",
        "executorch_py/exir/passes",
        "tests",
        "executorch_py/quantizer",
        "executorch_py/backends/xnnpack",
        "executorch_py/runtime",
    ],
)
def test_a_folder_that_newcomers_meet_has_a_readme(folder: str) -> None:
    assert f"{folder}/README.md" in READMES
