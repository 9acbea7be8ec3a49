"""A decoder in the convention of optimum-executorch, for upstream's runtime.

forward(input_ids i64 [1, S], cache_position i64 [S]) -> logits [1, S, vocabulary]. Logits and
caches have the dtype of the weights. The caches have all positions, in layers with windows, too,
whose masks hide the keys before the window.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import torch

from executorch_py.errors import NotSupported
from executorch_py.extension.llm.custom_ops import custom_ops as custom_ops
from executorch_py.extension.llm.export.hf_attention import AttentionLayer, connected

NAME = "executorch_py_static"


@dataclass
class StaticState:
    """Values that attention needs beside queries, keys and values, during one forward."""

    custom_sdpa: bool
    custom_cache: bool
    capacity: int
    layers: dict[int, AttentionLayer]
    positions: Any = None
    start: Any = None
    caches: dict[int, tuple[torch.Tensor, torch.Tensor]] = field(default_factory=dict)


class StaticDecoder(torch.nn.Module):
    """A model of transformers with caches of `capacity` positions in buffers."""

    def __init__(
        self,
        model: Any,
        capacity: int,
        layers: dict[int, AttentionLayer],
        *,
        custom_sdpa: bool,
        custom_cache: bool,
    ) -> None:
        super().__init__()
        for i, layer in layers.items():
            if layer.softcap:
                raise NotSupported(
                    f"layer {i}: expected attention without capped scores for this target, got "
                    f"softcap={layer.softcap} [NotSupported, error: 0x10]"
                )
        self.model, self.capacity, self.layers = model, capacity, layers
        self.state = StaticState(custom_sdpa, custom_cache, capacity, layers)
        for i, layer in layers.items():
            # The custom operators have positions before heads.
            for name, size in (("key", layer.dim), ("value", layer.value_dim)):
                shape = (
                    (1, capacity, layer.heads, size)
                    if custom_cache
                    else (1, layer.heads, capacity, size)
                )
                self.register_buffer(f"{name}_cache_{i}", torch.zeros(shape, dtype=model.dtype))
        with _connected(model, self.state):
            pass  # raises for a model that cannot be

    def forward(self, input_ids: torch.Tensor, cache_position: torch.Tensor) -> torch.Tensor:
        state = self.state
        start = cache_position[0].item()
        torch._check(start >= 0)
        torch._check(start + input_ids.shape[1] <= self.capacity)
        state.positions, state.start = cache_position, start
        state.caches = {
            i: (getattr(self, f"key_cache_{i}"), getattr(self, f"value_cache_{i}"))
            for i in self.layers
        }
        with _connected(self.model, state):
            logits: torch.Tensor = self.model(
                input_ids=input_ids, position_ids=cache_position.unsqueeze(0), use_cache=False
            ).logits
        return logits


def _connected(model: Any, state: StaticState) -> AbstractContextManager[None]:
    from transformers import AttentionInterface

    AttentionInterface.register(NAME, attend)
    return connected(model, state, NAME)


def attend(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: Any = None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """Writes [1, heads, positions, head size] to the layer's caches; attends causally."""
    state: StaticState = module.decode_state
    layer = state.layers[module.layer_idx]
    keys, values = state.caches[module.layer_idx]
    write = _write_by_operator if state.custom_cache else _write_by_index
    keys, values = write(state, keys, key), write(state, values, value)
    if not state.custom_sdpa:
        mask = _mask(state, layer).to(query.dtype)
        out = torch.nn.functional.scaled_dot_product_attention(
            query,
            _for_each_query_head(keys, query),
            _for_each_query_head(values, query),
            attn_mask=mask,
            scale=layer.scale,
        )
        return out.transpose(1, 2), None
    if not state.custom_cache:
        keys, values = keys.transpose(1, 2).contiguous(), values.transpose(1, 2).contiguous()
    mask = _mask(state, layer) if layer.window else None
    start = 0 if layer.window else state.start
    attention: Callable[..., torch.Tensor] = torch.ops.llama.custom_sdpa
    q = query.transpose(1, 2).contiguous()
    out = attention(q, keys, values, start, mask, 0.0, mask is None, layer.scale)
    return out, None


def _write_by_operator(state: StaticState, cache: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
    torch.ops.llama.update_cache(new.transpose(1, 2).contiguous(), cache, state.start)
    return cache


def _write_by_index(state: StaticState, cache: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
    return cache.index_copy_(2, state.positions, new)


def _mask(state: StaticState, layer: AttentionLayer) -> torch.Tensor:
    """0 where a query sees a key, else minus infinity: f32 [queries, capacity]."""
    keys, queries = torch.arange(state.capacity), state.positions.unsqueeze(1)
    seen = keys <= queries
    if layer.window:
        seen = seen & (keys > queries - layer.window)
    return torch.where(seen, 0.0, float("-inf"))


def _for_each_query_head(cache: torch.Tensor, query: torch.Tensor) -> torch.Tensor:
    return cache.repeat_interleave(query.shape[1] // cache.shape[1], 1)
