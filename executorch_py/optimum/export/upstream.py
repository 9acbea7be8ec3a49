"""Exports for upstream's runtime: its operators for attention and caches, XNNPACK for the rest."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import torch

from executorch_py.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch_py.exir import (
    ExecutorchBackendConfig,
    ExecutorchProgramManager,
    to_edge,
    to_edge_transform_and_lower,
)
from executorch_py.extension.llm.export.hf_model import cast_parameters, load_model
from executorch_py.extension.llm.export.hf_parts import unused_layers
from executorch_py.extension.llm.export.metadata import special_token
from executorch_py.optimum.export.static_decoder import StaticDecoder
from executorch_py.optimum.export.weight_only import quantize_weights
from executorch_py.optimum.options import UPSTREAM, ExportOptions

# Numbers of torch's scalar types, which upstream's runners read, and kinds of caches.
_SCALAR_TYPES = {"float32": 6, "float16": 5, "bfloat16": 15}
_CACHE_KINDS = {"float32": "f32", "float16": "f16", "bfloat16": "bf16"}


def export_upstream(folder: Path, options: ExportOptions) -> ExecutorchProgramManager:
    """The program of a folder of transformers, or of a GGUF file in it."""
    loaded = load_model(options.source(folder))
    model = loaded.model
    cast_parameters(model, getattr(torch, options.dtype_name))
    _quantize(model, options)
    decoder = StaticDecoder(
        model,
        options.length(model.config),
        loaded.layers,
        custom_sdpa=options.uses_custom_sdpa,
        custom_cache=options.use_custom_kv_cache,
    )
    exported = _capture(decoder, options)
    methods = _constant_methods(decoder, options)
    config = ExecutorchBackendConfig(target=UPSTREAM)
    if options.recipe == "portable":
        return to_edge(exported, constant_methods=methods).to_executorch(config)
    edge = to_edge_transform_and_lower(
        exported, partitioner=[XnnpackPartitioner()], constant_methods=methods
    )
    return edge.to_executorch(config)


def _quantize(model: Any, options: ExportOptions) -> None:
    """Low-bit weights; those with quantized activations and tables by torchao, whose patterns the
    delegate knows."""
    if options.qlinear is None and options.qembedding is None:
        return
    from torchao.quantization import (
        Int8DynamicActivationIntxWeightConfig,
        IntxWeightOnlyConfig,
        quantize_,
    )
    from torchao.quantization.granularity import PerAxis, PerGroup

    def granularity(group: int | None) -> Any:
        return PerGroup(group) if group else PerAxis(0)

    bits = {4: torch.int4, 8: torch.int8}

    _untie(model)
    modes = options.linear_modes
    done = set(unused_layers(model)) if modes else set()
    layers = {n: m for n, m in model.named_modules() if isinstance(m, torch.nn.Linear)}
    for mode in modes:
        fits = {n for n, m in layers.items() if not mode.group or m.in_features % mode.group == 0}
        chosen = fits - done
        if mode.is_dynamic:
            config: Any = Int8DynamicActivationIntxWeightConfig(
                weight_dtype=bits[mode.bits], weight_granularity=granularity(mode.group)
            )
            quantize_(model, config, lambda _, name, chosen=chosen: name in chosen)
        else:
            quantize_weights(model, mode, keep=layers.keys() - chosen)
        done |= chosen
    if options.qembedding is not None:
        config = IntxWeightOnlyConfig(
            weight_dtype=torch.int4 if options.qembedding == "4w" else torch.int8,
            granularity=granularity(options.qembedding_group_size),
        )
        quantize_(model, config, lambda module, _: isinstance(module, torch.nn.Embedding))


def _untie(model: Any) -> None:
    """The head and the table get weights of their own: their packed forms differ."""
    head, table = model.get_output_embeddings(), model.get_input_embeddings()
    if head is not None and head.weight is table.weight:
        head.weight = torch.nn.Parameter(head.weight.detach().clone(), requires_grad=False)


def _capture(decoder: StaticDecoder, options: ExportOptions) -> torch.export.ExportedProgram:
    n = 1 if options.disable_dynamic_shapes else 3
    example = {
        "input_ids": torch.zeros(1, n, dtype=torch.int64),
        "cache_position": torch.arange(n),
    }
    shapes = None
    if not options.disable_dynamic_shapes:
        length = torch.export.Dim("length", max=decoder.capacity - 1)
        shapes = {"input_ids": {1: length}, "cache_position": {0: length}}
    with torch.no_grad():
        return torch.export.export(decoder, (), example, dynamic_shapes=shapes, strict=False)


def _constant_methods(decoder: StaticDecoder, options: ExportOptions) -> dict[str, Any]:
    """Names of optimum-executorch, and those that tell sessions what the caches keep."""
    config, layers = decoder.model.config, list(decoder.layers.values())
    token = partial(special_token, decoder.model)
    methods = {
        "get_dtype": _SCALAR_TYPES[options.dtype_name],
        "get_bos_id": token("bos_token_id"),
        "get_eos_id": token("eos_token_id"),
        "get_head_dim": layers[0].dim,
        "get_n_kv_heads": layers[0].heads,
        "get_n_layers": len(layers),
        "get_vocab_size": int(config.vocab_size),
        "get_max_batch_size": 1,
        "get_max_seq_len": decoder.capacity,
        "use_kv_cache": True,
        "sliding_window": getattr(config, "sliding_window", None),
        "decoder_start_token_id": token("decoder_start_token_id"),
        "use_sdpa_with_kv_cache": options.uses_custom_sdpa,
        "enable_dynamic_shape": not options.disable_dynamic_shapes,
        "get_cache_kind": _CACHE_KINDS[options.dtype_name],
        "get_cache_windows": [layer.window for layer in layers],
        "get_cache_slots": [decoder.capacity for _ in layers],
    }
    return {name: value for name, value in methods.items() if value is not None}
