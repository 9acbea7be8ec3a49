"""Products of float16 with dynamic integers: the bias is float32, as XNNPACK's kernels read it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from support import xnnpack_delegation_cases as cases
from support.tolerance import OPERATOR, UPSTREAM_QUANTIZED, assert_near
from support.upstream_peer import Upstream
from support.xnnpack_payloads import payloads_of
from torch import nn
from torch.export import export
from torchao.quantization import (
    Int8DynamicActivationIntxWeightConfig,
    IntxWeightOnlyConfig,
    quantize_,
)
from torchao.quantization.granularity import PerGroup

from executorch_py.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch_py.backends.xnnpack.payload.payload_flatbuffer import Datatype
from executorch_py.exir import EdgeProgramManager, to_edge_transform_and_lower
from executorch_py.exir.program.config import ExecutorchBackendConfig

KINDS = ("8da4w", "8da8w", "dynamic")


def lowered(how: str) -> tuple[nn.Module, torch.Tensor, EdgeProgramManager]:
    torch.manual_seed(0)
    x = torch.randn(3, 64, dtype=torch.float16)
    module = cases._quantized(nn.Linear(64, 8, dtype=torch.float16).eval(), (x,), how)
    program = export(module, (x,))
    edge = to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner()])
    return module, x, edge


@pytest.mark.parametrize("how", KINDS)
def test_the_bias_is_float32(how: str) -> None:
    module, x, edge = lowered(how)
    (graph,) = payloads_of(edge)
    biases = [v.tensor.datatype for v in graph.xvalues if _is_constant_row(v)]
    assert biases == [Datatype.FP32]
    assert_near(edge.to_executorch().run(x), module(x), UPSTREAM_QUANTIZED["int4 group"])


def _is_constant_row(value: Any) -> bool:
    tensor = value.tensor
    return tensor.constant_buffer_idx != 0 and list(tensor.dims) == [8]


def test_inputs_are_quantized_in_full_precision() -> None:
    # With 1 / scale rounded to float16, codes of great values were off by one step in eight.
    module, _, edge = lowered("8da8w")
    x = torch.randn(3, 64, generator=torch.Generator().manual_seed(1)).half()  # no tie of two codes
    weight: Any = module.weight
    rows = weight.qdata.double() * weight.scale.double().reshape(-1, 1)
    wanted = in_dynamic_integers(x.double()) @ rows.T + module.bias.double()
    found = edge.to_executorch().run(x)
    assert_near(found.double(), wanted, OPERATOR[torch.float16])


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        (
            Int8DynamicActivationIntxWeightConfig(torch.int4, weight_granularity=PerGroup(30)),
            "its weights have groups of 30, not of a multiple of 32",
        ),
        (
            IntxWeightOnlyConfig(torch.int4, granularity=PerGroup(30)),
            "its weights are quantized, its input is torch.float16, not float32",
        ),
    ],
    ids=["dynamic", "weights only"],
)
def test_weights_in_other_groups_are_left_with_that_reason(config: Any, reason: str) -> None:
    module = nn.Sequential(nn.Linear(60, 8, dtype=torch.float16)).eval()
    quantize_(module, config)
    program = export(module, (torch.ones(3, 60, dtype=torch.float16),))
    edge = to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner()])
    assert reason in str(edge.delegation_summary())


def in_dynamic_integers(x: torch.Tensor) -> torch.Tensor:
    """Values rounded to 256 steps between the limits of each row, which include 0."""
    least, most = x.amin(1, keepdim=True).clamp(max=0), x.amax(1, keepdim=True).clamp(min=0)
    step = (most - least) / 255
    zero = (-128 - least / step).round()
    return ((x / step + zero).round().clamp(-128, 127) - zero) * step


def test_upstreams_runtime_runs_them(upstream: Upstream, tmp_path: Path) -> None:
    for how in KINDS:
        module, x, edge = lowered(how)
        program = edge.to_executorch(ExecutorchBackendConfig(target="executorch-1.5"))
        program.save(tmp_path / f"{how}.pte")
        torch.save([(x,)], tmp_path / f"{how}.inputs.pt")
        upstream.ask("run_inputs", how, tmp_path)
        [[found]] = torch.load(tmp_path / f"{how}.pt", weights_only=False)
        assert_near(found, module(x), UPSTREAM_QUANTIZED["int4 group"])
        assert_near(program.run(x), found, OPERATOR[torch.float16])
