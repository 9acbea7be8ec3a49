"""Small random decoders of transformers for tests of the language-model exporter."""

from __future__ import annotations

from typing import Any

import torch
import transformers

SIZES = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 300,
    "max_position_embeddings": 512,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
SCALED_ROPE = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
# Classes of configurations that are not named as their models.
_CONFIGS = {"Gemma3": "Gemma3Text", "Llama4": "Llama4Text"}


def build(prefix: str, more: dict[str, Any]) -> Any:
    """The model `<prefix>ForCausalLM` of these sizes and what `more` adds to the configuration."""
    torch.manual_seed(0)
    config = getattr(transformers, f"{_CONFIGS.get(prefix, prefix)}Config")(**{**SIZES, **more})
    return getattr(transformers, f"{prefix}ForCausalLM")(config).eval()
