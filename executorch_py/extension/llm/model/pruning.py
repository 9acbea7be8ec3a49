"""Vocabularies with fewer words: rows of the embedding and of the last layer that are kept.

A map has the kept words: position in the smaller table -> id of the whole vocabulary. Tokens and
logits keep the ids of the whole vocabulary; logits of other words are -inf, and other words have no
embedding: a program refuses them as an index that is too large.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from executorch_py.extension.llm.model.model_args import ModelArgsError
from executorch_py.extension.llm.model.transformer import Transformer
from executorch_py.terminal_text import quoted


def read_map(path: str | Path, vocabulary: int) -> list[int]:
    """The kept ids, in the order of the smaller table; ModelArgsError names what is wrong."""
    try:
        entries = json.loads(Path(path).read_text(encoding="utf-8"))
        kept = [(int(place), int(word)) for place, word in entries.items()]
    except (OSError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise ModelArgsError(
            f"{path}: expected a JSON object of positions and ids, got {error!r}"
        ) from None
    kept.sort()
    if not kept or [place for place, _ in kept] != list(range(len(kept))):
        raise ModelArgsError(
            f"{path}: expected positions from 0 on, each once, got "
            f"{quoted(str([place for place, _ in kept[:6]]))}"
        )
    words = [word for _, word in kept]
    if min(words) < 0 or max(words) >= vocabulary or len(set(words)) < len(words):
        raise ModelArgsError(
            f"{path}: expected ids that differ, of a vocabulary of {vocabulary}, got "
            f"{min(words)} to {max(words)}, {len(set(words))} of {len(words)} different"
        )
    return words


def prune_rows(model: Transformer, inputs: list[int] | None, outputs: list[int] | None) -> None:
    """Leaves the kept rows alone; done before weights are quantized."""
    for layer, words in ((model.tok_embeddings, inputs), (model.output, outputs)):
        if words is None:
            continue
        at = torch.tensor(words)
        for name, parameter in list(layer.named_parameters()):
            rows = torch.nn.Parameter(parameter[at].clone(), requires_grad=False)
            setattr(layer, name, rows)


def keep_ids(model: Transformer, inputs: list[int] | None, outputs: list[int] | None) -> None:
    """Wraps both layers, so that ids are those of the whole vocabulary."""
    vocabulary = model.args.vocab_size
    made: Any
    if inputs is not None:
        made = PrunedEmbedding(model.tok_embeddings, inputs, vocabulary)
        model.tok_embeddings = made
    if outputs is not None:
        made = PrunedOutput(model.output, outputs, vocabulary)
        model.output = made


def _places(words: list[int], vocabulary: int) -> torch.Tensor:
    """The place of each word in the smaller table; of words that are not there, one behind it."""
    places = torch.full((vocabulary,), len(words), dtype=torch.int64)
    places[torch.tensor(words)] = torch.arange(len(words))
    return places


class PrunedEmbedding(torch.nn.Module):
    """Rows of a smaller table, for ids of the whole vocabulary."""

    places: torch.Tensor

    def __init__(self, table: torch.nn.Module, words: list[int], vocabulary: int) -> None:
        super().__init__()
        self.table = table
        self.register_buffer("places", _places(words, vocabulary))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        rows: torch.Tensor = self.table(self.places[tokens])
        return rows


class PrunedOutput(torch.nn.Module):
    """Logits of the whole vocabulary, from a last layer of fewer words."""

    places: torch.Tensor

    def __init__(self, layer: torch.nn.Module, words: list[int], vocabulary: int) -> None:
        super().__init__()
        self.layer = layer
        self.register_buffer("places", _places(words, vocabulary))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        logits = self.layer(x)
        nothing = torch.full_like(logits[..., :1], -torch.inf)
        return torch.cat((logits, nothing), -1).index_select(-1, self.places)
