"""The comparison of checkouts: each kind of loss is a line, and equal records have none."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.compare_checkouts import differences, names_of_tests
from support.public_names import names_in

FOLDER = Path(__file__).resolve().parent / "support"
ABOUT = {
    "catalogue": "c",
    "commit": "a",
    "asked": False,
    "machine": "x86_64",
    "torch": "2",
    "torchao": "0",
    "xnnpack": None,
    "instructions": ["avx2"],
    "torch_instructions": "AVX2",
    "int8_products": False,
    "amx": False,
}
NAMES = {"names": ["load", "save"], "is_upstream": True, "upstream": ["load"], "documented": []}
OLD: dict[str, Any] = {
    "about": ABOUT,
    "exports": {"mlp": {"pte": "1", "results": "2"}},
    "names": {
        "package.files": NAMES,
        "package.tools": {"names": ["x"], "is_upstream": False, "upstream": [], "documented": []},
    },
    "tests": {"count": 3, "files": {"test_a[1]": ["a.py", "b.py"], "test_b": ["b.py"]}},
    "bits": {"hash": "3", "lines": 9},
    "size": {"x86-64, codes only": 100},
}


def changed(*keys: str, to: Any) -> dict[str, Any]:
    """The record with one entry changed."""
    new = copy.deepcopy(OLD)
    place = new
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = to
    return new


def test_equal_records_have_no_difference() -> None:
    assert differences(OLD, copy.deepcopy(OLD)) == []


def test_changed_bytes_and_results_are_reported() -> None:
    assert differences(OLD, changed("exports", "mlp", "pte", to="4")) == ["export mlp: pte changed"]
    assert differences(OLD, changed("exports", "mlp", "results", to="4")) == [
        "export mlp: results changed"
    ]
    assert differences(OLD, changed("exports", to={})) == ["export mlp: gone"]
    refused = changed("exports", "mlp", to={"error": "ValueError: no"})
    assert differences(OLD, refused) == ["export mlp: refused now: ValueError: no"]


def test_a_lost_name_is_reported_with_its_kind() -> None:
    new = changed("names", "package.files", "names", to=["more"])
    assert differences(OLD, new) == [
        "name package.files.load (upstream): gone",
        "name package.files.save (internal): gone",
    ]
    assert differences(OLD, new, public=True) == ["name package.files.load (upstream): gone"]


def test_a_lost_module_is_reported_once() -> None:
    new = changed("names", to={"package.tools": OLD["names"]["package.tools"]})
    assert differences(OLD, new) == ["module package.files (upstream): gone, with 2 names"]
    new = changed("names", to={"package.files": NAMES})
    assert differences(OLD, new) == ["module package.tools (internal): gone, with 1 names"]
    assert differences(OLD, new, public=True) == []


def test_a_moved_test_is_there_and_a_lost_one_is_reported() -> None:
    moved = {"test_a[1]": ["c/d.py", "e.py"], "test_b": ["f.py"], "test_new": ["f.py"]}
    assert differences(OLD, changed("tests", "files", to=moved)) == []
    with_parameters = {"test_a[1]": ["a.py", "b.py"], "test_b[1]": ["b.py"]}
    assert differences(OLD, changed("tests", "files", to=with_parameters)) == []
    lost = {"test_a[1]": ["c/d.py"]}
    assert differences(OLD, changed("tests", "files", to=lost)) == [
        "test test_a[1]: 1 lost of 2 (a.py, b.py)",
        "test test_b: 1 lost of 1 (b.py)",
    ]


def test_changed_bits_and_greater_code_are_reported() -> None:
    assert differences(OLD, changed("bits", "hash", to="4")) == [
        "bits: the table changed (9 lines, 9 now)"
    ]
    larger = changed("size", "x86-64, codes only", to=101)
    assert differences(OLD, larger) == ["size x86-64, codes only: 100 -> 101 bytes"]
    assert differences(OLD, changed("size", "x86-64, codes only", to=99)) == []


def test_a_section_that_is_missing_is_reported() -> None:
    new = {key: value for key, value in OLD.items() if key != "tests"}
    assert differences(OLD, new) == ["section tests: in one record only"]


def test_names_of_tests_are_read_from_pytest_s_list() -> None:
    listing = "tests/a.py::test_x[a::b c]\ntests/b.py::Class::test_y\n\n2 tests collected in 1 s"
    assert names_of_tests(listing) == {
        "test_x[a::b c]": ["tests/a.py"],
        "Class::test_y": ["tests/b.py"],
    }


def test_public_names_of_a_source_are_definitions_and_imports_from_the_package() -> None:
    source = """
import os
from executorch_py.a import b as c, _d
from torch import nn
X, _Y = 1, 2
Z: int = 3
if X:
    def f(): ...
try:
    class G: ...
except ImportError:
    pass
"""
    assert names_in(source) == {"c", "X", "Z", "f", "G"}


@pytest.mark.parametrize("explained", [False, True])
def test_the_program_ends_with_1_unless_differences_are_explained(
    tmp_path: Path, explained: bool
) -> None:
    paths = [tmp_path / name for name in ("old.json", "new.json", "explained.txt")]
    paths[0].write_text(json.dumps(OLD))
    paths[1].write_text(json.dumps(changed("exports", "mlp", "pte", to="4")))
    paths[2].write_text("export mlp: pte changed  # names of passes are longer\n")
    command: list[Any] = [sys.executable, FOLDER / "compare_checkouts.py", "compare", *paths[:2]]
    command += ["--explained", paths[2]] if explained else []
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == (0 if explained else 1), done.stderr
    assert ("longer" in done.stdout) is explained
    assert "1 exports, 2 modules, 3 -> 3 tests" in done.stdout


def test_every_field_of_the_configuration_is_set_by_some_export() -> None:
    code = "import recorded_exports as r; r.register(); import recorded_portable as p; "
    code += "print(len(r.CASES), sorted(p.missing_fields()))"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        cwd=FOLDER,
        capture_output=True,
        text=True,
        check=True,
    )
    count, missing = done.stdout.splitlines()[-1].split(" ", 1)
    assert int(count) >= 60 and missing == "[]"
