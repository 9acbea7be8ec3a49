"""A decoder from a GGUF file: its configuration, and its tensors under transformers' names.

Files name sizes by `<architecture>.<key>` and tensors by `blk.<layer>.<part>`; the tables below are
the other names of the same numbers. Some things are stored in another way than in transformers:

    llama            rows of queries and keys alternate between the halves of a head, as rotary
                     embeddings of neighbours need them
    gemma2, gemma3   the weights of norms are stored plus 1
    rope_freqs       a divisor of each rotary frequency (Llama 3.1 and later)
    rope_factors_*   divisors for contexts within the original length, and for longer ones (phi3)
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from executorch_py.extension.llm.checkpoint import Checkpoint, CheckpointError
from executorch_py.extension.llm.checkpoint.gguf import Gguf, Packed
from executorch_py.extension.llm.checkpoint.gguf_codes import has_codes
from executorch_py.terminal_text import quoted

# Architecture of a file -> model type of transformers.
_TYPES = {
    "llama": "llama",
    "qwen2": "qwen2",
    "qwen3": "qwen3",
    "phi3": "phi3",
    "gemma2": "gemma2",
    "gemma3": "gemma3_text",
}
_SIZES = {
    "block_count": "num_hidden_layers",
    "context_length": "max_position_embeddings",
    "embedding_length": "hidden_size",
    "feed_forward_length": "intermediate_size",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps",
}
_OPTIONAL = {
    "attention.key_length": "head_dim",
    "attention.sliding_window": "sliding_window",
    "attn_logit_softcapping": "attn_logit_softcapping",
    "final_logit_softcapping": "final_logit_softcapping",
}
_TOKENS = {"bos_token_id": "bos", "eos_token_id": "eos", "pad_token_id": "padding"}
_OUTER = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
}
_PARTS = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_qkv": "self_attn.qkv_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
# Parts that an architecture calls otherwise.
_GEMMA = {
    "ffn_norm": "pre_feedforward_layernorm",
    "post_attention_norm": "post_attention_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}
_OTHER_PARTS = {"gemma2": _GEMMA, "gemma3": _GEMMA, "phi3": {"ffn_up": "mlp.gate_up_proj"}}
_ROPE_FREQUENCIES = "rope_freqs.weight"
# LongRoPE: key of transformers -> tensor.
_ROPE_FACTORS = {
    "short_factor": "rope_factors_short.weight",
    "long_factor": "rope_factors_long.weight",
}
_GEMMA_LOCAL_THETA = 10000.0


def config_of(file: Gguf) -> Any:
    """The configuration of transformers for the model of a file."""
    from transformers import AutoConfig

    architecture = _architecture(file)
    _check_sizes(file)
    values = {name: _value(file, key) for key, name in _SIZES.items()}
    for key, name in _OPTIONAL.items():
        value = file.metadata.get(f"{architecture}.{key}")
        if value is not None:
            values[name] = value
    for name, key in _TOKENS.items():
        values[name] = file.metadata.get(f"tokenizer.ggml.{key}_token_id")
    long = _long_rotary(file) if architecture == "phi3" else None
    if long is not None:
        values["original_max_position_embeddings"] = long["original_max_position_embeddings"]
    values["rope_parameters"] = long or _rotary(file)
    values["vocab_size"] = _table_shape(file)[0]
    values["tie_word_embeddings"] = "output.weight" not in file
    if architecture == "llama":
        values["attention_bias"] = "blk.0.attn_q.bias" in file
    if architecture == "phi3":
        size, rotated = _rotated(file)
        values["partial_rotary_factor"] = rotated / size
    return AutoConfig.for_model(_TYPES[architecture], **values)


def tensors_of(file: Gguf) -> Checkpoint:
    """The tensors of a file by transformers' names, with the values that its models expect."""
    architecture = _architecture(file)
    readers: dict[str, Callable[[], torch.Tensor]] = {}
    for name in file:
        if name != _ROPE_FREQUENCIES and name not in _ROPE_FACTORS.values():
            readers[_name(file, name)] = partial(_tensor, file, name, architecture)
    return Checkpoint(readers, file.where)


def codes_of(file: Gguf) -> dict[str, Packed]:
    """Matrices of a file whose codes can be packed, by transformers' names, rows in its order."""
    architecture = _architecture(file)
    found = {}
    for name, packed in file.packed.items():
        if not has_codes(packed):
            continue
        order = _order(file, name, architecture)
        if order is not None:
            rows = packed.data.reshape(packed.shape[0], -1)[order]
            packed = Packed(packed.block, packed.shape, rows.reshape(-1))
        found[_name(file, name)] = packed
    return found


def scale_frequencies(model: torch.nn.Module, file: Gguf) -> None:
    """Divides the rotary frequencies of a model by the file's divisors, if it has any."""
    if _ROPE_FREQUENCIES not in file:
        return
    divisors = file[_ROPE_FREQUENCIES].to(torch.float32)
    for name, frequencies in model.named_buffers():
        if name.rpartition(".")[2] == "inv_freq":
            if frequencies.shape != divisors.shape:
                raise CheckpointError(
                    f"{file.where}: tensor {_ROPE_FREQUENCIES!r}: expected shape "
                    f"{list(frequencies.shape)}, got {list(divisors.shape)}"
                )
            frequencies /= divisors


# ---- parts


def _architecture(file: Gguf) -> str:
    name = file.metadata.get("general.architecture")
    if name not in _TYPES:
        raise CheckpointError(
            f"{file.where}: general.architecture: expected one of {', '.join(_TYPES)}, "
            f"got {quoted(str(name))}"
        )
    return str(name)


