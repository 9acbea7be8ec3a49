"""A causal language model of transformers as a module with caches: tokens in, logits out."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import torch
from torch.export import ExportedProgram

from executorch_py.exir import (
    ExecutorchBackendConfig,
    ExecutorchProgramManager,
    to_edge,
)
from executorch_py.exir.passes import MemoryPlanningPass
from executorch_py.extension.llm.export import hf_attention
from executorch_py.extension.llm.export.fuse_decoder import fuse_decoder
from executorch_py.extension.llm.export.hf_attention import (
    AttentionLayer,
    DecodeState,
)
from executorch_py.extension.llm.export.hf_parts import parts_of

# Tracing needs a range of lengths, from 1 to more than the example's 2 tokens.
_LEAST_PREFILL = 4
_DATA_ALIGNMENT = 64  # of named data in the file
FORWARD, VERIFY = "forward", "verify"  # methods


class Decoder(torch.nn.Module):
    """forward(tokens i64 [1, S], input_pos i64 [1]) -> logits f32 [1, vocabulary].

    The tokens are at the positions from input_pos on; the logits are those of the last one, or of
    all, [1, S, vocabulary], with `all_logits`. Keys and values are kept in buffers from call to
    call: of `capacity` positions, or where a layer sees only a window of them, of the window and
    the longest call. A call has at most `prefill` tokens. The buffers hold f32, f16 or, with a
    scale for each position and head, i8: `cache` is the kind. `layers` is what attention_layers
    found before, if anything.
    """

    def __init__(
        self,
        model: Any,
        capacity: int,
        *,
        prefill: int | None = None,
        cache: str = "f32",
        all_logits: bool = False,
        layers: dict[int, AttentionLayer] | None = None,
    ) -> None:
        super().__init__()
        prefill = longest_call(capacity, prefill)
        self.model, self.all_logits = model, all_logits
        self.capacity, self.prefill, self.cache = capacity, prefill, cache
        self.layers = attention_layers(model) if layers is None else layers
        self.state = DecodeState(capacity=capacity, prefill=prefill, layers=self.layers)
        self.cache_names: dict[int, list[str]] = {}
        for i, layer in self.layers.items():
            tensors = hf_attention.new_cache(layer, cache, capacity, prefill)
            self.cache_names[i] = list(tensors)
            for name, tensor in tensors.items():
                self.register_buffer(f"{name}_{i}", tensor)
        with hf_attention.connected(model, self.state):
            pass  # raises for a model that cannot be

    @property
    def n_layers(self) -> int:
        return len(self.layers)

    @property
    def kept_positions(self) -> list[tuple[int, int]] | None:
        """For each cache, the keys that a query sees (0: all) and the positions that it keeps."""
        layers = self.layers.values()
        return [(layer.window, layer.slots(self.capacity, self.prefill)) for layer in layers]

    @property
    def cache_bytes(self) -> int:
        """Bytes of all caches."""
        names = [f"{name}_{i}" for i, names in self.cache_names.items() for name in names]
        return sum(self.get_buffer(name).nbytes for name in names)

    def forward(self, tokens: torch.Tensor, input_pos: torch.Tensor) -> torch.Tensor:
        start = input_pos[0].item()
        torch._check(start >= 0)
        torch._check(start + tokens.shape[1] <= self.capacity)
        self.state.start = start
        self.state.caches = {
            i: {name: getattr(self, f"{name}_{i}") for name in names}
            for i, names in self.cache_names.items()
        }
        positions = (input_pos + torch.arange(tokens.shape[1])).unsqueeze(0)
        keep = 0 if self.all_logits else 1
        with hf_attention.connected(self.model, self.state):
            logits: torch.Tensor = self.model(
                input_ids=tokens, position_ids=positions, use_cache=False, logits_to_keep=keep
            ).logits
        return logits if self.all_logits else logits[:, -1]


def longest_call(capacity: int, prefill: int | None) -> int:
    """Tokens of the longest call: as asked, at most all positions."""
    prefill = capacity if prefill is None else min(prefill, capacity)
    if prefill < _LEAST_PREFILL:
        name = "capacity" if prefill == capacity else "prefill"
        raise ValueError(f"{name}: expected {_LEAST_PREFILL} or more, got {prefill}")
    return prefill


def attention_layers(model: Any) -> dict[int, AttentionLayer]:
    """How each layer of a decoder attends, from one forward without values.

    UnsupportedDecoder if the operator for attention cannot do that.
    """
    parts = parts_of(model)
    parts.require_fit()
    return parts.layers


def capture(decoder: Any) -> ExportedProgram:
    """The fused graph of a decoder, here or in hf_mixed_decoder, for 1 … `decoder.prefill` new
    tokens."""
    n = min(2, decoder.prefill)
    length = torch.export.Dim("length", max=decoder.prefill) if n > 1 else None
    names = list(inspect.signature(decoder.forward).parameters)
    example = (torch.zeros(1, n, dtype=torch.int64), torch.zeros(1, dtype=torch.int64))
    shapes = {"tokens": {1: length} if length else None, "input_pos": None}
    with torch.no_grad():
        exported = torch.export.export(
            decoder,
            example[: len(names)],
            dynamic_shapes={name: shapes[name] for name in names},
            strict=False,
        )
    fuse_decoder(exported.graph_module)
    return exported


def capture_verify(decoder: Decoder, longest: int) -> ExportedProgram:
    """As `capture`, with the logits after each of 1 … `longest` tokens, over the same caches."""
    usual = decoder.prefill, decoder.all_logits
    decoder.prefill, decoder.all_logits = longest_call(decoder.prefill, longest), True
    try:
        return capture(decoder)
    finally:
        decoder.prefill, decoder.all_logits = usual


def export_decoder(
    decoder: Any, constant_methods: dict[str, Any] | None = None
) -> ExecutorchProgramManager:
    """The program of a decoder for this project's runtime, for 1 … `decoder.prefill` new tokens.

    The caches have names in it, by which their contents can be saved.
    """
    return program_of({FORWARD: capture(decoder)}, constant_methods)


def program_of(
    methods: Mapping[str, ExportedProgram],
    constant_methods: dict[str, Any] | None = None,
    named_data: Mapping[str, bytes] | None = None,
) -> ExecutorchProgramManager:
    """The program of a captured decoder's methods, which share their caches, with named data for
    its callers."""
    edge = to_edge(dict(methods), constant_methods=constant_methods)
    for key, data in (named_data or {}).items():
        edge._named_data_store.add_named_data(key, data, alignment=_DATA_ALIGNMENT)
    return edge.to_executorch(
        ExecutorchBackendConfig(
            own_operators=True,
            emit_mutable_buffer_names=True,
            memory_planning_pass=MemoryPlanningPass(share_mutable_buffers=len(methods) > 1),
        )
    )
