"""Small random decoders of the Llama family: params JSON and Meta checkpoint, greedy tokens."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

PARAMS: dict[str, Any] = {
    "dim": 64,
    "n_layers": 2,
    "n_heads": 4,
    "n_kv_heads": 2,
    "hidden_dim": 128,
    "vocab_size": 300,
    "norm_eps": 1e-5,
    "rope_theta": 10000.0,
}
PROMPT = [5, 17, 42, 7, 9, 200]
N_NEW = 8


def tensors(params: dict[str, Any] = PARAMS) -> dict[str, torch.Tensor]:
    """Random weights by Meta's names."""
    generator = torch.Generator().manual_seed(0)

    def random(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator) / 8

    def norm() -> torch.Tensor:
        return torch.rand(dim, generator=generator) + 0.5

    dim, wide = params["dim"], params["hidden_dim"]
    keys = dim // params["n_heads"] * params["n_kv_heads"]
    shapes = {
        "attention.wq": (dim, dim),
        "attention.wk": (keys, dim),
        "attention.wv": (keys, dim),
        "attention.wo": (dim, dim),
        "feed_forward.w1": (wide, dim),
        "feed_forward.w2": (dim, wide),
        "feed_forward.w3": (wide, dim),
    }
    made = {"tok_embeddings.weight": random(params["vocab_size"], dim) * 8, "norm.weight": norm()}
    made["output.weight"] = random(params["vocab_size"], dim)
    for i in range(params["n_layers"]):
        for name, shape in shapes.items():
            made[f"layers.{i}.{name}.weight"] = random(*shape)
        for name in ("attention_norm", "ffn_norm"):
            made[f"layers.{i}.{name}.weight"] = norm()
    return made


def write(folder: Path, params: dict[str, Any] = PARAMS) -> list[str]:
    """Writes both files; the texts that tell a command of their places."""
    (folder / "params.json").write_text(json.dumps(params))
    torch.save(tensors(params), folder / "weights.pth")
    return [f"base.params={folder / 'params.json'}", f"base.checkpoint={folder / 'weights.pth'}"]


def steps(
    call: Callable[[list[int], int], torch.Tensor], pieces: Sequence[int] = (len(PROMPT),)
) -> Iterator[torch.Tensor]:
    """Logits [vocabulary] of the prompt, fed in pieces, and of greedy tokens after it."""
    at = 0
    for n in pieces:
        logits = call(PROMPT[at : at + n], at).flatten()
        at += n
    for _ in range(N_NEW):
        yield logits
        logits = call([int(logits.argmax())], at).flatten()
        at += 1
    yield logits
