"""Attention over caches in decoders of transformers, through its attention interface.

A decoder of transformers calls a function that its configuration names, with queries, keys and
values of all new positions. The one registered here appends keys and values to the caches of a
`DecodeState` and attends to them, by the operator executorch_py::cached_attention. Layers whose
attention this operator has not are computed by the model's own function, with the masks of
transformers.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily

from executorch_py.exir.dialects import attention_ops

# Implementations of attention: of the operator alone, of both kinds of layers, and to find out; the
# model's own, in plain operators.
NAME, MIXED, PROBE = "executorch_py", "executorch_py_mixed", "executorch_py_probe"
OWN = "eager"
_CACHE_NAMES = ("key_cache", "value_cache", "key_scales", "key_sums", "value_scales")


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

    Without caches, attention is not computed: `layers` collects what each layer would need, and
    `left` why the operator cannot do it.
    """

    start: Any = None
    capacity: int = 0
    prefill: int = 0
    layers: dict[int, AttentionLayer] = field(default_factory=dict)
    left: dict[int, str] = field(default_factory=dict)
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
    if state.caches is not None and index not in state.layers:
        own = _own_attention(module)
        out, _ = own(module, query, key, value, attention_mask, scaling, dropout, **options)
        return out, None
    q, k, v = (x.transpose(1, 2) for x in (query, key, value))
    if state.caches is None:
        _add_layer(state, module, (q, k, v), attention_mask, scaling, options)
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


# ---- the layers


def _add_layer(
    state: DecodeState,
    module: Any,
    tensors: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    mask: Any,
    scaling: Any,
    options: dict[str, Any],
) -> None:
    """Notes how a layer attends, or why the operator cannot do that."""
    index = module.layer_idx
    if not getattr(module, "is_causal", True):
        raise UnsupportedDecoder(f"layer {index}: expected causal attention, got is_causal=False")
    q, k, v = tensors
    window, softcap = options.get("sliding_window"), options.get("softcap")
    if window is not None and int(window) < 1:
        raise UnsupportedDecoder(f"layer {index}: sliding_window: expected 1 or more, got {window}")
    reason = _reason(state, index, mask, scaling, options)
    if reason is not None:
        state.left[index] = reason
        state.layers.pop(index, None)
        return
    state.layers[index] = AttentionLayer(
        heads=k.shape[2],
        dim=k.shape[3],
        value_dim=v.shape[3],
        window=0 if window is None else int(window),
        softcap=0.0 if softcap is None else float(softcap),
        scale=q.shape[3] ** -0.5 if scaling is None else float(scaling),
    )


def _reason(
    state: DecodeState, index: int, mask: Any, scaling: Any, options: dict[str, Any]
) -> str | None:
    """Why the operator has not the attention of a layer, if so."""
    if index in state.left:
        return state.left[index]
    if index in state.layers:
        return "attends twice"
    if options.get("s_aux") is not None:
        return "has sinks (s_aux)"
    tensors = [n for n, v in options.items() if isinstance(v, torch.Tensor) and "position" not in n]
    if tensors or isinstance(scaling, torch.Tensor):
        return f"has another argument ({', '.join(tensors) or 'scaling'})"
    if isinstance(mask, _Mask):
        sees_all = _is_mask(mask, int(options.get("sliding_window") or 0))
        return None if sees_all else "has a mask that is neither causal nor a window"
    return None if mask is None else "computes its mask by itself"


@dataclass(frozen=True)
class _Mask:
    """A mask that is not computed: a function of transformers of positions."""

    function: Any


def is_about_mask(error: Exception) -> bool:
    """Whether a model failed because it needs the values of a mask."""
    return _Mask.__name__ in str(error)


def _probe_mask(*, mask_function: Any, **_: Any) -> _Mask:
    return _Mask(mask_function)


