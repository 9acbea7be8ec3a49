"""Exports for this project's runtime: fused attention, packed weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from executorch_py.exir import ExecutorchProgramManager
from executorch_py.extension.llm.export import quantize_layers
from executorch_py.extension.llm.export.choose_decoder import choose_decoder
from executorch_py.extension.llm.export.hf_decoder import program_of
from executorch_py.extension.llm.export.hf_model import Loaded, cast_parameters, load_model
from executorch_py.extension.llm.export.hf_parts import unused_layers
from executorch_py.extension.llm.export.metadata import constant_methods
from executorch_py.optimum.options import DEFAULT_GROUP, ExportOptions

_PREFILL = 512
_BITS = {"8da4w": 4, "8da8w": 8, "4w": 4, "8w": 8}


def export_own(folder: Path, options: ExportOptions) -> ExecutorchProgramManager:
    """The program of a folder of transformers, or of a GGUF file in it."""
    linear = _kind(options.qlinear, options.qlinear_group_size)
    table = _kind(options.qembedding, options.qembedding_group_size)
    loaded = load_model(
        options.source(folder),
        keep_codes=linear == table and linear is not None,
        need_fit=False,
    )
    _quantize(loaded, linear, table)
    model = loaded.model
    cast_parameters(model)
    capacity = options.length(model.config)
    decoder, graph = choose_decoder(model, loaded.parts, capacity, prefill=_PREFILL)
    return program_of(graph, constant_methods(decoder))


def _kind(name: str | None, group: int | None) -> tuple[int, int] | None:
    """Bits and terms of a group."""
    return None if name is None else (_BITS[name], DEFAULT_GROUP if group is None else group)


def _quantize(loaded: Loaded, linear: Any, table: Any) -> None:
    """Packs linear layers and embeddings; those of one kind share tied tables."""
    model = loaded.model
    names = {
        kind: tuple(name for name, module in model.named_modules() if isinstance(module, kind))
        for kind in (torch.nn.Linear, torch.nn.Embedding)
    }
    alone = unused_layers(model) if linear is not None else {}
    if linear == table:
        if linear is not None:
            quantize_layers(model, linear[1], keep=alone, codes=loaded.codes, bits=linear[0])
        return
    if linear is not None:
        keep = (*names[torch.nn.Embedding], *alone)
        quantize_layers(model, linear[1], keep=keep, bits=linear[0])
    if table is not None:
        quantize_layers(model, table[1], keep=names[torch.nn.Linear], bits=table[0])
