"""Programs that to_edge decomposed: the partitioner takes what it takes of whole linear layers."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from support import xnnpack_delegation_cases as cases
from support.tolerance import (
    DECOMPOSED_LINEAR,
    DYNAMIC_LAYER_STEPS,
    EXACT,
    F32_LAYERS,
    assert_near,
)
from support.upstream_peer import Upstream
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram, export

from executorch_py.backends.xnnpack.partition.config import AddConfig, AddmmConfig
from executorch_py.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch_py.exir import EdgeProgramManager, to_edge, to_edge_transform_and_lower
from executorch_py.exir.program.config import ExecutorchBackendConfig

N, M = Dim("n", min=2, max=8), Dim("m", min=2, max=8)


def lowered(program: ExportedProgram, **options: Any) -> EdgeProgramManager:
    return to_edge(program).to_backend(XnnpackPartitioner(**options))


def kept_whole(program: ExportedProgram, **options: Any) -> EdgeProgramManager:
    return to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner(**options)])


def delegated(edge: EdgeProgramManager) -> Counter[str]:
    records = edge.delegation_summary().records
    return Counter(record.operator for record in records if record.delegate is not None)


def left(edge: EdgeProgramManager) -> list[str]:
    return [r.operator for r in edge.delegation_summary().records if r.delegate is None]


class Transposed(nn.Module):
    """A linear layer that reads a transposed input."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(64, 8)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.linear(x.transpose(1, 2))
        return result


@dataclass(frozen=True)
class Layers:
    """Linear layers with the shape of their input and its sizes that are found at run time."""

    build: Any
    shape: tuple[int, ...] = (3, 64)
    dynamic: Any = None
    quantized: str = ""

    def program(self) -> tuple[nn.Module, Tensor, ExportedProgram]:
        torch.manual_seed(0)
        module, x = self.build().eval(), torch.randn(self.shape)
        if self.quantized:
            module = cases._quantized(module, (x,), self.quantized, self.dynamic)
        return module, x, export(module, (x,), dynamic_shapes=self.dynamic)


def _layer(bias: bool = True) -> nn.Module:
    return nn.Linear(64, 8, bias=bias)


def _two() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 4, bias=False))


ALL: dict[str, Layers] = {
    "float_batches": Layers(_two, (3, 5, 64), ({0: N, 1: M},)),
    "float_images": Layers(_layer, (2, 3, 5, 64)),
    "float_row": Layers(_layer, (64,)),
    "float_transposed": Layers(Transposed, (3, 64, 5), ({0: N, 2: M},)),
    **{
        f"{how}_{name}": Layers(build, shape, None, how)
        for how in ("per_tensor", "per_channel", "dynamic")
        for name, build, shape in (
            ("rows", _two, (3, 64)),
            ("no_bias", lambda: _layer(bias=False), (3, 64)),
            ("batches", _layer, (2, 3, 64)),
            ("row", _layer, (64,)),
            ("transposed", Transposed, (3, 64, 5)),
        )
    },
    "dynamic_square": Layers(_layer, (3, 3, 64), ({0: N, 1: N},), "dynamic"),
    "8da4w_rows": Layers(_two, (3, 64), ({0: N},), "8da4w"),
    "8da4w_batches": Layers(_layer, (3, 5, 64), ({0: N, 1: M},), "8da4w"),
    "8da8w_batches": Layers(_layer, (3, 5, 64), ({0: N, 1: M},), "8da8w"),
}


@pytest.mark.parametrize("name", ALL)
def test_decomposed_layers_are_delegated_like_whole_ones(name: str) -> None:
    module, x, program = ALL[name].program()
    edge, other = lowered(program), kept_whole(program)
    assert left(edge) == left(other) == []
    assert len(edge.delegation_summary().delegates) == 1
    assert delegated(edge)["aten::linear"] == delegated(other)["aten::linear"] > 0
    found = edge.to_executorch().run(x)
    assert_near(found, other.to_executorch().run(x), EXACT)
    assert_near(found, module(x), DECOMPOSED_LINEAR[ALL[name].quantized])


def test_sizes_found_at_run_time_may_change() -> None:
    module, x, exported = ALL["float_batches"].program()
    program = lowered(exported).to_executorch()
    for part in (x[:2, :4], x, x[:2]):
        torch.testing.assert_close(program.run(part), module(part))


# ---- options