def _is_mask(mask: _Mask, window: int) -> bool:
    """Whether a query sees all keys before it, or the last `window` of them."""
    with unset_fake_temporarily():
        ends = (0, 1, 2, 7, 100, 40_000, *(window + i for i in (-2, -1, 0, 1)), 2 * window + 3)
        queries = torch.tensor(sorted({i for i in ends if i >= 0})).reshape(-1, 1)
        keys = torch.arange(int(queries.max()) + 3)
        zero = torch.tensor(0)
        try:
            seen = mask.function(zero, zero, queries, keys)
        except Exception:  # of tensors without values, or one position at a time
            return False
        distance = queries - keys
        wanted = (distance >= 0) & ((distance < window) if window else True)
        return bool((seen == wanted).all())


def _own_attention(module: Any) -> Any:
    """The function for attention that a class of transformers uses by default."""
    for kind in type(module).__mro__:
        own = getattr(sys.modules.get(kind.__module__), "eager_attention_forward", None)
        if own is not None:
            return own
    raise UnsupportedDecoder(
        f"{type(module).__name__}: expected a function eager_attention_forward beside it, got none"
    )


# ---- models


@contextmanager
def implementation(model: Any, name: str) -> Iterator[None]:
    """A model of transformers has this attention until the end of the block."""
    before = model.config._attn_implementation
    model.set_attn_implementation(name)
    try:
        yield
    finally:
        model.set_attn_implementation(before)


@contextmanager
def connected(model: Any, state: Any, name: str = NAME) -> Iterator[None]:
    """The attention of a model of transformers uses these caches until the end of the block: those
    of a DecodeState, or of what the function registered as `name` takes."""
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import eager_mask

    if getattr(model.config, "use_bidirectional_attention", None):
        raise UnsupportedDecoder("use_bidirectional_attention: expected causal attention, got True")
    for each in (NAME, MIXED, PROBE):
        AttentionInterface.register(each, attend)
    AttentionMaskInterface.register(MIXED, eager_mask)
    AttentionMaskInterface.register(PROBE, _probe_mask)
    layers = [m for m in model.modules() if getattr(m, "layer_idx", None) is not None]
    with implementation(model, name), _constant_rotary_tables(model, state.capacity):
        for module in layers:
            module.decode_state = state
        try:
            yield
        finally:
            for module in layers:
                del module.decode_state


@contextmanager
def _constant_rotary_tables(model: Any, capacity: int) -> Iterator[None]:
    """Rotary embeddings whose tables change with a text's length have one table until the end of
    the block: dynamic ones the table of short texts, which `capacity` must not exceed.

    The first call makes both tables of LongRoPE, which a graph needs as constants, and that of
    short texts.
    """
    kinds = {m: getattr(m, "rope_type", None) for m in model.modules()}
    changing = [m for m, kind in kinds.items() if kind in ("longrope", "dynamic")]
    dynamic = [m for m in changing if kinds[m] == "dynamic"]
    for module in dynamic:
        if capacity > module.original_max_seq_len:
            raise UnsupportedDecoder(
                "rope_type dynamic: expected a capacity of at most max_position_embeddings, "
                f"{module.original_max_seq_len}, as longer texts change the table, got {capacity}"
            )
    for module in changing if not torch.compiler.is_exporting() else ():
        with torch.no_grad():
            module(torch.zeros(1), torch.zeros((1, 1), dtype=torch.int64))
    for module in dynamic:
        module.rope_type = "default"
    try:
        yield
    finally:
        for module in dynamic:
            module.rope_type = "dynamic"


def new_cache(layer: AttentionLayer, kind: str, capacity: int, prefill: int) -> Cache:
    """An empty cache of a layer: `kind` as in attention_ops.cache_shapes."""
    shapes = attention_ops.cache_shapes(
        kind, 1, layer.heads, layer.slots(capacity, prefill), layer.dim, layer.value_dim
    )
    return {name: torch.zeros(shape, dtype=dtype) for name, (shape, dtype) in shapes.items()}
