"""Decoders of the Llama family beside those of transformers, from the same checkpoints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from support import decoders, llama_checkpoints
from support.llama_checkpoints import PARAMS
from support.tolerance import F32_LAYERS, assert_near

from executorch_py.extension.llm.checkpoint import CheckpointError
from executorch_py.extension.llm.model import ModelArgsError, Transformer, read_params
from executorch_py.extension.llm.model.model_args import args_of
from executorch_py.extension.llm.model.model_classes import MODEL_CLASSES, args_of_class
from executorch_py.extension.llm.model.transformer import Limits
from executorch_py.extension.llm.model.weights import load_weights, open_checkpoint

IDS = torch.tensor([[5, 17, 42, 7, 9, 200, 1, 299]])
LIMITS = Limits(16, 16, all_logits=True)
SHORT, LONG = [1.0 + 0.1 * i for i in range(6)], [2.0 + 0.3 * i for i in range(6)]
# The model of transformers, its configuration, and the params that say the same.
MODELS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "Llama": ("Llama", {}, {}),
    "Llama 3.2": (
        "Llama",
        {
            "rope_scaling": {
                **decoders.SCALED_ROPE,
                "factor": 32.0,
                "original_max_position_embeddings": 8192,
            },
            "tie_word_embeddings": True,
        },
        {"use_scaled_rope": True, "rope_scale_factor": 32},
    ),
    "Qwen 2.5": ("Qwen2", {}, {"attention_qkv_bias": True}),
    "Qwen 3": (
        "Qwen3",
        {"head_dim": 32},
        {"head_dim": 32, "use_qk_norm": True, "qk_norm_before_rope": True},
    ),
    "Phi 4 mini": (
        "Phi3",
        {
            "partial_rotary_factor": 0.75,
            "original_max_position_embeddings": 64,
            "max_position_embeddings": 512,
            "rope_scaling": {
                "rope_type": "longrope",
                "short_factor": SHORT,
                "long_factor": LONG,
                "rope_theta": 10000.0,
                "partial_rotary_factor": 0.75,
                "original_max_position_embeddings": 64,
            },
        },
        {
            "partial_rotary_factor": 0.75,
            "rope_scaling_short_factor": SHORT,
            "rope_scaling_long_factor": LONG,
            "original_max_position_embeddings": 64,
            "max_position_embeddings": 512,
        },
    ),
    "Granite": (
        "Granite",
        {
            "embedding_multiplier": 3.0,
            "residual_multiplier": 0.5,
            "attention_multiplier": 0.2,
            "logits_scaling": 4.0,
        },
        {
            "embedding_scale_factor": 3.0,
            "residual_multiplier": 0.5,
            "attention_multiplier": 0.2,
            "logits_scaling": 4.0,
        },
    ),
    "Gemma 2": (
        "Gemma2",
        {
            "head_dim": 16,
            "sliding_window": 3,
            "query_pre_attn_scalar": 16,
            "attn_logit_softcapping": 2.0,
            "final_logit_softcapping": 3.0,
            "rms_norm_eps": 1e-6,
        },
        {
            "act_fn": "gelu_approx",
            "embedding_scale_factor": 8.0,
            "rms_norm_add_unit_offset": True,
            "post_attention_norm": True,
            "post_ffn_norm": True,
            "attn_logit_softcapping": 2.0,
            "final_logit_softcapping": 3.0,
            "norm_eps": 1e-6,
            "sliding_window": 3,
            "layer_types": ["sliding_attention", "full_attention"],
        },
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_logits_are_those_of_transformers(name: str, tmp_path: Path) -> None:
    prefix, config, params = MODELS[name]
    theirs = decoders.build(prefix, config)
    theirs.save_pretrained(tmp_path)
    eps = getattr(theirs.config, "rms_norm_eps", 1e-6)
    args = args_of({**PARAMS, "use_hf_rope": True, "norm_eps": eps, **params}, name)
    model = Transformer(args, LIMITS)
    load_weights(model, open_checkpoint(tmp_path))
    with torch.no_grad():
        assert_near(model(IDS), theirs(IDS, use_cache=False).logits, F32_LAYERS)


def test_neighbours_are_pairs_in_checkpoints_of_meta(tmp_path: Path) -> None:
    found = llama_checkpoints.tensors()
    apart = dict(found)
    for i in range(PARAMS["n_layers"]):
        for name in ("wq", "wk"):
            key = f"layers.{i}.attention.{name}.weight"
            pairs = found[key].unflatten(0, (-1, 8, 2))
            apart[key] = pairs.transpose(1, 2).flatten(0, 2)
    results = []
    for tensors, params in ((found, {}), (apart, {"use_hf_rope": True})):
        torch.save(tensors, tmp_path / "weights.pth")
        model = Transformer(args_of({**PARAMS, **params}, "params"), LIMITS)
        load_weights(model, open_checkpoint(tmp_path / "weights.pth"))
        results.append(model(IDS))
    assert torch.equal(*results)


@pytest.mark.parametrize("name", MODEL_CLASSES)
def test_model_classes_have_sizes(name: str) -> None:
    args = args_of_class(name)
    assert args.vocab_size >= 32000 and args.ffn > args.dim


def test_llama_3_2_has_the_sizes_of_its_model_card() -> None:
    args = args_of_class("llama3_2")
    assert (args.ffn, args.head_size, args.n_layers) == (8192, 64, 16)
    assert args_of_class("llama3").ffn == 14336
    assert args_of_class("llama2").ffn == 11008
    assert args_of_class("stories110m").ffn == 2048


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"moe": True}, "moe: this part of a model is not supported: expected False"),
        ({"n_head": 4}, "expected a known key, got 'n_head'; n_heads is near"),
        ({"dim": "64"}, "dim: expected int, got"),
        ({"n_kv_heads": 3}, "n_kv_heads: expected a divisor of the 4 heads, got 3"),
        ({"act_fn": "relu"}, "act_fn: expected one of silu, gelu, gelu_approx, got 'relu'"),
        ({"vocab_size": 0}, "vocab_size: expected 1 or more, got 0"),
        ({"layer_types": ["conv"]}, "layer_types: expected 2 types, got 1"),
        (
            {"layer_types": ["conv", "linear_attention"]},
            "layer_types: expected each one of full_attention, sliding_attention, conv, got "
            "'linear_attention'",
        ),
        ({"layer_types": ["sliding_attention"] * 2}, "sliding_window: expected 1 or more"),
        ({"partial_rotary_factor": 1.5}, "partial_rotary_factor: expected an even number of"),
        (
            {"rope_scaling_long_factor": [1.0]},
            "rope_scaling_long_factor: expected 8 factors, got 1",
        ),
    ],
)
def test_params_that_make_no_model_are_refused(params: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelArgsError, match=message):
        args_of({**PARAMS, **params}, "params")


def test_a_file_of_params_that_is_not_one_is_refused(tmp_path: Path) -> None:
    (tmp_path / "params.json").write_text(json.dumps([1]))
    for name, message in (("params.json", "JSON object, got a list"), ("none.json", "No such")):
        with pytest.raises(ModelArgsError, match=message):
            read_params(tmp_path / name)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"norm.weight": None}, r"expected tensors \['norm.weight'\], got none of these names"),
        ({"norm.weight": torch.ones(65)}, r"'norm.weight': expected shape \[64\], got \[65\]"),
        (
            {"layers.0.attention.wq.bias": torch.ones(64)},
            r"got \['layers.0.attention.wq.bias'\]: check the keys of the params JSON",
        ),
        ({"x": 3}, r"expected tensors alone, got \['x'\]"),
    ],
)
def test_a_checkpoint_that_does_not_fit_is_refused(
    change: dict[str, Any], message: str, tmp_path: Path
) -> None:
    found = {**llama_checkpoints.tensors(), **change}
    torch.save({k: v for k, v in found.items() if v is not None}, tmp_path / "weights.pth")
    with pytest.raises(CheckpointError, match=message):
        model = Transformer(args_of(PARAMS, "params"), LIMITS)
        load_weights(model, open_checkpoint(tmp_path / "weights.pth"))


def test_a_file_that_is_no_checkpoint_is_refused(tmp_path: Path) -> None:
    (tmp_path / "weights.pth").write_bytes(b"not a checkpoint")
    with pytest.raises(
        CheckpointError, match=r"weights\.pth: expected tensors saved by torch.save"
    ):
        open_checkpoint(tmp_path / "weights.pth")
    with pytest.raises(CheckpointError, match=r"none.pth: expected a checkpoint, got no such file"):
        open_checkpoint(tmp_path / "none.pth")
