"""A folder in the layout of transformers, as a program that generates text token by token."""

from __future__ import annotations

from pathlib import Path

from executorch_py.exir import ExecutorchProgramManager
from executorch_py.extension.llm.export.hf_decoder import Decoder, export_decoder
from executorch_py.extension.llm.export.hf_model import load_folder, widen_parameters
from executorch_py.extension.llm.export.quantized_linear import quantize_layers


def export_folder(
    folder: str | Path, *, capacity: int = 2048, group: int | None = 32
) -> ExecutorchProgramManager:
    """The program of a decoder whose config.json and weights are in `folder`.

    The method forward(tokens i64 [1, S], input_pos i64 [1]) returns the logits f32 [1, vocabulary]
    of the last token; the caches have `capacity` positions. Weights of linear layers and embeddings
    have 4 bits in groups of `group` terms, or stay f32 with None. CheckpointError for a folder that
    is damaged or does not fit its configuration; UnsupportedDecoder for attention that is not
    supported.
    """
    model = load_folder(Path(folder))
    if group is not None:
        quantize_layers(model, group)
    widen_parameters(model)
    return export_decoder(Decoder(model, capacity))