def _value(file: Gguf, key: str) -> Any:
    full = f"{_architecture(file)}.{key}"
    value = file.metadata.get(full)
    if not isinstance(value, int | float) or value <= 0:
        raise CheckpointError(
            f"{file.where}: {full}: expected a positive number, got {quoted(str(value))}"
        )
    return value


def _check_sizes(file: Gguf) -> None:
    """Checks sizes against the tensors, before a model of these sizes is made."""
    layers = {name.split(".")[1] for name in file if name.startswith("blk.")}
    found = {"block_count": len(layers), "embedding_length": _table_shape(file)[1]}
    for key, size in found.items():
        if _value(file, key) != size:
            raise CheckpointError(
                f"{file.where}: {_architecture(file)}.{key}: expected {size} as in the tensors, "
                f"got {_value(file, key)}"
            )


def _table_shape(file: Gguf) -> tuple[int, ...]:
    table = file.packed.get("token_embd.weight")
    if table is None or len(table.shape) != 2:
        got = "none" if table is None else f"shape {list(table.shape)}"
        raise CheckpointError(
            f"{file.where}: expected a tensor 'token_embd.weight' of rank 2, got {got}"
        )
    return table.shape


def _rotated(file: Gguf) -> tuple[int, int]:
    """Elements of a head, and how many of them are rotated (phi3)."""
    size = int(_value(file, "embedding_length") // _value(file, "attention.head_count"))
    rotated = file.metadata.get("phi3.rope.dimension_count", size)
    if not isinstance(rotated, int) or not 0 < rotated <= size:
        raise CheckpointError(
            f"{file.where}: phi3.rope.dimension_count: expected 1 to {size}, the elements of a "
            f"head, got {quoted(str(rotated))}"
        )
    return size, rotated


def _long_rotary(file: Gguf) -> dict[str, Any] | None:
    """LongRoPE, if the file has its factors."""
    if not any(name in file for name in _ROPE_FACTORS.values()):
        return None
    rotary: dict[str, Any] = {
        "rope_type": "longrope",
        "rope_theta": float(file.metadata.get("phi3.rope.freq_base", 10000.0)),
        "original_max_position_embeddings": _value(file, "rope.scaling.original_context_length"),
    }
    count = _rotated(file)[1] // 2
    for key, name in _ROPE_FACTORS.items():
        shape = list(file[name].shape) if name in file else None
        if shape != [count]:
            got = "none" if shape is None else f"shape {shape}"
            raise CheckpointError(
                f"{file.where}: tensor {name!r}: expected shape [{count}], a factor for each "
                f"rotary frequency, got {got}"
            )
        rotary[key] = file[name].to(torch.float32).tolist()
    attention = file.metadata.get("phi3.rope.scaling.attn_factor")
    if attention is not None:  # without, transformers computes it from both lengths
        rotary["attention_factor"] = float(attention)
    return rotary


def _rotary(file: Gguf) -> dict[str, Any]:
    architecture = _architecture(file)
    kind = file.metadata.get(f"{architecture}.rope.scaling.type", "none")
    if kind not in ("none", "linear") or any(name.startswith("rope_factors") for name in file):
        raise CheckpointError(
            f"{file.where}: rotary embeddings: expected no scaling or linear, got "
            f"{quoted(str(kind)) if kind != 'none' else 'tables of factors'}"
        )
    rotary: dict[str, Any] = {
        "rope_type": "default",
        "rope_theta": float(file.metadata.get(f"{architecture}.rope.freq_base", 10000.0)),
    }
    if kind == "linear":
        rotary |= {"rope_type": "linear", "factor": float(_value(file, "rope.scaling.factor"))}
    if architecture != "gemma3":
        return rotary
    local = {"rope_type": "default", "rope_theta": _GEMMA_LOCAL_THETA}
    return {"full_attention": rotary, "sliding_attention": local}


def _name(file: Gguf, name: str) -> str:
    """transformers' name of a tensor; the file's own where there is none."""
    outer, _, leaf = name.rpartition(".")
    if outer in _OUTER:
        return f"{_OUTER[outer]}.{leaf}"
    block, _, rest = outer.partition(".")
    layer, _, part = rest.partition(".")
    parts = _PARTS | _OTHER_PARTS.get(_architecture(file), {})
    if block != "blk" or part not in parts:
        return name
    return f"model.layers.{layer}.{parts[part]}.{leaf}"


def _tensor(file: Gguf, name: str, architecture: str) -> torch.Tensor:
    tensor = file[name]
    order = _order(file, name, architecture)
    if order is not None:
        return tensor[order]
    if architecture.startswith("gemma") and name.endswith("norm.weight"):
        return tensor - 1
    return tensor


def _order(file: Gguf, name: str, architecture: str) -> torch.Tensor | None:
    """The stored row of each row of transformers, if these differ."""
    counts = {".attn_q.": "attention.head_count", ".attn_k.": "attention.head_count_kv"}
    for part, key in counts.items():
        if architecture == "llama" and part in name:
            n, heads = file.packed[name].shape[0], int(_value(file, key))
            if n % (2 * heads) != 0:
                raise CheckpointError(
                    f"{file.where}: tensor {quoted(name)}: expected rows in a multiple of 2 x "
                    f"{heads} heads, got {n}"
                )
            # Rows of a head's halves alternate.
            return torch.arange(n).reshape(heads, -1, 2).transpose(1, 2).reshape(-1)
    return None
