"""Passes over single operators: their graphs compute what eager torch computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from support.tolerance import F32, assert_near
from torch import fx, nn
from torch.export import ExportedProgram, export

from executorch_py.backends.transforms.dtype_passes import I64toI32
from executorch_py.backends.transforms.operator_passes import (
    FuseBatchNormWithConvPass,
    RemoveGetItemPass,
    ReplaceScalarWithTensorArgPass,
)
from executorch_py.backends.transforms.view_passes import Rank0ToRank1Pass
from executorch_py.exir import EdgeCompileConfig, to_edge
from executorch_py.exir.passes.user.upstream_passes import ToDevicePass
from executorch_py.extension.llm.custom_ops.model_sharding import SplitGraph


def edge_program(model: nn.Module, *inputs: torch.Tensor) -> ExportedProgram:
    config = EdgeCompileConfig(_check_ir_validity=False)
    return to_edge(export(model.eval(), inputs), compile_config=config).exported_program()


def results(gm: fx.GraphModule, ep: ExportedProgram, *inputs: torch.Tensor) -> tuple[torch.Tensor]:
    """The results of a graph with the constants of its program."""
    names = [spec.target for spec in ep.graph_signature.input_specs if spec.target]
    found: tuple[torch.Tensor] = gm(*(ep.state_dict[n] for n in names), *inputs)
    return found


@pytest.mark.parametrize(
    "conv",
    [
        nn.Conv2d(4, 6, 3, groups=2),
        nn.ConvTranspose2d(4, 4, 3),
        nn.ConvTranspose2d(4, 6, 3, groups=2, bias=False),
    ],
    ids=["grouped", "transposed", "transposed and grouped"],
)
def test_a_batch_norm_is_folded_into_any_convolution(conv: nn.Module) -> None:
    torch.manual_seed(0)
    norm = nn.BatchNorm2d(conv.out_channels)
    with torch.no_grad():
        for numbers in (norm.running_mean, norm.running_var, norm.weight, norm.bias):
            numbers.copy_(torch.rand_like(numbers) + 0.5)
    net, x = nn.Sequential(conv, norm).eval(), torch.randn(1, 4, 5, 5)
    ep = edge_program(net, x)
    fused = FuseBatchNormWithConvPass(ep)(ep.graph_module).graph_module
    assert not any("batch_norm" in str(node.target) for node in fused.graph.nodes)
    assert_near(results(fused, ep, x)[0], net(x), F32)


@pytest.mark.parametrize(
    "make",
    [
        lambda ep: FuseBatchNormWithConvPass(ep),
        lambda ep: RemoveGetItemPass(),
        lambda ep: I64toI32(),
        lambda ep: Rank0ToRank1Pass(),
        lambda ep: ToDevicePass("cpu"),
        lambda ep: SplitGraph([1]),
    ],
    ids=["batch norm", "getitem", "dtype", "rank", "device", "shards"],
)
def test_a_pass_that_changes_nothing_says_so(make: Callable[[ExportedProgram], Any]) -> None:
    ep = edge_program(nn.ReLU(), torch.ones(2, 3))
    before = str(ep.graph)
    result = make(ep)(ep.graph_module)
    assert not result.modified and str(result.graph_module.graph) == before


class Scalars(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        add, mul = torch.ops.aten.add.Scalar, torch.ops.aten.mul.Scalar
        large = 2**53 + 1 if x.dtype == torch.int64 else 7
        return add(x, 1.5), mul(x, 3), torch.ops.aten.sub.Scalar(x, 2), add(x, large)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.float16, torch.float32])
def test_a_number_as_a_tensor_keeps_value_and_type(dtype: torch.dtype) -> None:
    x = torch.arange(-3, 3).to(dtype)
    gm = export(Scalars(), (x,)).graph_module
    replaced = ReplaceScalarWithTensorArgPass()(gm).graph_module
    assert not any("Scalar" in str(node.target) for node in replaced.graph.nodes)
    for found, expected in zip(replaced(x), Scalars()(x), strict=True):
        assert found.dtype == expected.dtype and torch.equal(found, expected)
