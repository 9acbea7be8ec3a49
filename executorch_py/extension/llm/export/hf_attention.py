"""Attention over caches in decoders of transformers, through its attention interface.

A decoder of transformers calls a function that its configuration names, with queries, keys and
values of all new positions. The one registered here appends keys and values to the caches of a
`DecodeState` and attends to them, by the operator executorch_py::cached_attention.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import torch

from executorch_py.exir.dialects import attention_ops

NAME = "executorch_py"
_CACHE_NAMES = ("key_cache", "value_cache", "key_scales", "key_sums", "value_scales")
# Kinds of layers in a configuration: all others see keys in a way that the operator has not.
_LAYER_TYPES = ("full_attention", "sliding_attention")


class UnsupportedDecoder(ValueError):
    """A decoder that cannot be exported: the message names the part."""


@dataclass(frozen=True)
class AttentionLayer:
    """The attention of a layer: sizes of its cache, and how it attends."""

    heads: int  # of keys and values
    dim: int
    value_dim: int
    window: int  # keys that a query sees, itself included; 0: all before it
    softcap: float  # 0: none
    scale: float

    def slots(self, capacity: int, prefill: int) -> int:
        """Positions that the cache keeps: a window's ring has room for a whole prefill."""
        return min(capacity, self.window + prefill - 1) if self.window else capacity


Cache = dict[str, torch.Tensor]  # tensors of one layer, by the operator's argument names


@dataclass
class DecodeState:
    """The position of the first new token, and the caches of each layer during one forward.

    Without caches, attention is not computed: `layers` collects what each layer would need.
    """

    start: Any = None
    capacity: int = 0
    prefill: int = 0
    layers: dict[int, AttentionLayer] = field(default_factory=dict)
    caches: dict[int, Cache] | None = None


def attend(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: Any = None,
    scaling: float | None = None,
    dropout: float = 0.0,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """Appends [1, heads, positions, head size] to the layer's caches; attends causally."""
    state: DecodeState = module.decode_state
    index: int = module.layer_idx
    q, k, v = (x.transpose(1, 2) for x in (query, key, value))
    if state.caches is None:
        if index in state.layers:
            raise UnsupportedDecoder(f"layer {index}: expected one attention, got a second one")
        state.layers[index] = _layer(module, q, k, v, scaling, options)
        return q.new_zeros((*q.shape[:3], v.shape[3])), None
    layer, cache = state.layers[index], state.caches[index]
    slots = layer.slots(state.capacity, state.prefill)
    if layer.window > slots:  # all positions fit, so that the window ends none of them
        layer = replace(layer, window=0)
    out = torch.ops.executorch_py.cached_attention(
        q,
        k,
        v,
        None,
        None,
        state.start,
        *(cache.get(name) for name in _CACHE_NAMES),
        slots,
        layer.window,
        layer.scale,
        layer.softcap,
        False,
    )
    return out, None


def _layer(
    module: Any,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    scaling: float | None,
    options: dict[str, Any],
) -> AttentionLayer:
    where = f"layer {module.layer_idx}"
    if options.get("s_aux") is not None:
        raise UnsupportedDecoder(f"{where}: attention with sinks (s_aux) is not supported")
    if not getattr(module, "is_causal", True):
        raise UnsupportedDecoder(f"{where}: expected causal attention, got is_causal=False")
    window, softcap = options.get("sliding_window"), options.get("softcap")
    if window is not None and int(window) < 1:
        raise UnsupportedDecoder(f"{where}: sliding_window: expected 1 or more, got {window}")
    return AttentionLayer(
        heads=k.shape[2],
        dim=k.shape[3],
        value_dim=v.shape[3],
        window=0 if window is None else int(window),
        softcap=0.0 if softcap is None else float(softcap),
        scale=q.shape[3] ** -0.5 if scaling is None else float(scaling),
    )


def connect(model: Any, state: DecodeState) -> None:
    """Makes the attention of a model of transformers use these caches."""
    from transformers import AttentionInterface

    for kind in getattr(model.config, "layer_types", None) or ():
        if kind not in _LAYER_TYPES:
            raise UnsupportedDecoder(
                f"layer_types: expected {' or '.join(_LAYER_TYPES)}, got {kind}"
            )
    if getattr(model.config, "use_bidirectional_attention", None):
        raise UnsupportedDecoder("use_bidirectional_attention: expected causal attention, got True")
    AttentionInterface.register(NAME, attend)
    model.set_attn_implementation(NAME)
    _fill_rotary_tables(model)
    for module in model.modules():
        if getattr(module, "layer_idx", None) is not None:
            module.decode_state = state


def _fill_rotary_tables(model: Any) -> None:
    """LongRoPE has a second table, made by the first call: a graph needs it as a constant."""
    for module in model.modules():
        if getattr(module, "rope_type", None) == "longrope":
            with torch.no_grad():
                module(torch.zeros(1), torch.zeros((1, 1), dtype=torch.int64))


def new_cache(layer: AttentionLayer, kind: str, capacity: int, prefill: int) -> Cache:
    """An empty cache of a layer: `kind` as in attention_ops.cache_shapes."""
    shapes = attention_ops.cache_shapes(
        kind, 1, layer.heads, layer.slots(capacity, prefill), layer.dim, layer.value_dim
    )
    return {name: torch.zeros(shape, dtype=dtype) for name, (shape, dtype) in shapes.items()}
