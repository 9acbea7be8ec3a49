"""Upstream's paths and names that this package refuses: each error names a replacement."""

from __future__ import annotations

import importlib
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.paths import ROOT

import executorch_py
from executorch_py import _refused_paths as refused
from executorch_py._former_paths import FORMER_PATHS
from executorch_py._upstream_paths import UPSTREAM_PATHS

PACKAGE = Path(executorch_py.__file__).parent
SENTENCES = re.compile(r"^executorch_py\.[\w.]+ is not part of this package: .*\. Use .*\.$")
OUR_NAME = re.compile(r"\b(?:executorch_py|torch)(?:\.\w+)+")


def resolve(name: str) -> object:
    """The object that a dotted name stands for."""
    module, _, attribute = name.rpartition(".")
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        return getattr(resolve(module), attribute)


@pytest.mark.parametrize("path", sorted(refused.REFUSED_PATHS))
def test_importing_a_refused_path_raises_our_error(path: str) -> None:
    with pytest.raises(ModuleNotFoundError, match=SENTENCES) as caught:
        importlib.import_module(f"executorch_py.{path}")
    assert isinstance(caught.value, refused.RefusedPathError)
    assert isinstance(caught.value, refused.RefusedNameError)
    assert str(caught.value) == refused.message_of(path)
    with pytest.raises(refused.RefusedPathError, match=re.escape(f"executorch_py.{path} is not")):
        importlib.import_module(f"executorch_py.{path}.anything_below")


@pytest.mark.parametrize("entry", sorted(refused.REFUSED_PATHS | refused.REFUSED_NAMES))
def test_a_script_that_imports_the_name_sees_our_error(entry: str) -> None:
    parent, _, name = f"executorch_py.{entry}".partition(":")
    if not name:
        parent, _, name = parent.rpartition(".")
    statement = f"from {parent} import {name}"
    with pytest.raises(ImportError, match=SENTENCES) as caught:
        exec(statement, {})
    assert isinstance(caught.value, refused.RefusedNameError)
    assert str(caught.value) == refused.message_of(entry)


@pytest.mark.parametrize("entry", refused.REFUSALS, ids=lambda entry: entry.names.split()[0])
def test_the_replacement_is_there(entry: refused.Refusal) -> None:
    names = OUR_NAME.findall(entry.instead)
    assert names or "`" in entry.instead, "expected a name of this package or a command"
    for name in names:
        assert resolve(name) is not None
    for function, module in re.findall(r"(\w+) of (executorch_py(?:\.\w+)+)", entry.instead):
        assert hasattr(importlib.import_module(module), function)


def test_a_refused_path_has_no_module_and_no_other_line() -> None:
    for path in refused.REFUSED_PATHS:
        place = PACKAGE.joinpath(*path.split("."))
        assert not place.with_suffix(".py").exists() and not (place / "__init__.py").exists()
    assert not refused.REFUSED_PATHS & (UPSTREAM_PATHS.keys() | FORMER_PATHS.keys())


def test_no_name_is_refused_twice() -> None:
    names = [name for entry in refused.REFUSALS for name in entry.names.split()]
    assert len(names) == len(set(names))
    below = [n for n in names if any(n.startswith((f"{m}.", f"{m}:")) for m in names)]
    assert not below, f"expected the outermost path alone, got {below}"


def test_a_refused_name_is_no_name_that_the_module_lists() -> None:
    for entry in refused.REFUSED_NAMES:
        path, _, name = entry.partition(":")
        assert name not in dir(importlib.import_module(f"executorch_py.{path}"))


def test_a_path_that_nobody_knows_has_pythons_own_error() -> None:
    with pytest.raises(ModuleNotFoundError, match="No module named") as caught:
        importlib.import_module("executorch_py.exir.nothing_like_this")
    assert not isinstance(caught.value, refused.RefusedNameError)


def test_a_guarded_import_takes_the_other_branch() -> None:
    script = (
        "try:\n"
        "    from executorch_py.extension.pybindings import aten_lib as lib\n"
        "except ImportError:\n"
        "    from executorch_py.extension.pybindings import portable_lib as lib\n"
        "assert lib.__name__.endswith('portable_lib')\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_the_page_on_compatibility_prints_the_table() -> None:
    page = (ROOT / "docs/compatibility.md").read_text()
    assert "from executorch_py._refused_paths import REFUSALS" in page
