"""The layers of a decoder of transformers: which ones fit the operator for attention, and what the
others keep from call to call.

All of this is found by forwards without values, before any weight is read.
"""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from executorch_py.extension.llm.export import hf_attention
from executorch_py.extension.llm.export.hf_attention import (
    AttentionLayer,
    DecodeState,
    UnsupportedDecoder,
)

# Names of the argument for a cache, of several versions of transformers.
_CACHE_ARGUMENTS = ("cache", "past_key_values")
_PROBE_TOKENS = 4
STATE = "has a recurrent state"
_WHOLE = "passes no attention to the attention interface of transformers"


@dataclass(frozen=True)
class KeptLayer:
    """Tensors that a layer of transformers' cache keeps: f32 [1, heads, positions, size] for keys
    and values of attention, and states of a fixed shape."""

    heads: int = 0
    dim: int = 0
    value_dim: int = 0
    conv: dict[int, tuple[int, ...]] = field(default_factory=dict)
    recurrent: dict[int, tuple[int, ...]] = field(default_factory=dict)

    @property
    def has_states(self) -> bool:
        return bool(self.conv or self.recurrent)


@dataclass(frozen=True)
class Parts:
    """The layers of a decoder by index."""

    layers: dict[int, AttentionLayer]  # whose attention the operator has
    left: dict[int, str]  # all others that keep something: why
    kept: dict[int, KeptLayer] | None  # in a cache of transformers; None: there is no cache
    owners: dict[int, list[str]]  # classes of the modules
    reason: str | None = None  # why the model as a whole does not fit

    @property
    def through_interface(self) -> bool:
        """Whether some attention is computed by transformers' attention interface."""
        return bool(self.layers or set(self.left.values()) - {_WHOLE}) and self.reason is None

    @property
    def fit(self) -> bool:
        """Whether the operator is enough."""
        return bool(self.layers) and not self.left and self.reason is None

    def require_fit(self) -> None:
        """UnsupportedDecoder with the first part that does not fit."""
        if not self.fit:
            line = next(iter(self.lines()), "a part does not fit")
            raise UnsupportedDecoder(line)

    def lines(self) -> list[str]:
        """The layers that do not fit, those of one kind in one line."""
        groups: dict[tuple[str, str], list[int]] = {}
        for index, reason in sorted(self.left.items()):
            kind = self._owner(index, reason)
            groups.setdefault((kind, reason), []).append(index)
        lines = [f"{layer_numbers(found)}{kind} {why}" for (kind, why), found in groups.items()]
        return lines if self.reason is None else [self.reason, *lines]

    def _owner(self, index: int, reason: str) -> str:
        """The class that a reason is about, in parentheses."""
        names = self.owners.get(index, [])
        if reason == STATE:
            names = [name for name in names if "Attention" not in name]
        return f" ({names[-1]})" if names else ""


def arguments_of(model: Any) -> set[str]:
    """Names of the arguments of a model's forward."""
    return set(inspect.signature(model.forward).parameters)


def cache_argument(model: Any) -> str | None:
    return next((name for name in _CACHE_ARGUMENTS if name in arguments_of(model)), None)


def parts_of(model: Any) -> Parts:
    """The layers of a model of transformers."""
    state = DecodeState()
    with hf_attention.connected(model, state, hf_attention.PROBE):
        return _parts_of(model, state)


def _parts_of(model: Any, state: DecodeState) -> Parts:
    kept, failure = None, None
    try:
        kept = _run_with_cache(model)
    except UnsupportedDecoder:
        raise
    except Exception as error:
        failure = f"{type(model).__name__} {_failure(error)}"
        if _fits_without_cache(model, state):
            return Parts(state.layers, {}, None, _owners(model))
        state.layers.clear()
        state.left.clear()
        model.set_attn_implementation(hf_attention.OWN)
        with suppress(Exception):
            kept = _run_with_cache(model)
    owners = _owners(model)
    layers = {i: layer for i, layer in state.layers.items() if kept is None or i in kept}
    left = {i: reason for i, reason in state.left.items() if kept is None or i in kept}
    if failure is None:
        for i in set(owners if kept is None else kept) - set(layers):
            left.setdefault(i, _WHOLE)
    for i, layer in (kept or {}).items():
        if layer.has_states:
            left[i] = STATE
    if failure is None:
        failure = _reason(model, layers, left, kept)
    return Parts(layers, left, kept, owners, failure)


def _fits_without_cache(model: Any, state: DecodeState) -> bool:
    """Whether all attention of a model fits, in a forward without a cache."""
    state.layers.clear()
    state.left.clear()
    try:
        run_without_values(model)
    except Exception:
        return False
    fits = not state.left and bool(state.layers) and set(state.layers) == set(_owners(model))
    return fits and "position_ids" in arguments_of(model)


def _reason(model: Any, layers: Any, left: Any, kept: Any) -> str | None:
    """Why a model as a whole does not fit, if its layers do."""
    name = type(model).__name__
    if kept is None and not left:
        return f"{name} does not use the caches of transformers"
    if not left and "position_ids" not in arguments_of(model):
        return f"{name} has no argument for positions"
    n_layers = int(getattr(model.config, "num_hidden_layers", 0))
    if not left and (set(_owners(model)) - set(layers) or len(layers) < n_layers):
        return f"{name} has layers that use no cache"
    return None


