"""Scales and zero points that no integers can have: an error that names the node and the number."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from support import xnnpack_delegation_cases as cases
from torch import fx, nn
from torch.export import ExportedProgram, export

from executorch_py.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch_py.backends.xnnpack.support.scale_checks import QuantizationError
from executorch_py.exir import to_edge, to_edge_transform_and_lower
from executorch_py.exir.error import ExportError
from executorch_py.exir.ir.op_traits import op_key

QUANTIZE = "quantized_decomposed::quantize_per_tensor"
DEQUANTIZE = "quantized_decomposed::dequantize_per_channel"
NOT_NORMAL = (math.nan, math.inf, -math.inf, 1e-39, 0.0, -0.5)


def program_of(how: str = "per_channel") -> ExportedProgram:
    torch.manual_seed(0)
    x = (torch.randn(1, 10),)
    return export(cases._quantized(nn.Linear(10, 10).eval(), x, how), x)


def first(program: ExportedProgram, key: str) -> fx.Node:
    return next(node for node in program.graph.nodes if op_key(node.target) == key)


def set_argument(node: fx.Node, index: int, value: Any) -> None:
    node.args = (*node.args[:index], value, *node.args[index + 1 :])


def lower(program: ExportedProgram) -> Any:
    return to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner()])


@pytest.mark.parametrize("scale", NOT_NORMAL)
def test_a_scale_that_is_no_normal_number_is_refused(scale: float) -> None:
    program = program_of()
    set_argument(first(program, QUANTIZE), 1, scale)
    match = rf"_quantize_per_tensor_default': scale: expected a positive.*, got {scale:g}"
    with pytest.raises(QuantizationError, match=match) as caught:
        lower(program)
    assert isinstance(caught.value, ValueError) and isinstance(caught.value, ExportError)


@pytest.mark.parametrize("scale", NOT_NORMAL)
def test_one_such_scale_of_a_channel_is_refused(scale: float) -> None:
    program = program_of()
    name = first(program, DEQUANTIZE).args[1].name  # type: ignore[union-attr]
    target = program.graph_signature.inputs_to_buffers[name]
    tensors = {**program.state_dict, **program.constants}
    tensors[target][2] = scale
    match = rf"dequantize_per_channel_default': scale at \[2\]: .*, got {scale:g}"
    with pytest.raises(QuantizationError, match=match):
        lower(program)


@pytest.mark.parametrize("zero_point", [-129, 128])
def test_a_zero_point_outside_of_the_integers_is_refused(zero_point: int) -> None:
    program = program_of()
    set_argument(first(program, QUANTIZE), 2, zero_point)
    match = f"zero point: expected -128 to 127 for int8, got {zero_point}"
    with pytest.raises(QuantizationError, match=match):
        lower(program)


def test_decomposed_programs_are_checked_too() -> None:
    program = program_of()
    set_argument(first(program, QUANTIZE), 1, math.nan)
    with pytest.raises(QuantizationError, match="got nan"):
        to_edge(program).to_backend(XnnpackPartitioner())


def test_conversions_that_stay_with_kernels_are_not_checked() -> None:
    class Alone(nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return torch.ops.quantized_decomposed.quantize_per_tensor(
                x, 1e-39, 0, -128, 127, torch.int8
            )

    edge = lower(export(Alone(), (torch.ones(3),)))
    assert not edge.delegation_summary().delegates


@pytest.mark.parametrize("how", ["per_tensor", "per_channel", "dynamic", "8da4w", "8da8w"])
def test_scales_of_quantizers_are_accepted(how: str) -> None:
    torch.manual_seed(0)
    x = (torch.randn(3, 64),)
    edge = lower(export(cases._quantized(nn.Linear(64, 8).eval(), x, how), x))
    assert edge.delegation_summary().delegates
