"""A folder in the layout of transformers or a GGUF file, as a program that generates text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from executorch_py.exir import ExecutorchProgramManager
from executorch_py.extension.llm.export.carried_text import carried_text
from executorch_py.extension.llm.export.choose_decoder import choose_decoder
from executorch_py.extension.llm.export.fusion_report import fusion_line
from executorch_py.extension.llm.export.hf_decoder import (
    FORWARD,
    VERIFY,
    Decoder,
    capture_verify,
    program_of,
)
from executorch_py.extension.llm.export.hf_mixed_decoder import MixedDecoder, WholeContextDecoder
from executorch_py.extension.llm.export.hf_model import cast_parameters, load_model
from executorch_py.extension.llm.export.hf_parts import unused_layers
from executorch_py.extension.llm.export.metadata import constant_methods, with_end_of_turn
from executorch_py.extension.llm.export.quantized_linear import PackedRows, quantize_layers
from executorch_py.terminal_text import first_names

_MEGABYTE = 10**6


def export_folder(
    source: str | Path,
    *,
    capacity: int = 2048,
    prefill: int = 512,
    cache: str | None = None,
    group: int | None = 32,
    all_logits: bool = False,
    verify: int = 16,
    report: Callable[[str], None] | None = None,
) -> ExecutorchProgramManager:
    """The program of a decoder: `source` is a folder with config.json and weights, or a GGUF file.

    The method forward(tokens i64 [1, S], input_pos i64 [1]) returns the logits f32 [1, vocabulary]
    of the last of 1 … `prefill` tokens, or with `all_logits` those of each, [1, S, vocabulary]; the
    method verify, those of each of 1 … `verify` tokens, which drafts need (0: none). The caches
    have `capacity` positions of f32, f16 or i8, as `cache` says (None: f16, or f32 beside
    float weights); layers with a window keep the window and the longest call. Weights of linear
    layers and embeddings have 4 bits in groups of `group` terms, or stay f32 with None; quantized
    ones of a GGUF file have its own codes. `report` is called with lines that say what was done.

    A model whose attention does not fit the operator for it has caches of transformers, which are
    slower, or none: then the method is forward(tokens), of all tokens of the context.

    CheckpointError for files that are damaged or do not fit the configuration; UnsupportedDecoder
    for a model that cannot be exported with its own logits.
    """
    say = report or (lambda line: None)
    cache = cache or ("f32" if group is None else "f16")
    loaded = load_model(Path(source), keep_codes=group is not None, need_fit=False)
    model = loaded.model
    say(f"{type(model).__name__}: {sum(p.numel() for p in model.parameters()):,} weights")
    if loaded.unused:
        say(f"not used: {first_names(loaded.unused)}")
    if group is not None:
        left = quantize_layers(model, group, keep=unused_layers(model), codes=loaded.codes)
        say(f"linear layers and embeddings: {_kinds(model)}")
        if left:
            say(f"left in f32: {first_names(list(left))}")
    cast_parameters(model)
    decoder, graph = choose_decoder(
        model,
        loaded.parts,
        capacity,
        prefill=prefill,
        cache=cache,
        all_logits=all_logits,
        say=say,
    )
    methods = {FORWARD: graph}
    if verify > 0 and not all_logits and isinstance(decoder, Decoder):
        methods[VERIFY] = capture_verify(decoder, verify)
    say(_caches(decoder, cache))
    say(fusion_line(graph.graph_module.graph))
    named_data, end = carried_text(Path(source), say)
    return program_of(methods, with_end_of_turn(constant_methods(decoder), end), named_data)


def _caches(decoder: Any, cache: str) -> str:
    """The caches and calls of a decoder."""
    if isinstance(decoder, WholeContextDecoder):
        return f"no caches: each call has all of up to {decoder.capacity} tokens"
    kinds = [cache] if not isinstance(decoder, MixedDecoder) else decoder.cache_kinds
    calls = (
        f"calls of up to {decoder.prefill} tokens" if decoder.prefill > 1 else "calls of 1 token"
    )
    return (
        f"caches: {decoder.capacity} positions of {' and '.join(kinds)}, "
        f"{decoder.cache_bytes / _MEGABYTE:.1f} MB; {calls}"
    )


def _kinds(model: torch.nn.Module) -> str:
    """Packed matrices, counted by their bits and groups."""
    matrices = {id(m): str(m.kind) for m in model.modules() if isinstance(m, PackedRows)}
    counts = Counter(matrices.values())
    return "; ".join(f"{n} of {kind}" for kind, n in counts.most_common())
