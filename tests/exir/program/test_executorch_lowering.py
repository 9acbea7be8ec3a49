"""to_executorch as a whole: repeatable, checked against kernels, with clear errors."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim, export

from executorch_py.exir import to_edge
from executorch_py.exir.error import ExportError
from executorch_py.exir.passes.init_mutable_pass import InitializedMutableBufferPass
from executorch_py.exir.passes.memory_planning_pass import MemoryPlanningPass
from executorch_py.exir.program.config import EdgeCompileConfig, ExecutorchBackendConfig
from executorch_py.exir.schema import Tensor, TensorShapeDynamism
from executorch_py.exir.target.manifest import MissingKernelError, kernel_manifest

UPSTREAM = "executorch-1.5"


class Formula(nn.Module):
    def __init__(self, formula: Any) -> None:
        super().__init__()
        self.formula = formula

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.formula(*inputs)


class One(nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        return x + 1


def edge(model: nn.Module, *inputs: Any, **kwargs: Any) -> Any:
    with torch.no_grad():
        lenient = EdgeCompileConfig(_check_ir_validity=False)
        return to_edge(export(model, inputs, **kwargs), compile_config=lenient)


def config(**kwargs: Any) -> ExecutorchBackendConfig:
    return ExecutorchBackendConfig(target=UPSTREAM, **kwargs)


def tensors(program: Any, plan: int = 0) -> list[Tensor]:
    values = program.executorch_program.execution_plan[plan].values
    return [v.val for v in values if isinstance(v.val, Tensor)]


# ---- repeatable


class Counter(nn.Module):
    def __init__(self, start: float = 5.0, size: int = 1) -> None:
        super().__init__()
        self.register_buffer("count", torch.full((size,), start))

    def forward(self, x: torch.Tensor) -> Any:
        self.count += x
        return self.count * 2


def test_a_second_call_gives_the_same_bytes() -> None:
    manager = edge(Counter(), torch.ones(1))
    first = manager.to_executorch(config())
    assert manager.to_executorch(config()).buffer == first.buffer


def test_lowering_leaves_the_edge_program_as_it_was() -> None:
    manager = edge(nn.Linear(4, 4), torch.randn(1, 4))
    before = str(manager.exported_program().graph)
    names = set(manager.exported_program().state_dict)
    manager.to_executorch(config())
    assert str(manager.exported_program().graph) == before
    assert set(manager.exported_program().state_dict) == names
    assert not any("spec" in n.meta for n in manager.exported_program().graph.nodes)


# ---- files


def test_save_writes_the_buffer_and_insists_on_its_name(tmp_path: Path) -> None:
    program = edge(nn.Linear(4, 4), torch.randn(1, 4)).to_executorch(config())
    program.save(tmp_path / "model.pte")
    written = io.BytesIO()
    program.write_to_file(written)
    assert (tmp_path / "model.pte").read_bytes() == program.buffer == written.getvalue()
    with pytest.raises(ValueError, match=r"\.pte"):
        program.save(tmp_path / "model.bin")


def test_external_constants_go_to_a_data_file_and_lifted_ones_stay(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU())
    manager = edge(model, torch.randn(1, 64))
    inside = manager.to_executorch(config())
    outside = manager.to_executorch(config(external_constants=True))
    outside.write_tensor_data_to_file(tmp_path)
    (data,) = tmp_path.iterdir()
    assert data.name == "_default_external_constant.ptd"
    assert data.stat().st_size > 64 * 64 * 4 > len(outside.buffer)
    assert len(inside.buffer) > 64 * 64 * 4


# ---- state


def test_initial_values_are_kept_and_large_zeros_cost_nothing() -> None:
    small = edge(Counter(), torch.ones(1)).to_executorch(config())
    assert small._emitter_output.mutable_data is not None
    zeros = edge(Counter(0.0, 100_000), torch.ones(1))
    assert len(zeros.to_executorch(config()).buffer) < 10_000
    asked = zeros.to_executorch(config(passes=[InitializedMutableBufferPass(["count"])]))
    assert len(asked.buffer) > 400_000


class Two(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("state", torch.ones(4))

    def write(self, x: torch.Tensor) -> Any:
        self.state.copy_(x)
        return x + 1

    def read(self, x: torch.Tensor) -> Any:
        return self.state + x


class Method(nn.Module):
    def __init__(self, owner: Two, name: str) -> None:
        super().__init__()
        self.owner, self.name = owner, name

    def forward(self, x: torch.Tensor) -> Any:
        return getattr(self.owner, self.name)(x)


def test_shared_state_is_at_the_same_place_in_every_method() -> None:
    owner = Two()
    programs = {n: export(Method(owner, n), (torch.ones(4),)) for n in ("read", "write")}
    planner = MemoryPlanningPass(share_mutable_buffers=True)
    program = to_edge(programs).to_executorch(config(memory_planning_pass=planner))
    for plan in (0, 1):
        places = [t.allocation_info for t in tensors(program, plan) if t.allocation_info]
        assert [p.memory_offset for p in places if p.memory_id == 2] == [0]
        sizes = program.executorch_program.execution_plan[plan].non_const_buffer_sizes
        assert len(sizes) == 3 and sizes[2] == 16


# ---- sizes


def test_dynamic_sizes_are_planned_at_their_upper_bound() -> None:
    shapes = ({0: Dim("batch", max=8)},)
    manager = edge(One(), torch.ones(3, 4), dynamic_shapes=shapes)
    program = manager.to_executorch(config())
    dynamic = [t for t in tensors(program) if t.shape_dynamism == TensorShapeDynamism.DYNAMIC_BOUND]
    assert {tuple(t.sizes) for t in dynamic} == {(8, 4)}


def test_an_unbounded_dim_is_an_error_that_shows_the_line_to_write() -> None:
    manager = edge(One(), torch.ones(3, 4), dynamic_shapes=({0: Dim("batch")},))
    with pytest.raises(ExportError) as caught:
        manager.to_executorch(config())
    text = str(caught.value)
    assert "'batch'" in text and "input 'x'" in text
    assert 'batch = torch.export.Dim("batch", max=' in text


def test_a_size_from_a_value_needs_a_check_and_gets_its_bound() -> None:
    def unbounded(n: torch.Tensor) -> torch.Tensor:
        size = n.item()
        torch._check(size >= 0)
        return torch.zeros(size) + 1

    def bounded(n: torch.Tensor) -> torch.Tensor:
        size = n.item()
        torch._check(size >= 0)
        torch._check(size <= 6)
        return torch.zeros(size) + 1

    with pytest.raises(ExportError, match=r"torch\._check"):
        edge(Formula(unbounded), torch.tensor(3)).to_executorch(config())
    program = edge(Formula(bounded), torch.tensor(3)).to_executorch(config())
    assert [6] in [list(t.sizes) for t in tensors(program)]


def test_results_sized_by_values_are_bounded_by_their_inputs() -> None:
    def formula(x: torch.Tensor) -> Any:
        return torch.nonzero(x) * 2, x[x > 0] + 1

    program = edge(Formula(formula), torch.ones(2, 3)).to_executorch(config())
    sizes = [list(t.sizes) for t in tensors(program)]
    assert [6, 2] in sizes and [6] in sizes


# ---- kernels


def test_operators_the_target_lacks_are_all_named_with_their_lines() -> None:
    def formula(x: torch.Tensor) -> Any:
        values, _ = torch.sort(x)
        return values, torch.cumprod(x, 0)

    manager = edge(Formula(formula), torch.ones(3, 3))
    with pytest.raises(MissingKernelError) as caught:
        manager.to_executorch(config())
    text = str(caught.value)
    assert "aten::sort.values" in text and "aten::cumprod.out" in text
    assert Path(__file__).name in text
    assert len(caught.value.offences) == 2


def test_a_kernel_that_exists_is_refused_for_a_rank_or_dtype_it_cannot_take() -> None:
    with pytest.raises(MissingKernelError, match="at most 4"):
        edge(nn.Conv3d(2, 2, 1), torch.ones(1, 2, 3, 3, 3)).to_executorch(config())
    x = torch.ones(2, dtype=torch.complex64)
    with pytest.raises(MissingKernelError, match="dtype c64"):
        edge(Formula(lambda x: torch.div(x, x)), x).to_executorch(config())


def test_an_unknown_target_is_refused() -> None:
    with pytest.raises(ValueError, match=r"executorch-1\.5"):
        ExecutorchBackendConfig(target="executorch-0.1")


def test_upstreams_kernels_are_those_its_release_lists() -> None:
    manifest = kernel_manifest(UPSTREAM)
    assert manifest is not None
    assert len(manifest) == 270
    assert "aten::add.out" in manifest and "aten::sort.values" not in manifest


def test_operators_without_an_out_variant_are_reported_together() -> None:
    library = torch.library.Library("test_no_out", "DEF")
    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", lambda x: x * 2, "CompositeExplicitAutograd")

    manager = edge(Formula(lambda x: torch.ops.test_no_out.twice(x)), torch.ones(2))
    with pytest.raises(ExportError, match=r"test_no_out::twice"):
        manager.to_executorch(config())
