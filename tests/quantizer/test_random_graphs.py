"""Random models: quantized results agree between converted graph, kernels and delegate.

Batch norm folding does not change results.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

import pytest
import torch
from support.random_graphs import Drawn, Moves, Norms
from support.tolerance import F32_MODEL, assert_near

from executorch_py.backends.xnnpack import XnnpackPartitioner
from executorch_py.exir import ExecutorchBackendConfig, to_edge_transform_and_lower
from executorch_py.quantizer import (
    XNNPACKQuantizer,
    convert_pt2e,
    get_symmetric_quantization_config,
    move_exported_model_to_eval,
    prepare_pt2e,
    prepare_qat_pt2e,
)

Tensors = Sequence[torch.Tensor]
WAYS = {
    "delegate": ([XnnpackPartitioner()], ExecutorchBackendConfig()),
    "any runtime": (None, ExecutorchBackendConfig()),
    "own operators": (None, ExecutorchBackendConfig(own_operators=True)),
}


def inputs(seed: int, n: int) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(2, 4, 6, 3, generator=generator) for _ in range(n))


def quantizer(is_per_channel: bool, is_qat: bool = False) -> XNNPACKQuantizer:
    config = get_symmetric_quantization_config(is_per_channel, is_qat=is_qat)
    return XNNPACKQuantizer().set_global(config)


def exported(model: Drawn, sample: Tensors) -> torch.fx.GraphModule:
    return torch.export.export(model, tuple(sample)).module()


def step(value: torch.fx.Node) -> float:
    """The largest quantization step among the sources of a result."""
    if "dequantize_per_tensor" in str(value.target):
        return float(value.args[1])
    return max((step(n) for n in value.all_input_nodes), default=0.0)


@pytest.mark.parametrize("seed", range(12))
def test_drawn_moves_and_layers_are_the_same_in_every_way_to_run(seed: int) -> None:
    sample = inputs(seed, 2)
    model = Moves(seed, sample, n_steps=10)
    prepared = prepare_pt2e(exported(model, sample), quantizer(seed % 2 == 0))
    prepared(*sample)
    prepared(*(-x for x in sample))
    converted = convert_pt2e(prepared)
    expected = converted(*sample)
    steps = [step(value) for value in converted.graph.output_node().args[0]]
    program = torch.export.export(converted, sample)
    for name, (partitioner, config) in WAYS.items():
        edge = to_edge_transform_and_lower(program, partitioner=partitioner)
        got = edge.to_executorch(config).run(*sample)
        # Layers may turn one quantization step before them into two, which rounds the other way.
        for a, b, one in zip(got, expected, steps, strict=True):
            assert a.shape == b.shape and float((a - b).abs().max()) <= 2.01 * one, name


@pytest.mark.parametrize("seed", range(8))
def test_drawn_norms_are_folded_to_what_eager_computes(seed: int) -> None:
    sample = inputs(seed, 1)
    model = Norms(seed, sample, n_steps=8)
    prepared = prepare_pt2e(exported(model, sample), quantizer(True))
    with torch.no_grad():
        assert_near(prepared(*sample), model(*sample), F32_MODEL)


@pytest.mark.parametrize("seed", range(8))
def test_drawn_norms_train_to_what_is_converted(seed: int) -> None:
    sample = inputs(seed, 1)
    model = Norms(seed, sample, n_steps=8)
    prepared = prepare_qat_pt2e(exported(model.train(), sample), quantizer(True, is_qat=True))
    for _ in range(3):
        prepared(*sample)
    evaluated = move_exported_model_to_eval(prepared)
    converted = convert_pt2e(copy.deepcopy(evaluated))
    evaluated.apply(torch.ao.quantization.disable_observer)
    got, expected = evaluated(*sample), converted(*sample)
    for a, b in zip(got, expected, strict=True):
        assert torch.equal(a, b)
