"""Small random LFM2 models: transformers' own, and the files that export_llm reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from support import decoders
from support.llama_checkpoints import PARAMS as LLAMA_PARAMS

# A convolution is last, as in the models that there are.
TYPES = ["conv", "full_attention", "full_attention", "conv"]
PARAMS: dict[str, Any] = {
    **LLAMA_PARAMS,
    "n_layers": len(TYPES),
    "rope_theta": 1e6,
    "use_hf_rope": True,
    "use_qk_norm": True,
    "qk_norm_before_rope": True,
    "layer_types": TYPES,
}


def build() -> Any:
    """The model of transformers, in eager torch; weights of norms differ from 1."""
    sizes = {"num_hidden_layers": len(TYPES), "layer_types": TYPES}
    model = decoders.build("Lfm2", {**sizes, "block_auto_adjust_ff_dim": False})
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name:
                parameter.uniform_(0.5, 1.5)
    return model


def write(folder: Path, params: dict[str, Any] = PARAMS) -> list[str]:
    """Writes params and transformers' checkpoint; the texts that tell a command of their places."""
    build().save_pretrained(folder)
    (folder / "params.json").write_text(json.dumps(params))
    return [f"base.params={folder / 'params.json'}", f"base.checkpoint={folder}"]


def converted(model: Any) -> dict[str, torch.Tensor]:
    """The model's tensors by the names of upstream's converted checkpoints."""
    names = {
        "model.embed_tokens.": "tok_embeddings.",
        "model.embedding_norm.": "norm.",
        "model.layers.": "layers.",
        "self_attn.q_proj": "attention.wq",
        "self_attn.k_proj": "attention.wk",
        "self_attn.v_proj": "attention.wv",
        "self_attn.out_proj": "attention.wo",
        "self_attn.q_layernorm": "attention.q_norm_fn",
        "self_attn.k_layernorm": "attention.k_norm_fn",
        "operator_norm": "attention_norm",
        "lm_head.": "output.",
    }
    found = {}
    for name, tensor in model.state_dict().items():
        for theirs, own in names.items():
            name = name.replace(theirs, own)
        if name.endswith("conv.in_proj.weight"):
            for part, rows in zip("BCx", tensor.chunk(3), strict=True):
                found[name.replace("in_proj", f"{part}_proj")] = rows.clone()
        else:
            found[name] = tensor
    return found
