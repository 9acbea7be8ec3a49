"""Partitioners of FP32 alone on quantized graphs: arithmetic in floats, integers stay outside."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
from support import xnnpack_delegation_cases as cases
from support.tolerance import DECOMPOSED_LINEAR, F32_LAYERS, SMALL_LAYER_STEPS, assert_near
from support.xnnpack_quantized_cases import Padded
from torch import nn
from torch.export import ExportedProgram, export

from executorch_py.backends.xnnpack.partition.config import ConfigPrecisionType, LinearConfig
from executorch_py.backends.xnnpack.partition.xnnpack_partitioner import (
    XnnpackFloatingPointPartitioner,
    XnnpackPartitioner,
)
from executorch_py.exir import (
    EdgeProgramManager,
    to_edge,
    to_edge_transform_and_lower,
)
from executorch_py.exir.ir.op_traits import DEQUANTIZE, QUANTIZE

FP32 = ConfigPrecisionType.FP32
EXCLUDED = "it converts to or from integers, which the partitioner's options exclude"
KINDS = ("per_tensor", "per_channel", "dynamic")


def quantized(module: nn.Module, x: torch.Tensor, how: str) -> tuple[nn.Module, ExportedProgram]:
    found = cases._quantized(module.eval(), (x,), how)
    return found, export(found, (x,))


def layers(how: str) -> tuple[torch.Tensor, nn.Module, ExportedProgram]:
    torch.manual_seed(0)
    x = torch.randn(3, 8)
    return x, *quantized(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)), x, how)


def assert_floats_only(edge: EdgeProgramManager, delegated: set[str]) -> None:
    """Assert that all conversions stay, with the options as the reason, and nothing else does."""
    records = edge.delegation_summary().records
    assert {r.operator for r in records if r.delegate is not None} == delegated
    left = [r for r in records if r.delegate is None]
    assert left and {r.reason for r in left} == {EXCLUDED}


@pytest.mark.parametrize("how", KINDS)
@pytest.mark.parametrize("decomposed", [False, True], ids=["whole", "decomposed"])
def test_linear_layers_between_conversions_are_computed_in_floats(
    how: str, decomposed: bool
) -> None:
    x, module, program = layers(how)
    partitioner = XnnpackFloatingPointPartitioner()
    if decomposed:
        edge = to_edge(program).to_backend(partitioner)
    else:
        edge = to_edge_transform_and_lower(program, partitioner=[partitioner])
    assert_floats_only(edge, {"aten::linear", "aten::relu"})
    assert_near(edge.to_executorch().run(x), module(x), DECOMPOSED_LINEAR[how])


def test_conversions_keep_their_number() -> None:
    _, _, program = layers("per_channel")
    edge = to_edge_transform_and_lower(program, partitioner=[XnnpackFloatingPointPartitioner()])
    records = edge.delegation_summary().records
    counts = [sum(r.operator in ops for r in records) for ops in (QUANTIZE, DEQUANTIZE)]
    assert counts == [3, 5]  # of the input, the first layer and the result; and of two weights


@pytest.mark.parametrize("how", ["per_tensor", "per_channel"])
@pytest.mark.parametrize(
    ("convolution", "shape"),
    [
        (lambda: nn.Conv1d(2, 4, 3), (1, 2, 6)),
        (lambda: nn.Conv2d(4, 4, 3, groups=4), (1, 4, 6, 6)),
    ],
    ids=["row", "depthwise"],
)
def test_weights_of_convolutions_become_float_constants(
    how: str, convolution: Callable[[], nn.Module], shape: tuple[int, ...]
) -> None:
    torch.manual_seed(0)
    x = torch.randn(shape)
    module, program = quantized(convolution(), x, how)
    edge = to_edge_transform_and_lower(program, partitioner=[XnnpackFloatingPointPartitioner()])
    records = edge.delegation_summary().records
    inside = Counter(r.operator.split(".")[0] for r in records if r.delegate is not None)
    assert inside["aten::convolution"] == 1 and sum(inside[name] for name in DEQUANTIZE) == 1
    left = [r for r in records if r.delegate is None]
    assert {r.operator for r in left} <= QUANTIZE | DEQUANTIZE
    assert_near(edge.to_executorch().run(x), module(x), SMALL_LAYER_STEPS)


def test_a_convolution_reads_floats_that_were_moved_behind_a_conversion() -> None:
    torch.manual_seed(0)
    module, x = Padded(order=(0, 3, 1, 2)).eval(), torch.randn(1, 6, 6, 3)
    partitioner = XnnpackFloatingPointPartitioner()
    edge = to_edge_transform_and_lower(export(module, (x,)), partitioner=[partitioner])
    records = edge.delegation_summary().records
    assert "aten::convolution" in {r.operator for r in records if r.delegate is not None}
    assert not any(r.operator in QUANTIZE for r in records if r.delegate is not None)
    assert_near(edge.to_executorch().run(x), module(x), SMALL_LAYER_STEPS)


def test_a_derived_config_is_asked_with_the_same_facts() -> None:
    class Asked(LinearConfig):  # type: ignore[misc, valid-type]
        def check_constraints(self, node: Any, ep: Any) -> bool:
            return bool(super().check_constraints(node, ep))

    x, module, program = layers("per_channel")
    partitioner = XnnpackPartitioner(configs=[Asked], config_precisions=FP32)
    edge = to_edge_transform_and_lower(program, partitioner=[partitioner])
    found = [r.operator for r in edge.delegation_summary().records if r.delegate is not None]
    assert found == ["aten::linear", "aten::linear"]
    assert_near(edge.to_executorch().run(x), module(x), F32_LAYERS)


def test_a_second_partitioner_takes_nothing_from_the_first() -> None:
    x, module, program = layers("per_channel")
    edge = to_edge_transform_and_lower(
        program, partitioner=[XnnpackFloatingPointPartitioner(), XnnpackPartitioner()]
    )
    assert_near(edge.to_executorch().run(x), module(x), F32_LAYERS)
