"""Attention of a layer over its own keys and values: without a cache, or with one of several kinds.

A kind is a module that appends keys and values [1, S, G, D] and attends with queries [1, S, H, D].
It owns the buffers of its layer. `Step` has what all layers of one call share.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch

from executorch_py.exir.dialects import attention_ops
from executorch_py.exir.dialects.quantized_ops import quantized_tokens
from executorch_py.extension.llm.custom_ops import custom_ops as custom_ops

_OWN_NAMES = ("key_cache", "value_cache", "key_scales", "key_sums", "value_scales")


@dataclass
class Step:
    """One call: the position of the first of its tokens, their number, and masks by their window.

    Without caches, `start` is 0.
    """

    start: Any
    length: Any
    positions: torch.Tensor  # i64 [S]
    masks: dict[tuple[str, int], torch.Tensor] = field(default_factory=dict)

    @cached_property
    def begins(self) -> torch.Tensor:
        """Whether the first token is at position 0, so that nothing is before it: bool [1]."""
        return self.positions[:1] == 0

    def mask(self, kind: str, window: int, at: torch.Tensor, sink: int = 0) -> torch.Tensor:
        """0 where a query sees the key of a position in `at`, else -inf: f32 [S, keys].

        Positions below `sink` are seen from outside of the window, too. Negative positions hold no
        key. Made once a call for each kind of cache and window.
        """
        if (kind, window) not in self.masks:
            distance = self.positions.unsqueeze(1) - at.unsqueeze(0)
            seen = (distance >= 0) & (at >= 0).unsqueeze(0)
            if window and sink:
                seen = seen & ((distance < window) | (at < sink).unsqueeze(0))
            elif window:
                seen = seen & (distance < window)
            nothing = torch.zeros((), dtype=torch.float32)
            hidden = torch.full((), -torch.inf, dtype=torch.float32)
            self.masks[kind, window] = torch.where(seen, nothing, hidden)
        return self.masks[kind, window]


@dataclass(frozen=True)
class Layer:
    """How a layer attends: sizes, and the positions that its cache has room for."""

    heads: int  # of keys and values
    size: int
    capacity: int  # positions of the whole context
    longest: int  # tokens of a call
    window: int  # keys that a query sees, its own included; 0: all before it
    scale: float
    softcap: float = 0.0
    sink: int = 0  # first positions that are always seen, beside the window
    dtype: torch.dtype = torch.float32  # of keys and values

    @property
    def slots(self) -> int:
        """Positions that a cache keeps: a window's ring has room for the longest call."""
        kept = self.sink + self.window + self.longest - 1
        return min(self.capacity, kept) if self.window else self.capacity

    @property
    def sees(self) -> int:
        """The window, or 0 where it ends no position that there is."""
        return 0 if self.window >= self.capacity else self.window


def plain_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor, layer: Layer
) -> torch.Tensor:
    """Attention of [1, H, S, D] to [1, G, keys, D], result [1, S, H, D]."""
    group = q.shape[1] // layer.heads
    if group > 1:
        k, v = (x.repeat_interleave(group, 1) for x in (k, v))
    scores = q @ k.transpose(2, 3) * layer.scale
    if layer.softcap:
        scores = layer.softcap * torch.tanh(scores / layer.softcap)
    return (torch.softmax(scores + mask, -1).to(v.dtype) @ v).transpose(1, 2)


class NoCache(torch.nn.Module):
    """Attention among the tokens of one call."""

    def __init__(self, layer: Layer) -> None:
        super().__init__()
        self.layer = layer

    def forward(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, step: Step
    ) -> torch.Tensor:
        mask = step.mask("none", self.layer.sees, step.positions, self.layer.sink)
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        return plain_attention(q, k, v, mask, self.layer)


