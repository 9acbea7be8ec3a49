"""A causal language model of transformers as a module with caches: tokens in, logits out."""

from __future__ import annotations

from typing import Any

import torch

from executorch_py.exir import (
    ExecutorchBackendConfig,
    ExecutorchProgramManager,
    to_edge,
)
from executorch_py.extension.llm.export import hf_attention
from executorch_py.extension.llm.export.hf_attention import DecodeState

# Tracing needs a range of lengths, from 1 to more than the example's 2 tokens.
_LEAST_CAPACITY = 4


class Decoder(torch.nn.Module):
    """forward(tokens i64 [1, S], input_pos i64 [1]) -> logits f32 [1, vocabulary].

    The tokens are at the positions from input_pos on; the logits are those of the last one, or of
    all, [1, S, vocabulary], with `all_logits`. Keys and values are kept in buffers from call to
    call, of `capacity` positions.
    """

    def __init__(self, model: Any, capacity: int, all_logits: bool = False) -> None:
        super().__init__()
        if capacity < _LEAST_CAPACITY:
            raise ValueError(f"capacity: expected {_LEAST_CAPACITY} or more, got {capacity}")
        config = model.config
        self.model, self.capacity, self.all_logits = model, capacity, all_logits
        self.n_layers = int(config.num_hidden_layers)
        self.state = DecodeState()
        heads = int(config.num_key_value_heads)
        size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        for i in range(self.n_layers):
            for name in ("key_cache", "value_cache"):
                self.register_buffer(f"{name}_{i}", torch.zeros(1, capacity, heads, size))
        hf_attention.register()
        model.set_attn_implementation(hf_attention.NAME)
        for module in model.modules():
            if getattr(module, "layer_idx", None) is not None:
                module.decode_state = self.state

    def forward(self, tokens: torch.Tensor, input_pos: torch.Tensor) -> torch.Tensor:
        start = input_pos[0].item()
        torch._check(start >= 0)
        torch._check(start + tokens.shape[1] <= self.capacity)
        self.state.start = start
        self.state.caches = {
            i: (getattr(self, f"key_cache_{i}"), getattr(self, f"value_cache_{i}"))
            for i in range(self.n_layers)
        }
        positions = (input_pos + torch.arange(tokens.shape[1])).unsqueeze(0)
        keep = 0 if self.all_logits else 1
        logits: torch.Tensor = self.model(
            input_ids=tokens, position_ids=positions, use_cache=False, logits_to_keep=keep
        ).logits
        return logits if self.all_logits else logits[:, -1]


def export_decoder(decoder: Decoder) -> ExecutorchProgramManager:
    """The program of a decoder for this project's runtime, for 1 … capacity - 1 new tokens."""
    length = torch.export.Dim("length", max=decoder.capacity - 1)
    example = (torch.zeros(1, 2, dtype=torch.int64), torch.zeros(1, dtype=torch.int64))
    shapes = {"tokens": {1: length}, "input_pos": None}
    with torch.no_grad():
        exported = torch.export.export(decoder, example, dynamic_shapes=shapes, strict=False)
    return to_edge(exported).to_executorch(ExecutorchBackendConfig(own_operators=True))
