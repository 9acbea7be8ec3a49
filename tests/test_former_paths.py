"""Each import path of an earlier version imports, warns, and has the names it had."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from support.paths import ROOT

import executorch_py
from executorch_py._former_paths import FORMER_PATHS
from executorch_py._upstream_paths import UPSTREAM_PATHS

PACKAGE = Path(executorch_py.__file__).parent
# One name of each path that scripts could have imported.
NAMES = {
    "exir.save_load": "save",
    "quantizer.compare": "compare",
    "quantizer.compose": "ComposableQuantizer",
    "quantizer.groups": "take",
    "quantizer.norms": "fold_all",
    "quantizer.program_io": "quantize_io",
    "quantizer.ranges": "range_of_least_error",
    "quantizer.recurrent": "unroll_recurrent",
    "quantizer.report": "Table",
    "quantizer.rounding": "compensated",
    "quantizer.search": "sensitivities",
    "quantizer.training": "prepare_qat_pt2e",
    "quantizer.validate": "AnnotationError",
    "quantizer.xnnpack": "XNNPACKQuantizer",
    "testing.quanta": "output_quanta",
}


@pytest.mark.parametrize("path", sorted(FORMER_PATHS))
def test_a_former_path_has_its_names_and_warns_of_the_new_path(path: str) -> None:
    module = importlib.import_module(f"executorch_py.{path}")
    home = FORMER_PATHS[path][0].partition(":")[0]
    with pytest.warns(DeprecationWarning, match=rf"{path} is deprecated: .*{home}") as caught:
        vars(module).pop(NAMES[path], None)  # kept by an earlier use
        assert getattr(module, NAMES[path]) is not None
    assert caught[0].filename == __file__
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
        for name in module.__all__:
            assert getattr(module, name) is not None, name


def test_no_former_path_is_a_file_or_a_path_of_upstreams() -> None:
    assert not FORMER_PATHS.keys() & UPSTREAM_PATHS.keys()
    for path in FORMER_PATHS:
        assert not PACKAGE.joinpath(*path.split(".")).with_suffix(".py").exists()


def test_the_page_on_compatibility_lists_every_former_path() -> None:
    page = (ROOT / "docs/compatibility.md").read_text()
    for path, homes in FORMER_PATHS.items():
        new = homes[0].partition(":")[0]
        assert f"| `executorch_py.{path}` | `executorch_py.{new}` |" in page


@pytest.mark.parametrize("name", ["compare", "report"])
def test_a_function_keeps_its_name_where_a_former_module_had_it(name: str) -> None:
    script = (
        f"from executorch_py.quantizer.{name} import {name} as inner\n"
        f"from executorch_py.quantizer import {name} as outer\n"
        "import inspect\n"
        "assert inner is outer and inspect.isfunction(outer)\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_the_planner_has_the_type_of_its_markers() -> None:
    memory = importlib.import_module("executorch_py.exir.memory")
    assert memory.AllocSpec is importlib.import_module("executorch_py.exir.ir.memory_ops").AllocSpec
    assert not inspect.ismodule(memory.AllocSpec)
