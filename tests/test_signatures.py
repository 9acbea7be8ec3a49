"""Parameter names and defaults that scripts written for upstream pass by keyword."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path

import pytest
import torch

from executorch_py.extension.export_util.utils import (
    export_to_edge,
    export_to_exec_prog,
    save_pte_program,
)
from executorch_py.runtime import Runtime

SIGNATURES = {
    "exir.to_edge": "programs, constant_methods=None, compile_config=None, generate_etrecord=False",
    "exir.to_edge_transform_and_lower": "programs, transform_passes=None, partitioner=None, "
    "constant_methods=None, compile_config=None, generate_etrecord=False",
    "exir.save": "ep_save, f, *, extra_files=None, opset_version=None",
    "exir.load": "f, *, extra_files=None, expected_opset_version=None",
    "exir.EdgeProgramManager.transform": "self, passes, compile_config=None",
    "exir.EdgeProgramManager.to_backend": "self, partitioner",
    "exir.EdgeProgramManager.to_executorch": "self, config=None",
    "exir.EdgeCompileConfig": "_check_ir_validity=True, _skip_dim_order=False, "
    "_core_aten_ops_exception_list=<factory>, preserve_ops=<factory>",
    "exir.CaptureConfig": "pt2_mode=True, enable_functionalization=True, "
    "enable_dynamic_shape=False, enable_aot=False, _dynamo_config=<factory>, _unlift=False, "
    "_use_old_decomp_table=False",
    "exir.graph_module.get_control_flow_submodules": "graph_module",
    "exir.passes.MemoryPlanningPass": "memory_planning_algo=None, "
    "allow_lifetime_and_storage_overlap=False, alloc_graph_input=True, alloc_graph_output=True, "
    "alloc_mutable_buffers=True, share_mutable_buffers=False, alignment=16",
    "extension.pybindings.portable_lib._load_for_executorch": "program_path, data_path=None, "
    "enable_etdump=False, debug_buffer_size=0, "
    "program_verification=1",
}


def _text(function: object) -> str:
    parts, keyword_only = [], False
    for p in inspect.signature(function).parameters.values():  # type: ignore[arg-type]
        if p.kind is p.KEYWORD_ONLY and not keyword_only:
            parts.append("*")
            keyword_only = True
        default = "" if p.default is p.empty else f"={p.default}"
        parts.append(p.name + default)
    return ", ".join(parts)


@pytest.mark.parametrize("path", SIGNATURES)
def test_parameters_have_the_names_and_defaults_that_scripts_use(path: str) -> None:
    parts = path.split(".")
    for n in range(len(parts) - 1, 0, -1):
        try:
            found: object = importlib.import_module(".".join(["executorch_py", *parts[:n]]))
        except ImportError:
            continue
        for name in parts[n:]:
            found = getattr(found, name)
        break
    assert _text(found) == SIGNATURES[path]


class Add(torch.nn.Module):
    def forward(self, x: torch.Tensor, *, scale: float = 1.0) -> torch.Tensor:
        return x + x * scale


def test_example_helpers_export_and_save(tmp_path: Path) -> None:
    model, x = Add(), torch.ones(2)
    edge = export_to_edge(model, (x,), edge_constant_methods={"size": 2}, strict=False)
    assert edge.config_methods == {"size"}
    program = export_to_exec_prog(model, (x,), example_kwarg_inputs={"scale": 3.0}, strict=False)
    path = save_pte_program(program, "add", str(tmp_path))
    assert path == str(tmp_path / "add.pte")
    method = Runtime.get().load_program(path).load_method("forward")
    assert method(x, scale=3.0).tolist() == [4.0, 4.0]