def _register_caches(module: torch.nn.Module, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    for name in ("k_cache", "v_cache"):
        module.register_buffer(name, torch.zeros(shape, dtype=dtype))


class TensorCache(torch.nn.Module):
    """Caches [1, G, C, D], written and read by core operators."""

    k_cache: torch.Tensor
    v_cache: torch.Tensor

    def __init__(self, layer: Layer) -> None:
        super().__init__()
        self.layer = layer
        _register_caches(self, (1, layer.heads, layer.capacity, layer.size), layer.dtype)

    def forward(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, step: Step
    ) -> torch.Tensor:
        for cache, rows in ((self.k_cache, k), (self.v_cache, v)):
            cache.index_copy_(2, step.positions, rows.transpose(1, 2))
        mask = step.mask("all", self.layer.sees, torch.arange(self.layer.capacity))
        return plain_attention(q.transpose(1, 2), self.k_cache, self.v_cache, mask, self.layer)


class OperatorCache(torch.nn.Module):
    """Caches [1, C, G, D], by llama::update_cache and llama::custom_sdpa.

    A layer with a window keeps its positions in a ring, behind those of its sink.
    """

    k_cache: torch.Tensor
    v_cache: torch.Tensor

    def __init__(self, layer: Layer) -> None:
        super().__init__()
        self.layer = layer
        _register_caches(self, (1, layer.slots, layer.heads, layer.size), layer.dtype)

    def forward(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, step: Step
    ) -> torch.Tensor:
        write_rows(self.layer, step, (k, self.k_cache), (v, self.v_cache))
        start, mask, causal = operator_arguments(self.layer, step)
        result: torch.Tensor = torch.ops.llama.custom_sdpa(
            q, self.k_cache, self.v_cache, start, mask, 0.0, causal, self.layer.scale
        )
        return result


class QuantizedOperatorCache(torch.nn.Module):
    """Caches of int8 as OperatorCache's, by llama::custom_quantized_sdpa.

    Each position and head has a scale and a zero point; queries are quantized in the same way.
    """

    def __init__(self, layer: Layer) -> None:
        super().__init__()
        self.layer = layer
        for name in ("k_cache", "v_cache"):
            shape = (1, layer.slots, layer.heads)
            self.register_buffer(name, torch.zeros((*shape, layer.size), dtype=torch.int8))
            self.register_buffer(f"{name}_scales", torch.zeros((*shape, 1)))
            zeros = torch.zeros((*shape, 1), dtype=torch.int8)
            self.register_buffer(f"{name}_zero_points", zeros)

    def forward(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, step: Step
    ) -> torch.Tensor:
        cached = [self._tensors("k_cache"), self._tensors("v_cache")]
        for rows, tensors in zip((k, v), cached, strict=True):
            write_rows(self.layer, step, *zip(_quantized_rows(rows), tensors, strict=True))
        (keys, key_scales, key_zeros), (values, value_scales, value_zeros) = cached
        codes, scales, zeros = _quantized_rows(q)
        start, mask, causal = operator_arguments(self.layer, step)
        numbers = (zeros, scales, key_zeros, key_scales, value_zeros, value_scales)
        result: torch.Tensor = torch.ops.llama.custom_quantized_sdpa(
            codes, keys, values, start, mask, 0.0, causal, self.layer.scale, *numbers
        )
        return result

    def _tensors(self, name: str) -> list[torch.Tensor]:
        return [self.get_buffer(name + part) for part in ("", "_scales", "_zero_points")]


def _quantized_rows(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Codes int8, scales f32 and zero points int8 of the last dim's rows."""
    codes, scales, zeros = quantized_tokens(x)
    return codes, scales.to(torch.float32), zeros.to(torch.int8)


def write_rows(layer: Layer, step: Step, *pairs: tuple[torch.Tensor, torch.Tensor]) -> None:
    """Writes each pair's rows [1, S, G, …] into its cache, where the positions of a call are."""
    llama = torch.ops.llama
    for rows, cache in pairs:
        if layer.sees:
            llama.update_cache_with_indices(rows, cache, 0, _slots(layer, step).unsqueeze(0))
        else:
            llama.update_cache(rows, cache, step.start)


def operator_arguments(layer: Layer, step: Step) -> tuple[Any, torch.Tensor | None, bool]:
    """start_pos, attn_mask and is_causal of the operators for attention."""
    if not layer.sees:
        return step.start, None, True
    # A slot of the ring holds the last position written to it; the sink's hold their own.
    last, sink, ring = step.positions[-1], layer.sink, layer.slots - layer.sink
    at = last - (last + ring + -sink % ring - torch.arange(ring)) % ring
    if sink:
        at = torch.where(at >= sink, at, torch.full((), -1))
        at = torch.cat((torch.arange(sink), at))
    return 0, step.mask(f"ring of {layer.slots}", layer.window, at, sink), False


def _slots(layer: Layer, step: Step) -> torch.Tensor:
    """The slot of each position of a call: the sink's have their own, others lie in a ring."""
    sink, positions = layer.sink, step.positions
    if not sink:
        return positions % layer.slots
    ring = layer.slots - sink  # remainders of numbers below 0 are not the same everywhere
    return torch.where(positions < sink, positions, sink + (positions + -sink % ring) % ring)


class OwnCache(torch.nn.Module):
    """Caches in panels, by executorch_py::cached_attention: of "f32", "f16" or "i8".

    With a sink, cos and sin have one more row, that of the last position at which sink and window
    are side by side: distances to the sink end there.
    """

    def __init__(self, layer: Layer, kind: str) -> None:
        super().__init__()
        self.layer = layer
        shapes = attention_ops.cache_shapes(kind, 1, layer.heads, layer.slots, layer.size)
        for name, (shape, dtype) in shapes.items():
            self.register_buffer(name, torch.zeros(shape, dtype=dtype))

    def forward(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        step: Step,
        cos: torch.Tensor | None = None,
        sin: torch.Tensor | None = None,
    ) -> torch.Tensor:
        layer = self.layer
        result: torch.Tensor = torch.ops.executorch_py.cached_attention(
            q,
            k,
            v,
            cos,
            sin,
            step.start,
            *(getattr(self, name, None) for name in _OWN_NAMES),
            layer.slots,
            layer.sees,
            layer.scale,
            layer.softcap,
            False,
            layer.sink if layer.sees else 0,
        )
        return result
