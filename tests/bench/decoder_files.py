"""Decoders with random weights for bench_decoders.py, in the files that each side reads.

A shape is a configuration of transformers. Its weights are bf16 in a folder with safetensors, which
this project exports; the same with Meta's names in a .pth file, which upstream exports; and random
Q4_0 codes of the same sizes in a GGUF file for llama.cpp.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

_LLAMA3_SCALING = {
    "rope_type": "llama3",
    "factor": 32.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
    "rope_theta": 5e5,
}
# Name -> model type of transformers, and its configuration. All have one table for the embedding
# and the last layer.
SHAPES: dict[str, tuple[str, dict[str, Any]]] = {
    "Llama 3.2 1B": (
        "llama",
        {
            "vocab_size": 128256,
            "hidden_size": 2048,
            "intermediate_size": 8192,
            "num_hidden_layers": 16,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "head_dim": 64,
            "rope_parameters": _LLAMA3_SCALING,
        },
    ),
    "Qwen3 0.6B": (
        "qwen3",
        {
            "vocab_size": 151936,
            "hidden_size": 1024,
            "intermediate_size": 3072,
            "num_hidden_layers": 28,
            "num_attention_heads": 16,
            "num_key_value_heads": 8,
            "head_dim": 128,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1e6},
        },
    ),
}
# The same layers, four of them, over a smaller vocabulary.
SMALL = {"num_hidden_layers": 4, "vocab_size": 32000}
_NORM_EPS = 1e-6


def sizes_of(name: str, small: bool) -> tuple[str, dict[str, Any]]:
    kind, sizes = SHAPES[name]
    common = {"tie_word_embeddings": True, "max_position_embeddings": 131072}
    return kind, {**sizes, **common, "rms_norm_eps": _NORM_EPS, **(SMALL if small else {})}


def matrix_weights(name: str, small: bool) -> tuple[int, int]:
    """Weights of all matrices, of the table once; and those of the layers alone."""
    sizes = [rows * terms for _, rows, terms in _matrices(sizes_of(name, small)[1])]
    return sum(sizes), sum(sizes[1:])


def _matrices(sizes: dict[str, Any]) -> list[tuple[str, int, int]]:
    """Name in GGUF, rows, terms."""
    dim, ffn, head = sizes["hidden_size"], sizes["intermediate_size"], sizes["head_dim"]
    heads, kv = sizes["num_attention_heads"], sizes["num_key_value_heads"]
    layer = [
        ("attn_q", heads * head, dim),
        ("attn_k", kv * head, dim),
        ("attn_v", kv * head, dim),
        ("attn_output", dim, heads * head),
        ("ffn_gate", ffn, dim),
        ("ffn_up", ffn, dim),
        ("ffn_down", dim, ffn),
    ]
    found = [("token_embd.weight", sizes["vocab_size"], dim)]
    for i in range(sizes["num_hidden_layers"]):
        found += [(f"blk.{i}.{part}.weight", rows, terms) for part, rows, terms in layer]
    return found


def write_folder(name: str, small: bool, folder: Path) -> None:
    """config.json and safetensors, as transformers saves them."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    kind, sizes = sizes_of(name, small)
    torch.manual_seed(0)
    config = AutoConfig.for_model(kind, **sizes)
    AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).save_pretrained(folder)


_META_PARTS = {
    "self_attn.q_proj": "attention.wq",
    "self_attn.k_proj": "attention.wk",
    "self_attn.v_proj": "attention.wv",
    "self_attn.o_proj": "attention.wo",
    "self_attn.q_norm": "attention.q_norm_fn",
    "self_attn.k_norm": "attention.k_norm_fn",
    "mlp.gate_proj": "feed_forward.w1",
    "mlp.down_proj": "feed_forward.w2",
    "mlp.up_proj": "feed_forward.w3",
    "input_layernorm": "attention_norm",
    "post_attention_layernorm": "ffn_norm",
    "model.layers.": "layers.",
    "model.embed_tokens": "tok_embeddings",
    "model.norm": "norm",
}