@pytest.mark.parametrize("quantized", ["per_channel", "dynamic"])
def test_each_decomposed_layer_can_have_a_delegate_of_its_own(quantized: str) -> None:
    module, x, program = Layers(_two, quantized=quantized).program()
    edge = lowered(program, per_op_mode=True)
    found = [d.name for d in edge.delegation_summary().delegates]
    assert len(found) == len(kept_whole(program, per_op_mode=True).delegation_summary().delegates)
    assert_near(edge.to_executorch().run(x), module(x), DYNAMIC_LAYER_STEPS)


def test_weights_of_decomposed_float_layers_can_stay_outside() -> None:
    module, x, program = Layers(_layer).program()
    edge = lowered(program, force_non_static_weights_for_f32_linear=True)
    [call] = [n for n in edge.exported_program().graph.nodes if "call_delegate" in str(n.target)]
    assert len(call.args) - 1 == 3  # the input, the weight and the bias
    torch.testing.assert_close(edge.to_executorch().run(x), module(x))


class Never(AddmmConfig):  # type: ignore[misc, valid-type]
    def check_constraints(self, node: Any, ep: Any) -> bool:
        return False


@pytest.mark.parametrize(("config", "count"), [(AddmmConfig, 1), (Never, 0)])
def test_configs_of_the_product_choose_a_decomposed_layer(config: Any, count: int) -> None:
    _, _, program = Layers(_layer, quantized="per_channel").program()
    edge = lowered(program, configs=[config])
    assert delegated(edge)["aten::linear"] == count
    assert left(edge).count("aten::addmm") == 1 - count


# ---- layers that stay


class ReadTwice(nn.Module):
    """Integers with a scale found at run time, read by a linear layer and by a sum that stays."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("integers", torch.randint(-127, 128, (4, 8), dtype=torch.int8))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        library = torch.ops.quantized_decomposed
        weight = library.dequantize_per_tensor(self.integers, 0.01, 0, -127, 127, torch.int8)
        scale, zero_point = library.choose_qparams.tensor(x, -128, 127, 1e-5, torch.int8)
        numbers = (scale, zero_point, -128, 127, torch.int8)
        rows = library.quantize_per_tensor.tensor(x, *numbers)
        rows = library.dequantize_per_tensor.tensor(rows, *numbers)
        return nn.functional.linear(rows, weight), torch.cumsum(rows, 0)


def test_a_layer_that_is_not_delegated_stays_decomposed() -> None:
    torch.manual_seed(0)
    module, x = ReadTwice(), torch.randn(3, 8)
    edge = lowered(export(module, (x,)))
    assert {"aten::mm", "aten::cumsum"} <= set(left(edge)) and "aten::linear" not in left(edge)
    [product] = [r for r in edge.delegation_summary().records if r.operator == "aten::mm"]
    assert product.reason is not None and "reads its quantized input too" in product.reason
    edge.to_executorch()  # verifies that every operator is one of the core set


def test_options_are_the_reason_of_a_decomposed_layer_that_they_exclude() -> None:
    _, _, program = Layers(_layer, quantized="per_channel").program()
    edge = lowered(program, configs=[AddConfig])
    [product] = [r for r in edge.delegation_summary().records if r.operator == "aten::addmm"]
    assert product.reason == "the partitioner's configs do not include its operator"


def _other_rows(x: Tensor, w: Tensor) -> Tensor:
    return torch.mm(x.reshape(4, 6), w.t()).view(2, 8)


@pytest.mark.parametrize(
    ("product", "shape"),
    [
        (torch.mm, (8, 4)),
        (lambda x, w: torch.addmm(x[0, :4], x, w.t(), alpha=2), (4, 8)),
        (_other_rows, (4, 6)),
    ],
    ids=["not_transposed", "scaled", "other_rows"],
)
def test_other_products_stay_products(product: Any, shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    x, weight = torch.randn(3, 8), torch.randn(shape)
    module = cases.Of(lambda x: product(x, weight))
    edge = lowered(export(module, (x,)))
    assert "aten::linear" not in delegated(edge)
    assert_near(edge.to_executorch().run(x), module(x), F32_LAYERS)


# ---- upstream's runtime


def test_upstreams_runtime_runs_decomposed_layers(upstream: Upstream, tmp_path: Path) -> None:
    for name, layers in ALL.items():
        module, x, program = layers.program()
        config = ExecutorchBackendConfig(target="executorch-1.5")
        lowered(program).to_executorch(config).save(tmp_path / f"{name}.pte")
        torch.save([(x,)], tmp_path / f"{name}.inputs.pt")
        upstream.ask("run_inputs", name, tmp_path)
        [[found]] = torch.load(tmp_path / f"{name}.pt", weights_only=False)
        assert_near(found, module(x), DECOMPOSED_LINEAR[layers.quantized])
