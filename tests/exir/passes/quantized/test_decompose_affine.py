"""torchao's quantization without a kernel or delegate is computed as torchao computes it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from support.low_bit_network import INDICES, by_torchao
from support.processor import PROCESSORS, processor
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram, export

from executorch_py.backends.xnnpack import XnnpackPartitioner
from executorch_py.exir import to_edge, to_edge_transform_and_lower

_SCALE = torch.full((1, 1, 1), 0.03)
_STATIC = {"granularity": ("PerTensor",), "act_quant_scale": _SCALE}
_ZEROS = torch.full((1, 1, 1), 5, dtype=torch.int8)
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "7 bits": ("Dynamic", {"reduce_range": True}),
    "7 bits asymmetric": ("Dynamic", {"reduce_range": True, "act_mapping_type": "ASYMMETRIC"}),
    "static": ("Static", _STATIC),
    "static asymmetric": (
        "Static",
        {**_STATIC, "act_quant_zero_point": _ZEROS, "act_mapping_type": "ASYMMETRIC"},
    ),
}


def difference(edge: Any, model: nn.Module) -> float:
    """The largest difference of the result to eager, relative to the largest number."""
    with torch.no_grad():
        wanted = model(INDICES)
    return float((edge.to_executorch().run(INDICES) - wanted).abs().max() / wanted.abs().max())


def made(name: str) -> tuple[nn.Module, ExportedProgram]:
    kind, settings = MODELS[name]
    with torch.no_grad():
        model = by_torchao(f"Int8{kind}ActivationInt8WeightConfig", **settings)
        return model, export(model, (INDICES,))


@pytest.mark.parametrize("name", MODELS)
def test_what_no_kernel_takes_is_computed_as_in_eager(name: str) -> None:
    model, program = made(name)
    assert difference(to_edge(program), model) < 1e-6


def test_what_no_delegate_takes_is_computed_as_in_eager() -> None:
    model, program = made("static asymmetric")
    delegated = to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner()])
    assert difference(delegated, model) < 1e-6


@pytest.mark.parametrize("cpu", PROCESSORS)
def test_the_range_that_torchao_advises_for_a_processor_is_lowered(cpu: str) -> None:
    from torchao.utils import should_reduce_range

    with processor(cpu), torch.no_grad():
        reduced = should_reduce_range(torch.device("cpu"))
        assert reduced == (cpu == "no VNNI")
        model = by_torchao("Int8DynamicActivationInt8WeightConfig", reduce_range=reduced)
        program = export(model, (INDICES,))
    assert difference(to_edge(program), model) < 0.012


class Rounded(nn.Module):
    """A module that quantizes rows to 4 bits and back, in a branch."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.cond(x.sum() > 0, self.rounded, torch.neg, (x,))

    def rounded(self, x: Tensor) -> Tensor:
        ops, limits = torch.ops.torchao, (torch.int8, -8, 7)
        block = [1, x.shape[1]]
        scales, zeros = ops.choose_qparams_affine(x, "ASYMMETRIC", block, *limits)
        integers = ops.quantize_affine(x, block, scales, zeros, *limits)
        wide: Tensor = ops.dequantize_affine(integers, block, scales, zeros, *limits)
        return wide


def test_bodies_of_control_flow_and_any_number_of_rows_are_decomposed() -> None:
    x = torch.randn(3, 8).abs()
    program = export(Rounded(), (x,), dynamic_shapes=({0: Dim("n", min=1, max=9)},))
    lowered = to_edge(program).to_executorch()
    for given in (x, -x, torch.rand(7, 8), torch.rand(1, 8)):
        assert torch.equal(lowered.run(given), Rounded()(given))
