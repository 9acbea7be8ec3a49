"""Decoders of which a part fits no operator: tokens in, logits out.

`MixedDecoder` has caches of transformers in buffers, beside those of the operator for attention
where a layer fits it. `WholeContextDecoder` has none: it reads all tokens again in each call.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import torch

from executorch_py.extension.llm.export import hf_attention
from executorch_py.extension.llm.export.hf_attention import DecodeState, UnsupportedDecoder
from executorch_py.extension.llm.export.hf_decoder import longest_call
from executorch_py.extension.llm.export.hf_parts import (
    Parts,
    cache_argument,
    position_arguments,
)

_CHECKED_CALLS = (3, 1, 4, 1, 1)  # tokens of each call
_CHECKED_ERROR = 1e-3  # of the largest logit: rounding is far below, a wrong position far above


class MixedDecoder(torch.nn.Module):
    """forward(tokens i64 [1, S], input_pos i64 [1]) -> logits, as of hf_decoder.Decoder.

    Layers that do not fit keep `capacity` positions in f32, and those with a recurrent state one
    state: a decoder with such layers reads one token in a call.
    """

    def __init__(
        self,
        model: Any,
        parts: Parts,
        capacity: int,
        *,
        prefill: int | None = None,
        cache: str = "f32",
        all_logits: bool = False,
    ) -> None:
        super().__init__()
        from executorch_py.extension.llm.export import hf_cache

        if not parts.kept:
            raise UnsupportedDecoder(f"{type(model).__name__}: expected a cache, got none")
        prefill = longest_call(capacity, prefill)
        self.has_states = any(layer.has_states for layer in parts.kept.values())
        self.model, self.parts, self.all_logits = model, parts, all_logits
        self.capacity, self.cache = capacity, cache
        self.prefill = 1 if self.has_states else prefill
        self.layers = {i: parts.layers[i] for i in parts.layers if i in parts.kept}
        self.state = DecodeState(capacity=capacity, prefill=self.prefill, layers=self.layers)
        self.fused_names: dict[int, list[str]] = {}
        self.kept_names: dict[int, list[str]] = {}
        for i, kept in parts.kept.items():
            fused = i in self.layers
            new: dict[str, torch.Tensor] = {}
            if fused:
                new = hf_attention.new_cache(self.layers[i], cache, capacity, self.prefill)
            self.fused_names[i] = list(new)
            plain = hf_cache.shapes(kept, capacity, fused=fused)
            self.kept_names[i] = list(plain)
            new |= {name: torch.zeros(shape) for name, shape in plain.items()}
            for name, tensor in new.items():
                self.register_buffer(f"{name}_{i}", tensor)
        with self._attention():
            pass  # raises for a model that cannot have it
        self.transformers_cache = hf_cache.new_cache(parts.kept, capacity)

    def _attention(self) -> AbstractContextManager[None]:
        """The attention of the model until the end of the block."""
        if self.layers or self.parts.through_interface:
            return hf_attention.connected(self.model, self.state, hf_attention.MIXED)
        return hf_attention.implementation(self.model, hf_attention.OWN)

    def buffers_of(self, names: dict[int, list[str]]) -> dict[int, dict[str, torch.Tensor]]:
        """Caches of each layer by the names that their users give them."""
        return {
            i: {name: self.get_buffer(f"{name}_{i}") for name in of_layer}
            for i, of_layer in names.items()
        }

    @property
    def n_layers(self) -> int:
        return len(self.parts.kept or {})

    @property
    def kept_positions(self) -> list[tuple[int, int]] | None:
        """For each cache, the keys that a query sees (0: all) and the positions that it keeps."""
        if self.has_states:
            return None
        found = []
        for i in self.parts.kept or {}:
            fused = self.layers.get(i)
            slots = self.capacity if fused is None else fused.slots(self.capacity, self.prefill)
            found.append((0 if fused is None else fused.window, slots))
        return found

    @property
    def cache_kinds(self) -> list[str]:
        """Types of the caches."""
        plain = ["f32"] if any(self.kept_names.values()) else []
        return sorted({*plain, *([self.cache] if self.layers else [])})

    @property
    def cache_bytes(self) -> int:
        """Bytes of all caches."""
        found = (self.buffers_of(names) for names in (self.fused_names, self.kept_names))
        return sum(
            t.nbytes for layers in found for layer in layers.values() for t in layer.values()
        )

    def forward(self, tokens: torch.Tensor, input_pos: torch.Tensor) -> torch.Tensor:
        from executorch_py.extension.llm.export import hf_cache

        start = input_pos[0].item()
        torch._check(start >= 0)
        torch._check(start + tokens.shape[1] <= self.capacity)
        positions = input_pos + torch.arange(tokens.shape[1])
        kept = self.buffers_of(self.kept_names)
        self.state.start, self.state.caches = start, self.buffers_of(self.fused_names)
        hf_cache.place(self.transformers_cache, kept, input_pos[0], positions)
        name = cache_argument(self.model)
        assert name is not None
        with self._attention():
            logits: torch.Tensor = self.model(
                input_ids=tokens,
                use_cache=True,
                **{name: self.transformers_cache},
                **position_arguments(self.model, positions, 0 if self.all_logits else 1),
            ).logits
        hf_cache.write_back(self.transformers_cache, kept)
        return logits if self.all_logits else logits[:, -1]


class WholeContextDecoder(torch.nn.Module):
    """forward(tokens i64 [1, S]) -> logits, of 1 … `capacity` tokens from position 0 on."""

    cache = "none"
    kept_positions = None

    def __init__(self, model: Any, capacity: int, *, all_logits: bool = False) -> None:
        super().__init__()
        self.model, self.all_logits = model, all_logits
        self.capacity = self.prefill = longest_call(capacity, None)
        self.n_layers = int(getattr(model.config, "num_hidden_layers", 0))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        positions = torch.arange(tokens.shape[1])
        keep = 0 if self.all_logits else 1
        with hf_attention.implementation(self.model, hf_attention.OWN):
            logits: torch.Tensor = self.model(
                input_ids=tokens, use_cache=False, **position_arguments(self.model, positions, keep)
            ).logits
        return logits if self.all_logits else logits[:, -1]


def check_calls(decoder: MixedDecoder) -> None:
    """UnsupportedDecoder if a prompt in pieces has other logits than the same prompt at once.

    Eager torch computes both. The caches are zeros after that.
    """
    calls = [1] * 7 if decoder.has_states else _CHECKED_CALLS
    total = min(sum(calls), decoder.capacity)
    ids = torch.randint(
        0, decoder.model.config.vocab_size, (1, total), generator=torch.Generator().manual_seed(0)
    )
    model = decoder.model
    with torch.no_grad():
        with hf_attention.implementation(model, hf_attention.OWN):
            wanted = model(input_ids=ids, use_cache=False).logits[0]
        at, worst = 0, 0.0
        for n in calls:
            if at + n > total:
                break
            found = decoder(ids[:, at : at + n], torch.tensor([at]))
            at += n
            row = found[0, -1] if decoder.all_logits else found[0]
            worst = max(worst, float((row - wanted[at - 1]).abs().max()))
    for buffers in (decoder.fused_names, decoder.kept_names):
        for tensors in decoder.buffers_of(buffers).values():
            for tensor in tensors.values():
                tensor.zero_()
    limit = _CHECKED_ERROR * float(wanted.abs().max())
    if not worst <= limit:
        raise UnsupportedDecoder(
            f"{type(model).__name__}: logits of a prompt in pieces: expected those of the prompt "
            f"at once within {limit:.2g}, got a difference of {worst:.2g}"
        )
