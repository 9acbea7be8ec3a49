"""Attention over caches in decoders of transformers, through its attention interface.

A decoder of transformers calls a function that its configuration names, with queries, keys and
values of all new positions. The one registered here appends keys and values to the caches of a
`DecodeState` and attends to them, by operators that the runtime has.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

NAME = "executorch_py"


class UnsupportedDecoder(ValueError):
    """A decoder that cannot be exported: the message names the part."""


@dataclass
class DecodeState:
    """The position of the first new token, and the caches of each layer during one forward."""

    start: Any = None
    caches: dict[int, tuple[torch.Tensor, torch.Tensor]] = field(default_factory=dict)


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
    for name in ("sliding_window", "softcap", "s_aux"):
        if options.get(name) is not None:
            raise UnsupportedDecoder(f"layer {module.layer_idx}: no {name} in attention yet")
    key_cache, value_cache = state.caches[module.layer_idx]
    q, k, v = (x.transpose(1, 2) for x in (query, key, value))
    out = torch.ops.llama.sdpa_with_kv_cache(
        q, k, v, key_cache, value_cache, state.start, q.shape[1], None, 0.0, True, scaling
    )
    return out, None


def register() -> None:
    """Makes `attn_implementation="executorch_py"` known to transformers."""
    from transformers import AttentionInterface

    import executorch_py.extension.llm.custom_ops.custom_ops  # noqa: F401  (registers operators)

    AttentionInterface.register(NAME, attend)
