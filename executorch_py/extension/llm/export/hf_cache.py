"""A cache of transformers whose tensors are those of the module that runs.

Layers keep all positions, whatever window they have: masks hide the others. Importing this
module imports transformers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import torch
from transformers import Cache
from transformers.cache_utils import DummyLayer, LinearAttentionLayer, StaticLayer

from executorch_py.extension.llm.export.hf_parts import KeptLayer

Tensors = Mapping[str, torch.Tensor]  # of one layer, by names as of `shapes`


def shapes(layer: KeptLayer, capacity: int, *, fused: bool) -> dict[str, tuple[int, ...]]:
    """Names and shapes of the tensors that a layer keeps; with `fused`, an operator keeps keys and
    values."""
    found: dict[str, tuple[int, ...]] = {}
    if layer.heads and not fused:
        found["keys"] = (1, layer.heads, capacity, layer.dim)
        found["values"] = (1, layer.heads, capacity, layer.value_dim)
    for kind, states in (("conv", layer.conv), ("recurrent", layer.recurrent)):
        found |= {f"{kind}_{i}": shape for i, shape in states.items()}
    return found


class _Positions(StaticLayer):
    """Keys and values of all positions; without tensors, those that an operator keeps."""

    def place(self, tensors: Tensors, start: torch.Tensor, positions: torch.Tensor) -> None:
        """The tensors of a call, and its positions."""
        self.keys, self.values = tensors.get("keys"), tensors.get("values")
        self.cumulative_length, self.positions = start, positions
        self.is_initialized = True
        self.device, self.dtype = positions.device, torch.float32

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        if self.keys is None or self.values is None:
            return key_states, value_states
        self.keys.index_copy_(2, self.positions, key_states)
        self.values.index_copy_(2, self.positions, value_states)
        return self.keys, self.values


class _States(LinearAttentionLayer):
    """States of a fixed shape, which are zero before the first position."""

    def place_states(self, tensors: Tensors, start: torch.Tensor) -> None:
        self.device, self.dtype = start.device, torch.float32
        for name, tensor in tensors.items():
            kind, _, i = name.partition("_")
            if kind in ("conv", "recurrent"):
                state = torch.where(start == 0, torch.zeros(()), tensor)
                getattr(self, f"{kind}_states")[int(i)] = state
                getattr(self, f"is_{kind}_states_initialized")[int(i)] = True
                self.has_previous_state[int(i)] = True
                if kind == "conv":
                    self.conv_kernel_size[int(i)] = tensor.shape[-1]

    def write_back(self, tensors: Tensors) -> None:
        """Makes the new states those of the module."""
        for name, tensor in tensors.items():
            kind, _, i = name.partition("_")
            if kind in ("conv", "recurrent"):
                tensor.copy_(getattr(self, f"{kind}_states")[int(i)])


class _Both(_States, _Positions):
    """Attention and a state in one layer."""

    is_compileable = True

    def __init__(self, max_cache_len: int, number_of_states: int) -> None:
        positions, states = cast(Any, _Positions), cast(Any, _States)
        positions.__init__(self, max_cache_len)
        states.__init__(self, number_of_states=number_of_states)

    def lazy_initialization(self, *args: Any, **kwargs: Any) -> None:
        raise RuntimeError("a cache without tensors; place() gives them before the first use")


def new_cache(kept: Mapping[int, KeptLayer], capacity: int) -> Cache:
    """A cache of these layers; all others keep nothing."""
    layers: list[Any] = []
    for i in range(max(kept) + 1):
        layer = kept.get(i)
        if layer is None:
            layers.append(DummyLayer())
            continue
        n_states = 1 + max((*layer.conv, *layer.recurrent), default=0)
        if layer.has_states and layer.heads:
            layers.append(_Both(capacity, n_states))
        elif layer.has_states:
            layers.append(_States(number_of_states=n_states))
        else:
            layers.append(_Positions(max_cache_len=capacity))
    return Cache(layers=layers)


def place(
    cache: Cache, tensors: Mapping[int, Tensors], start: torch.Tensor, positions: torch.Tensor
) -> None:
    """Gives the layers of a cache the tensors and positions of a call."""
    for i, layer in enumerate(cache.layers):
        if isinstance(layer, _Positions):
            layer.place(tensors[i], start, positions)
        if isinstance(layer, _States):
            layer.place_states(tensors[i], start)


def write_back(cache: Cache, tensors: Mapping[int, Tensors]) -> None:
    """Keeps the states that a call has left."""
    for i, layer in enumerate(cache.layers):
        if isinstance(layer, _States):
            layer.write_back(tensors[i])
