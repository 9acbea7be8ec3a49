"""Exports for this project's runtime: fused attention, packed weights."""

from __future__ import annotations

from pathlib import Path

import torch

from executorch_py.exir import ExecutorchProgramManager
from executorch_py.extension.llm.export import quantize_layers
from executorch_py.extension.llm.export.choose_decoder import choose_decoder
from executorch_py.extension.llm.export.hf_decoder import FORWARD, program_of
from executorch_py.extension.llm.export.hf_model import Loaded, cast_parameters, load_model
from executorch_py.extension.llm.export.hf_parts import unused_layers
from executorch_py.extension.llm.export.metadata import constant_methods
from executorch_py.extension.llm.export.standard_quantized import WeightKind
from executorch_py.optimum.export.weight_only import quantize_weights
from executorch_py.optimum.options import DEFAULT_GROUP, ExportOptions, LinearMode

_PREFILL = 512
_TABLE_BITS = {"4w": 4, "8w": 8}


def export_own(folder: Path, options: ExportOptions) -> ExecutorchProgramManager:
    """The program of a folder of transformers, or of a GGUF file in it."""
    modes, table = options.linear_modes, _table_kind(options)
    loaded = load_model(
        options.source(folder), keep_codes=_are_shared(modes, table), need_fit=False
    )
    _quantize(loaded, modes, table)
    model = loaded.model
    cast_parameters(model)
    capacity = options.length(model.config)
    decoder, graph = choose_decoder(model, loaded.parts, capacity, prefill=_PREFILL)
    return program_of({FORWARD: graph}, constant_methods(decoder))


def _table_kind(options: ExportOptions) -> WeightKind | None:
    if options.qembedding is None:
        return None
    group = options.qembedding_group_size
    return WeightKind(_TABLE_BITS[options.qembedding], DEFAULT_GROUP if group is None else group)


def _are_shared(modes: list[LinearMode], table: WeightKind | None) -> bool:
    """Whether linear layers and embeddings are packed alike, so that tied ones share their codes.

    A file's codes are kept then, too.
    """
    packed = bool(modes) and all(mode.is_dynamic for mode in modes)
    return packed and table == WeightKind(modes[0].bits, modes[0].group)


def _quantize(loaded: Loaded, modes: list[LinearMode], table: WeightKind | None) -> None:
    """Quantizes linear layers by the first mode that fits them, and embeddings."""
    model, shared = loaded.model, _are_shared(modes, table)
    alone = unused_layers(model) if modes else {}
    for i, mode in enumerate(modes):
        if mode.is_dynamic:
            keep = alone if shared and i == 0 else (*_names(model, torch.nn.Embedding), *alone)
            quantize_layers(model, mode.group, keep=keep, codes=loaded.codes, bits=mode.bits)
        else:
            quantize_weights(model, mode, keep=alone)
    if table is not None and not shared:
        keep = _names(model, torch.nn.Linear)
        quantize_layers(model, table.group, keep=keep, bits=table.bits)


def _names(model: torch.nn.Module, kind: type) -> tuple[str, ...]:
    return tuple(name for name, module in model.named_modules() if isinstance(module, kind))