def _failure(error: Exception) -> str:
    if hf_attention.is_about_mask(error):
        return "computes masks by itself"
    return f"has attention that cannot be traced ({first_line(error)})"


def _owners(model: Any) -> dict[int, list[str]]:
    """Class names of the modules of each layer, from the outer ones on."""
    found: dict[int, list[str]] = {}
    for module in model.modules():
        index = getattr(module, "layer_idx", None)
        if isinstance(index, int) and index >= 0:
            found.setdefault(index, []).append(type(module).__name__)
    return found


def _run_with_cache(model: Any) -> dict[int, KeptLayer] | None:
    """The layers of transformers' cache after a forward without values; None for no layers."""
    from transformers import DynamicCache

    name = cache_argument(model)
    if name is None:
        run_without_values(model)
        return None
    cache = DynamicCache(config=model.config)
    run_without_values(model, **{name: cache, "use_cache": True})
    kept = {i: _kept_layer(layer) for i, layer in enumerate(cache.layers)}
    return {i: layer for i, layer in kept.items() if layer is not None} or None


def _kept_layer(layer: Any) -> KeptLayer | None:
    """The tensors that a layer of a cache keeps; None for none."""
    shapes = [
        {i: tuple(t.shape) for i, t in getattr(layer, name, {}).items() if t is not None}
        for name in ("conv_states", "recurrent_states")
    ]
    keys: Any = getattr(layer, "keys", None)
    values: Any = getattr(layer, "values", None)
    if getattr(layer, "indexer_keys", None) is not None:
        raise UnsupportedDecoder("a cache with an index of keys")
    if keys is None and not any(shapes):
        return None
    sizes = (0, 0, 0) if keys is None else (keys.shape[1], keys.shape[-1], values.shape[-1])
    return KeptLayer(*sizes, *shapes)


def run_without_values(model: Any, **more: Any) -> None:
    """A forward of tensors without values. Attributes that it leaves in modules are taken back."""
    known = {"use_cache": False, **more}
    tokens = torch.zeros((1, _PROBE_TOKENS), dtype=torch.int64)
    if known["use_cache"] is False and "attention_mask" in arguments_of(model):
        # Without one, transformers looks at values of positions.
        known["attention_mask"] = torch.ones_like(tokens)
    if hasattr(model, "set_experts_implementation") and _has_experts(model):
        model.set_experts_implementation("batched_mm")
    with _restored(model), torch.no_grad(), FakeTensorMode(allow_non_fake_inputs=True):
        positions = position_arguments(model, torch.arange(_PROBE_TOKENS), 1)
        model(input_ids=tokens, **positions, **known)


def unused_layers(model: Any) -> dict[str, str]:
    """Linear layers that no forward calls, by name with the reason: their weight is used alone."""
    called = set[torch.nn.Module]()
    linear = {n: m for n, m in model.named_modules() if isinstance(m, torch.nn.Linear)}
    hooks = [m.register_forward_pre_hook(lambda m, _: called.add(m)) for m in linear.values()]
    try:
        model.set_attn_implementation(hf_attention.OWN)
        run_without_values(model)
    except Exception:  # a model that is refused later
        return {}
    finally:
        for hook in hooks:
            hook.remove()
    return {n: "its weight is used alone" for n, m in linear.items() if m not in called}


def position_arguments(model: Any, positions: torch.Tensor, keep: int) -> dict[str, Any]:
    """Arguments that a model's forward has: positions, and how many logits are wanted (0: all)."""
    all_known = {
        "position_ids": positions.unsqueeze(0),
        "cache_position": positions,
        "logits_to_keep": keep,
    }
    names = arguments_of(model)
    return {name: value for name, value in all_known.items() if name in names}


def _has_experts(model: Any) -> bool:
    from executorch_py.extension.llm.export.hf_layers import is_experts

    return any(is_experts(module) for module in model.modules())


@contextmanager
def _restored(model: torch.nn.Module) -> Iterator[None]:
    """Attributes that a forward sets, such as tables of rotary frequencies, are taken back."""
    before = [(module, dict(vars(module)), dict(module._buffers)) for module in model.modules()]
    try:
        yield
    finally:
        for module, attributes, buffers in before:
            vars(module).clear()
            vars(module).update(attributes)
            module._buffers.clear()
            module._buffers.update(buffers)


def first_line(error: BaseException) -> str:
    """The first line of an error's message, and its type."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:160]}" if lines else type(error).__name__


def layer_numbers(indices: Collection[int]) -> str:
    """Layer numbers; runs of them are shortened."""
    runs: list[list[int]] = []
    for i in sorted(indices):
        if runs and i == runs[-1][-1] + 1:
            runs[-1] = [runs[-1][0], i]
        else:
            runs.append([i, i])
    shown = ", ".join(f"{a}" if a == b else f"{a}-{b}" for a, b in runs)
    return f"layer{'s' if len(indices) > 1 else ''} {shown}"
