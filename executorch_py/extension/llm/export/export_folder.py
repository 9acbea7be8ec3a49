"""A folder in the layout of transformers or a GGUF file, as a program that generates text."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from executorch_py.exir import ExecutorchProgramManager
from executorch_py.extension.llm.export.hf_decoder import Decoder, export_decoder
from executorch_py.extension.llm.export.hf_model import load_model, widen_parameters
from executorch_py.extension.llm.export.metadata import constant_methods
from executorch_py.extension.llm.export.quantized_linear import quantize_layers
from executorch_py.terminal_text import quoted_list

_MEGABYTE = 10**6


def export_folder(
    folder: str | Path,
    *,
    capacity: int = 2048,
    prefill: int = 512,
    cache: str = "f32",
    group: int | None = 32,
    report: Callable[[str], None] | None = None,
) -> ExecutorchProgramManager:
    """The program of a decoder: `folder` has its config.json and weights, or is a GGUF file.

    The method forward(tokens i64 [1, S], input_pos i64 [1]) returns the logits f32 [1, vocabulary]
    of the last of 1 … `prefill` tokens. The caches have `capacity` positions of f32, f16 or i8, as
    `cache` says; layers with a window keep the window and the longest call. Weights of linear
    layers and embeddings have 4 bits in groups of `group` terms, or stay f32 with None. `report` is
    called with lines that say what was done.

    CheckpointError for files that are damaged or do not fit the configuration;
    UnsupportedDecoder for attention that is not supported, before any weight is read.
    """
    say = report or (lambda line: None)
    model = load_model(Path(folder))
    say(f"{type(model).__name__}: {sum(p.numel() for p in model.parameters()):,} weights")
    if group is not None:
        left = quantize_layers(model, group)
        say(f"linear layers and embeddings: 4 bits, groups of {group}")
        if left:
            say(f"left in f32: {quoted_list(list(left)[:6])}{' and more' if len(left) > 6 else ''}")
    widen_parameters(model)
    decoder = Decoder(model, capacity, prefill=prefill, cache=cache)
    say(
        f"caches: {capacity} positions of {cache}, {decoder.cache_bytes / _MEGABYTE:.1f} MB; "
        f"calls of up to {decoder.prefill} tokens"
    )
    return export_decoder(decoder, constant_methods(decoder))
