"""Files of small decoders for tests of sessions, in each way that programs are called."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from executorch_py.exir import ExecutorchBackendConfig, to_edge
from executorch_py.exir.passes import MemoryPlanningPass
from executorch_py.extension.llm.custom_ops import custom_ops  # noqa: F401 registers operators
from executorch_py.extension.llm.export.hf_decoder import (
    FORWARD,
    VERIFY,
    Decoder,
    capture,
    capture_verify,
    program_of,
)
from executorch_py.extension.llm.export.metadata import constant_methods
from executorch_py.extension.llm.tokenizer import TOKENIZER_KEY
from support.decoders import build

CAPACITY, PREFILL = 48, 9
# Name -> the class's prefix, its configuration, the kind of its caches.
OWN: dict[str, tuple[str, dict[str, Any], str]] = {
    "Llama": ("Llama", {}, "f32"),
    "Mistral, windows": ("Mistral", {"sliding_window": 6}, "i8"),
    "Gemma 3, some windows": (
        "Gemma3",
        {
            "sliding_window": 5,
            "head_dim": 16,
            "layer_types": ["sliding_attention", "full_attention"],
        },
        "f16",
    ),
}


def own_file(
    folder: Path, name: str, seed: int = 0, verify: int = 0, tokenizer: bytes | None = None
) -> Path:
    """A decoder of this project's exporter, which carries a prepared tokenizer if one is given."""
    prefix, more, cache = OWN[name]
    model = build(prefix, more)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(seed * 0.01)
    decoder = Decoder(model, CAPACITY, prefill=PREFILL, cache=cache)
    path = folder / f"{name}{seed}-{verify}.pte"
    graphs = {FORWARD: capture(decoder)}
    if verify:
        graphs[VERIFY] = capture_verify(decoder, verify)
    data = {} if tokenizer is None else {TOKENIZER_KEY: tokenizer}
    program_of(graphs, constant_methods(decoder), data).save(path)
    return path


class Attending(torch.nn.Module):
    """One layer of attention in the convention of upstream's export_llm, with its operators."""

    HEADS, SIZE = 2, 8

    def __init__(self, all_logits: bool) -> None:
        super().__init__()
        torch.manual_seed(1)
        width = self.HEADS * self.SIZE
        self.table = torch.nn.Embedding(50, width)
        self.places = torch.nn.Embedding(CAPACITY, width)
        self.q, self.k, self.v, self.head = (
            torch.nn.Linear(width, n) for n in (width, width, width, 50)
        )
        shape = (1, CAPACITY, self.HEADS, self.SIZE)
        self.register_buffer("k_cache", torch.zeros(shape))
        self.register_buffer("v_cache", torch.zeros(shape))
        self.all_logits = all_logits

    def forward(self, tokens: torch.Tensor, input_pos: torch.Tensor) -> torch.Tensor:
        start, length = input_pos[0].item(), tokens.shape[1]
        torch._check(start >= 0)
        torch._check(start + length <= CAPACITY)
        x = self.table(tokens) + self.places(input_pos[0] + torch.arange(length))
        q, k, v = (f(x).view(1, length, self.HEADS, self.SIZE) for f in (self.q, self.k, self.v))
        torch.ops.llama.update_cache(k, self.k_cache, start)
        torch.ops.llama.update_cache(v, self.v_cache, start)
        out = torch.ops.llama.custom_sdpa(
            q, self.k_cache, self.v_cache, start, None, 0.0, True, None
        )
        logits: torch.Tensor = self.head(out.reshape(1, length, -1))
        return logits if self.all_logits else logits[:, -1]


def file_with_start(path: Path, *, all_logits: bool, one_token: bool) -> Path:
    """A decoder as export_llm makes them: its caches have no names in the file."""
    exported = _attending(Attending(all_logits).eval(), one_token)
    to_edge(exported, constant_methods=_METHODS).to_executorch().save(path)
    return path


_METHODS = {
    "get_max_seq_len": CAPACITY,
    "get_max_context_len": CAPACITY,
    "get_vocab_size": 50,
    "use_kv_cache": True,
    "get_eos_ids": [49],
}


def _attending(model: Attending, one_token: bool) -> torch.export.ExportedProgram:
    length = 1 if one_token else 3
    dim = torch.export.Dim("length", max=CAPACITY - 1)
    return torch.export.export(
        model,
        (torch.zeros(1, length, dtype=torch.int64), torch.zeros(1, dtype=torch.int64)),
        dynamic_shapes=None if one_token else ({1: dim}, None),
    )


def file_with_two_methods(path: Path) -> Path:
    """A decoder with methods for prompts and for single tokens, which share the caches."""
    model = Attending(False).eval()
    methods = {"prefill": _attending(model, False), "decode": _attending(model, True)}
    config = ExecutorchBackendConfig(
        memory_planning_pass=MemoryPlanningPass(share_mutable_buffers=True),
        emit_mutable_buffer_names=True,
    )
    to_edge(methods, constant_methods=_METHODS).to_executorch(config).save(path)
    return path


def file_with_positions(
    path: Path, *, strict: bool = False, gradients: bool = False
) -> tuple[Path, Any]:
    """A decoder as optimum-executorch makes them with transformers; and the model.

    Traced strictly or not, with gradients recorded or not.
    """
    from transformers.integrations.executorch import TorchExportableModuleForDecoderOnlyLM

    model = build("Llama", {})
    model.generation_config.use_cache = True
    model.generation_config.cache_implementation = "static"
    module = TorchExportableModuleForDecoderOnlyLM(
        model, batch_size=1, max_cache_len=CAPACITY, device="cpu"
    )
    length = torch.export.Dim("length", max=CAPACITY - 1)
    example = {
        "input_ids": torch.zeros(1, 3, dtype=torch.int64),
        "cache_position": torch.arange(3),
    }
    shapes = {"input_ids": {1: length}, "cache_position": {0: length}}
    with torch.set_grad_enabled(gradients):
        exported = torch.export.export(
            module.model, (), example, dynamic_shapes=shapes, strict=strict
        )
    methods = {"get_max_seq_len": CAPACITY, "get_vocab_size": 300, "get_eos_id": 2}
    to_edge(exported, constant_methods=methods).to_executorch().save(path)
    return path, model


class Uncached(torch.nn.Module):
    """A model of transformers that reads all tokens in each call."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.model(tokens, use_cache=False).logits
        return logits


def file_without_caches(path: Path) -> Path:
    """A decoder whose only input is the tokens."""
    model = Uncached(build("Llama", {}))
    shapes = ({1: torch.export.Dim("length", max=CAPACITY)},)
    with torch.no_grad():
        exported = torch.export.export(
            model, (torch.zeros(1, 3, dtype=torch.int64),), dynamic_shapes=shapes, strict=False
        )
    methods = {"get_vocab_size": 300, "use_kv_cache": False}
    to_edge(exported, constant_methods=methods).to_executorch().save(path)
    return path
