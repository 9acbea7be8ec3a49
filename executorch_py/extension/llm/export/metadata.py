"""Constant methods of a language model's program, by which a runner knows how to call it.

The names are those of upstream's runners (`get_max_seq_len` is the longest call,
`get_max_context_len` the number of positions), and three that tell how far a runner may go back:
`get_cache_kind`, and for each layer `get_cache_windows`, the keys that a query sees (0: all), and
`get_cache_slots`, the positions that its cache keeps. Programs of export_llm with sinks also have
`get_cache_sinks`, the first positions that each cache keeps beside them.
"""

from __future__ import annotations

from typing import Any

from executorch_py.extension.llm.export.hf_decoder import Decoder
from executorch_py.extension.llm.export.hf_mixed_decoder import MixedDecoder, WholeContextDecoder


def constant_methods(decoder: Decoder | MixedDecoder | WholeContextDecoder) -> dict[str, Any]:
    """Names and values; ids of tokens that a model does not have are left out.

    A decoder with a recurrent state does not say how far a runner may go back.
    """
    config = decoder.model.config
    methods: dict[str, Any] = {
        "get_max_seq_len": decoder.prefill,
        "get_max_context_len": decoder.capacity,
        "get_n_layers": decoder.n_layers,
        "get_vocab_size": int(config.vocab_size),
        "use_kv_cache": not isinstance(decoder, WholeContextDecoder),
        "use_sdpa_with_kv_cache": False,
        "enable_dynamic_shape": decoder.prefill > 1,
    }
    kept = decoder.kept_positions
    if kept is not None:
        methods |= {
            "get_cache_kind": decoder.cache,
            "get_cache_windows": [window for window, _ in kept],
            "get_cache_slots": [slots for _, slots in kept],
        }
    for name, method in (("bos_token_id", "get_bos_id"), ("eos_token_id", "get_eos_ids")):
        value = special_token(decoder.model, name)
        if isinstance(value, list) and name == "bos_token_id":
            value = value[0] if value else None
        if value is not None:
            methods[method] = value
    return methods


def with_end_of_turn(methods: dict[str, Any], token: int | None) -> dict[str, Any]:
    """The methods with the token that ends an answer among those that end a text."""
    known = methods.get("get_eos_ids", [])
    known = known if isinstance(known, list) else [known]
    if token is None or token in known:
        return methods
    return methods | {"get_eos_ids": [*known, token]}


def special_token(model: Any, name: str) -> Any:
    """An id or ids of a model of transformers for generation, else of its configuration."""
    value = getattr(getattr(model, "generation_config", None), name, None)
    return getattr(model.config, name, None) if value is None else value