def write_meta(name: str, small: bool, folder: Path, out: Path) -> list[str]:
    """params.json and weights.pth of a folder's weights; their settings of export_llm."""
    import torch
    from safetensors.torch import load_file

    kind, sizes = sizes_of(name, small)
    weights = {}
    for file in sorted(folder.glob("*.safetensors")):
        for key, tensor in load_file(file).items():
            for old, new in _META_PARTS.items():
                key = key.replace(old, new)
            weights[key] = tensor
    weights["output.weight"] = weights["tok_embeddings.weight"]
    out.mkdir(exist_ok=True)
    torch.save(weights, out / "weights.pth")
    params = {
        "dim": sizes["hidden_size"],
        "n_layers": sizes["num_hidden_layers"],
        "n_heads": sizes["num_attention_heads"],
        "n_kv_heads": sizes["num_key_value_heads"],
        "head_dim": sizes["head_dim"],
        "hidden_dim": sizes["intermediate_size"],
        "vocab_size": sizes["vocab_size"],
        "norm_eps": _NORM_EPS,
        "rope_theta": sizes["rope_parameters"]["rope_theta"],
        "use_scaled_rope": kind == "llama",
        "rope_scale_factor": 32,
        "use_hf_rope": kind != "llama",
        "use_qk_norm": kind == "qwen3",
        "qk_norm_before_rope": True,
    }
    (out / "params.json").write_text(json.dumps(params))
    model = "llama3_2" if kind == "llama" else "qwen3_0_6b"
    return [
        f"base.model_class={model}",
        f"base.params={out}/params.json",
        f"base.checkpoint={out}/weights.pth",
    ]


def write_gguf(
    kind: str, sizes: dict[str, Any], path: Path, chat_template: str | None = None
) -> None:
    """Random Q4_0 codes, of which a scale of 0.004 makes values like those of a folder.

    With a chat template the file has a vocabulary, too: bytes and special tokens.
    """
    import gguf

    random = np.random.default_rng(0)
    writer = gguf.GGUFWriter(path, kind)
    writer.add_block_count(sizes["num_hidden_layers"])
    writer.add_context_length(sizes["max_position_embeddings"])
    writer.add_embedding_length(sizes["hidden_size"])
    writer.add_feed_forward_length(sizes["intermediate_size"])
    writer.add_head_count(sizes["num_attention_heads"])
    writer.add_head_count_kv(sizes["num_key_value_heads"])
    writer.add_key_length(sizes["head_dim"])
    writer.add_value_length(sizes["head_dim"])
    writer.add_rope_dimension_count(sizes["head_dim"])
    writer.add_rope_freq_base(sizes["rope_parameters"]["rope_theta"])
    writer.add_layer_norm_rms_eps(_NORM_EPS)
    writer.add_vocab_size(sizes["vocab_size"])
    if chat_template is None:
        writer.add_tokenizer_model("no_vocab")
    else:
        _add_bytes(writer, sizes["vocab_size"])
        writer.add_chat_template(chat_template)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q4_0)
    for matrix, rows, terms in _matrices(sizes):
        blocks = random.integers(0, 256, (rows, terms // 32, 18), np.uint8)
        blocks[..., :2] = np.frombuffer(np.float16(0.004).tobytes(), np.uint8)
        blocks = blocks.reshape(rows, terms // 32 * 18)
        writer.add_tensor(matrix, blocks, raw_dtype=gguf.GGMLQuantizationType.Q4_0)
    for norm, size in _norms(kind, sizes):
        writer.add_tensor(norm, np.ones(size, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add_bytes(writer: Any, n: int) -> None:
    """A vocabulary of n tokens: bytes, the tokens of ChatML, and others."""
    import gguf
    from tokenizers.pre_tokenizers import ByteLevel

    letters = sorted(ByteLevel.alphabet())
    letters.append("th")
    special = ["<|im_start|>", "<|im_end|>"]
    special += [f"<|{i}|>" for i in range(n - len(letters) - len(special))]
    normal, control = int(gguf.TokenType.NORMAL), int(gguf.TokenType.CONTROL)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list([*letters, *special])
    writer.add_token_types([normal] * len(letters) + [control] * len(special))
    writer.add_token_merges(["t h"])


def _norms(kind: str, sizes: dict[str, Any]) -> list[tuple[str, int]]:
    dim, head = sizes["hidden_size"], sizes["head_dim"]
    layer = [("attn_norm", dim), ("ffn_norm", dim)]
    if kind == "qwen3":
        layer += [("attn_q_norm", head), ("attn_k_norm", head)]
    found = [("output_norm.weight", dim)]
    for i in range(sizes["num_hidden_layers"]):
        found += [(f"blk.{i}.{part}.weight", size) for part, size in layer]
    return found
