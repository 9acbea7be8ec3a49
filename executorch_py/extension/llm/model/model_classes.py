"""Sizes of well-known models, by the names of export_llm's base.model_class."""

from __future__ import annotations

from typing import Any

from executorch_py.extension.llm.model.model_args import ModelArgs, ModelArgsError, args_of

_LLAMA_3: dict[str, Any] = {
    "dim": 4096,
    "n_layers": 32,
    "n_heads": 32,
    "n_kv_heads": 8,
    "ffn_dim_multiplier": 1.3,
    "multiple_of": 1024,
    "vocab_size": 128256,
    "rope_theta": 500000.0,
}
_QWEN_2_5: dict[str, Any] = {
    "n_kv_heads": 2,
    "vocab_size": 151936,
    "norm_eps": 1e-6,
    "rope_theta": 1e6,
    "use_hf_rope": True,
    "attention_qkv_bias": True,
}
_QWEN_3: dict[str, Any] = {
    "n_kv_heads": 8,
    "head_dim": 128,
    "vocab_size": 151936,
    "norm_eps": 1e-6,
    "rope_theta": 1e6,
    "use_hf_rope": True,
    "use_qk_norm": True,
    "qk_norm_before_rope": True,
}
_LFM_2: dict[str, Any] = {
    "n_kv_heads": 8,
    "vocab_size": 65536,
    "rope_theta": 1e6,
    "use_hf_rope": True,
    "use_qk_norm": True,
    "qk_norm_before_rope": True,
    "layer_types": ["full_attention" if i in (2, 5, 8, 10, 12, 14) else "conv" for i in range(16)],
}
_PHI_4_PAIRS = 48  # rotated pairs of a head


def _sizes(family: dict[str, Any], *sizes: int) -> dict[str, Any]:
    """A member of a family: layers, dim, heads and width of the feed-forward layers."""
    names = ("n_layers", "dim", "n_heads", "hidden_dim")
    return {**family, **dict(zip(names, sizes, strict=True))}


MODEL_CLASSES: dict[str, dict[str, Any]] = {
    "stories110m": {
        "dim": 768,
        "n_layers": 12,
        "n_heads": 12,
        "vocab_size": 32000,
        "multiple_of": 32,
    },
    "llama2": {"dim": 4096, "n_layers": 32, "n_heads": 32, "vocab_size": 32000},
    "llama3": _LLAMA_3,
    "llama3_1": {**_LLAMA_3, "use_scaled_rope": True},
    "llama3_2": {
        **_LLAMA_3,
        "dim": 2048,
        "n_layers": 16,
        "ffn_dim_multiplier": 1.5,
        "multiple_of": 256,
        "use_scaled_rope": True,
        "rope_scale_factor": 32,
    },
    "qwen2_5_0_5b": _sizes(_QWEN_2_5, 24, 896, 14, 4864),
    "qwen2_5_1_5b": _sizes(_QWEN_2_5, 28, 1536, 12, 8960),
    "qwen2_5_coder_32b": _sizes(
        {**_QWEN_2_5, "n_kv_heads": 8, "vocab_size": 152064}, 64, 5120, 40, 27648
    ),
    "qwen3_0_6b": _sizes(_QWEN_3, 28, 1024, 16, 3072),
    "qwen3_1_7b": _sizes(_QWEN_3, 28, 2048, 16, 6144),
    "qwen3_4b": _sizes(_QWEN_3, 36, 2560, 32, 9728),
    "phi_4_mini": {
        "dim": 3072,
        "n_layers": 32,
        "n_heads": 24,
        "n_kv_heads": 8,
        "head_dim": 128,
        "hidden_dim": 8192,
        "vocab_size": 200064,
        "rope_theta": 10000.0,
        "use_hf_rope": True,
        "partial_rotary_factor": 0.75,
        "rope_scaling_short_factor": [1.0] * _PHI_4_PAIRS,
        "original_max_position_embeddings": 4096,
        "max_position_embeddings": 131072,
    },
    "smollm2": {
        "dim": 576,
        "n_layers": 30,
        "n_heads": 9,
        "n_kv_heads": 3,
        "hidden_dim": 1536,
        "vocab_size": 49152,
        "rope_theta": 100000.0,
        "use_hf_rope": True,
    },
    "lfm2_350m": _sizes(_LFM_2, 16, 1024, 16, 4608),
    "lfm2_700m": _sizes(_LFM_2, 16, 1536, 24, 6912),
    "lfm2_1_2b": _sizes(_LFM_2, 16, 2048, 32, 8192),
    "lfm2_5_350m": _sizes(_LFM_2, 16, 1024, 16, 4608),
    "lfm2_5_1_2b": _sizes(_LFM_2, 16, 2048, 32, 8192),
}


def args_of_class(name: str) -> ModelArgs:
    """The sizes of a model class; ModelArgsError for one that is not here."""
    if name not in MODEL_CLASSES:
        raise ModelArgsError(
            f"base.model_class: expected one of {', '.join(MODEL_CLASSES)}, got {name}, whose "
            "parts are not supported"
        )
    return args_of(MODEL_CLASSES[name], name)
