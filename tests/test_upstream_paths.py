"""Each import path of upstream's in the table imports, with all its names."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import executorch_py
from executorch_py._former_paths import FORMER_PATHS
from executorch_py._path_finder import WITHOUT_ENTRIES
from executorch_py._refused_paths import REFUSED_NAMES, REFUSED_PATHS
from executorch_py._upstream_paths import UPSTREAM_PATHS

PACKAGE = Path(executorch_py.__file__).parent


@pytest.mark.parametrize("path", sorted(UPSTREAM_PATHS))
def test_a_path_of_the_table_imports_and_has_each_of_its_names(path: str) -> None:
    module = importlib.import_module(f"executorch_py.{path}")
    names = module.__all__
    assert names or not UPSTREAM_PATHS[path]
    for name in names:
        assert getattr(module, name) is not None, name
        assert name in dir(module)


@pytest.mark.parametrize("path", sorted(UPSTREAM_PATHS))
def test_no_file_lies_at_a_path_of_the_table(path: str) -> None:
    place = PACKAGE.joinpath(*path.split("."))
    assert not place.with_suffix(".py").exists()
    assert not (place / "__init__.py").exists()


def test_a_name_that_a_path_does_not_have_is_refused_with_the_path() -> None:
    module = importlib.import_module("executorch_py.exir.tracer")
    with pytest.raises(AttributeError, match=r"executorch_py\.exir\.tracer.*'nothing_like_this'"):
        _ = module.nothing_like_this


def test_importing_a_path_imports_the_modules_behind_it_only_when_a_name_is_used() -> None:
    script = (
        "import sys, executorch_py.exir.serde.serialize as path\n"
        "home = 'executorch_py.exir.program.save_load'\n"
        "assert home not in sys.modules\n"
        "path.save\n"
        "assert home in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


@pytest.mark.parametrize(
    "name", ["external_constants_pass", "remove_unused_parameters_pass", "weights_to_outputs_pass"]
)
@pytest.mark.parametrize("module_first", [True, False])
def test_a_function_and_a_module_share_a_name_in_either_order(
    name: str, module_first: bool
) -> None:
    module = f"from executorch_py.exir.passes.{name} import {name} as inner"
    package = f"from executorch_py.exir.passes import {name} as outer"
    first, second = (module, package) if module_first else (package, module)
    script = (
        f"{first}\n{second}\n"
        "import importlib, types\n"
        f"module = importlib.import_module('executorch_py.exir.passes.{name}')\n"
        "assert isinstance(module, types.ModuleType)\n"
        f"assert inner is outer is module.{name} and callable(outer)\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_importing_a_path_without_a_list_of_names_imports_nothing_behind_it() -> None:
    script = (
        "import sys, executorch_py.exir.passes.external_constants_pass\n"
        "assert 'executorch_py.exir.passes.lower.external_constants' not in sys.modules\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


@pytest.mark.parametrize("name", ["runtime", "cli.main", "input_spec", "toolchain.compiler"])
def test_importing_what_has_no_former_path_loads_no_table_of_paths(name: str) -> None:
    script = (
        f"import sys, executorch_py.{name}\n"
        "assert not [name for name in sys.modules if name.endswith('_paths')]\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_no_path_of_a_table_begins_with_a_name_that_the_finder_leaves_to_others() -> None:
    entries = [*UPSTREAM_PATHS, *FORMER_PATHS, *REFUSED_PATHS, *REFUSED_NAMES]
    first = {entry.split(".")[0] for entry in entries}
    assert not first & WITHOUT_ENTRIES and not [name for name in first if name.startswith("_")]


def test_importing_a_path_registers_the_backends_of_the_modules_behind_it() -> None:
    script = (
        "import importlib, executorch_py.exir\n"
        "from executorch_py._upstream_paths import UPSTREAM_PATHS\n"
        "from executorch_py.exir.backend.backend_details import BackendDetails\n"
        "def registered():\n"
        "    return {cls.__name__ for cls in BackendDetails.__subclasses__()}\n"
        "for path in sorted(UPSTREAM_PATHS):\n"
        "    module = importlib.import_module(f'executorch_py.{path}')\n"
        "    on_import = registered()\n"
        "    module.__all__, [home.module() for home in module._homes]\n"
        "    assert registered() == on_import, (path, registered() - on_import)\n"
        "assert {'BackendWithCompilerDemo', 'XnnpackBackend'} <= on_import\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_importing_the_registry_of_dim_order_operators_registers_them() -> None:
    script = (
        "import torch, executorch_py.exir.passes.dim_order_ops_registry\n"
        "torch.ops.dim_order_ops._clone_dim_order.default\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
