"""Quantization by a recipe, with torchao: of an eager model, and of its graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import fx, nn
from torch.export import Dim

from executorch_py.exir.trace_errors import readable_errors
from executorch_py.export.recipe import GraphPass, QuantizationRecipe


def transform_source(model: nn.Module, recipe: QuantizationRecipe) -> None:
    """Apply torchao's `quantize_` to the eager model."""
    from torchao.quantization import quantize_

    configs = recipe.ao_quantization_configs or []
    if len(configs) > 1:
        raise ValueError(f"ao_quantization_configs: expected at most one, got {len(configs)}")
    for config in configs:
        quantize_(model, config.ao_base_config, config.filter_fn)


def quantize_graph(
    model: nn.Module, samples: Sequence[tuple[Any, ...]], recipe: QuantizationRecipe
) -> fx.GraphModule:
    """The model's graph, prepared, calibrated on the samples (or trained), and converted."""
    from executorch_py.quantizer import calibrate, convert_pt2e, prepare_pt2e, prepare_qat_pt2e

    quantizer = _one_quantizer(recipe.quantizers or [])
    if recipe.is_qat:
        model.train()
    graph = _apply(
        _captured(model, samples[0], recipe.dynamic_batch_size), recipe.pre_prepare_passes
    )
    prepare = prepare_qat_pt2e if recipe.is_qat else prepare_pt2e
    prepared = _apply(prepare(graph, quantizer), recipe.post_prepare_passes)
    if recipe.is_qat:
        _train(prepared, recipe)
    else:
        given = recipe.calibration_inputs_fn
        calibrate(prepared, samples if given is None else given(), progress=False)
    converted = convert_pt2e(_apply(prepared, recipe.pre_convert_passes))
    return _apply(converted, recipe.post_convert_passes)


def _one_quantizer(quantizers: Sequence[Any]) -> Any:
    from executorch_py.quantizer import ComposableQuantizer

    return quantizers[0] if len(quantizers) == 1 else ComposableQuantizer(list(quantizers))


def _captured(model: nn.Module, inputs: tuple[Any, ...], dynamic_batch: bool) -> Any:
    shapes = None
    if dynamic_batch:
        batch = Dim("batch", min=1)
        shapes = tuple({0: batch} if isinstance(t, torch.Tensor) else None for t in inputs)
    with readable_errors():
        return torch.export.export(model, inputs, dynamic_shapes=shapes, strict=True).module()


def _train(prepared: Any, recipe: QuantizationRecipe) -> None:
    from executorch_py.quantizer import move_exported_model_to_eval, move_exported_model_to_train

    if recipe.train_fn is None:
        raise ValueError(
            "expected train_fn with is_qat=True, got None: pass a function that trains the "
            "prepared graph"
        )
    move_exported_model_to_train(prepared)
    recipe.train_fn(prepared)
    move_exported_model_to_eval(prepared)


def _apply(graph: Any, passes: Sequence[GraphPass] | None) -> Any:
    for run in passes or ():
        graph = run(graph)
    return graph
