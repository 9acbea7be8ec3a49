"""Sizes and variants of a decoder of the Llama family, with the names of upstream's params JSON."""

from __future__ import annotations

import difflib
import json
import typing
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from executorch_py.terminal_text import quoted, quoted_list

ACTIVATIONS = ("silu", "gelu", "gelu_approx")
LAYER_TYPES = ("full_attention", "sliding_attention", "conv")

# Keys that change nothing here: limits that the export's configuration sets, and ids of tokens that
# a program has as constant methods.
_WITHOUT_EFFECT = frozenset(
    [
        "max_batch_size",
        "max_seq_len",
        "max_context_len",
        "use_kv_cache",
        "use_sdpa_with_kv_cache_op",
        "device",
        "generate_full_logits",
        "enable_dynamic_shape",
        "bos_idx",
        "eos_idx",
        "bos_count",
        "eos_count",
        "base_model_name_or_path",
        "peft_type",
        "model_architecture",
        "quantization_args",
    ]
)
# Keys of parts that are not here, and the value with which they are off.
_PARTS_NOT_HERE: dict[str, Any] = {
    "moe": False,
    "attention_type": "mha",
    "use_q_gate": False,
    "norm_type": "rmsnorm",
    "use_ffn_norm": True,
    "no_rope_layer_interval": None,
    "num_kv_shared_layers": 0,
    "normalize_tok_embeddings": False,
    "scale_query_by": 1.0,
    "use_attn_o_gate": False,
    "use_attn_o_norm": False,
    "use_residual_gate": False,
    "use_ffn_learnable_scales": False,
    "output_soft_cap_temp": None,
    "output_linear_intermediate_dim": 0,
    "mlp_type": None,
    "apply_embedding": True,
    "apply_output": True,
    "linear_key_head_dim": None,
    "linear_value_head_dim": None,
    "linear_num_key_heads": None,
    "linear_num_value_heads": None,
    "kv_io_bit_width": None,
    "attention_kwargs": {},
    "input_prune_map": None,
    "output_prune_map": None,
    "r": None,
    "lora_alpha": None,
    "target_modules": None,
}
# Details of such parts.
_DETAILS_NOT_HERE = frozenset(
    [
        "num_experts",
        "num_activated_experts",
        "moe_hidden_dim",
        "moe_shared_expert_hidden_dim",
        "moe_use_expert_bias",
        "moe_score_func",
        "moe_route_scale",
        "linear_conv_kernel_dim",
    ]
)


class ModelArgsError(ValueError):
    """Sizes that make no model, or a variant that is not supported: the message names the key."""


@dataclass(frozen=True)
class ModelArgs:
    """Sizes and variants; the names and defaults are those of upstream's params JSON."""

    dim: int = 4096
    n_layers: int = 1
    n_heads: int = 32
    n_kv_heads: int | None = None  # n_heads
    head_dim: int | None = None  # dim / n_heads
    vocab_size: int = 512
    hidden_dim: int | None = None  # from the next two and dim
    multiple_of: int = 256
    ffn_dim_multiplier: float | None = None
    norm_eps: float = 1e-5
    rms_norm_add_unit_offset: bool = False  # weights are stored less 1
    act_fn: str = "silu"
    # Rotary embeddings. Without use_hf_rope, the rows of wq and wk of a checkpoint pair neighbours.
    rope_theta: float | None = None  # rope_freq_base
    rope_freq_base: float = 10000.0
    use_hf_rope: bool = False
    partial_rotary_factor: float = 1.0
    use_scaled_rope: bool = False
    rope_scale_factor: float = 8
    high_freq_factor: float = 4
    rope_scaling_short_factor: list[float] | None = None
    rope_scaling_long_factor: list[float] | None = None
    rope_scaling_attention_factor: float | None = None
    original_max_position_embeddings: int | None = None
    max_position_embeddings: int | None = None
    # Attention.
    attention_qkv_bias: bool = False
    use_qk_norm: bool = False
    qk_norm_before_rope: bool = False
    qk_norm_affine: bool = True
    attention_multiplier: float | None = None  # head_dim ** -0.5
    attn_logit_softcapping: float | None = None
    layer_types: list[str] | None = None
    sliding_window: int | None = None
    local_rope_theta: float | None = None
    # Places between the layers.
    post_attention_norm: bool = False
    post_ffn_norm: bool = False
    residual_multiplier: float | None = None
    embedding_scale_factor: float = 1.0
    output_bias: bool = False
    logits_scaling: float | None = None
    final_logit_softcapping: float | None = None
    # Adapters in a checkpoint that is quantized: "rank" and "scale".
    lora_args: dict[str, float] | None = None

    def __post_init__(self) -> None:
        for name in ("dim", "n_layers", "n_heads", "kv_heads", "head_size", "vocab_size", "ffn"):
            if getattr(self, name) < 1:
                raise ModelArgsError(f"{name}: expected 1 or more, got {getattr(self, name)}")
        if self.n_heads % self.kv_heads:
            raise ModelArgsError(
                f"n_kv_heads: expected a divisor of the {self.n_heads} heads, got {self.kv_heads}"
            )
        if self.act_fn not in ACTIVATIONS:
            raise ModelArgsError(
                f"act_fn: expected one of {', '.join(ACTIVATIONS)}, got {quoted(self.act_fn)}"
            )
        if self.rotary_size % 2 or not 0 < self.rotary_size <= self.head_size:
            raise ModelArgsError(
                f"partial_rotary_factor: expected an even number of the {self.head_size} elements "
                f"of a head, got {self.rotary_size}"
            )
        self._check_long_rope()
        self._check_layer_types()
        if self.lora_args is not None and set(self.lora_args) != {"rank", "scale"}:
            raise ModelArgsError(
                f"lora_args: expected rank and scale, got {quoted_list(self.lora_args)}"
            )

    def _check_long_rope(self) -> None:
        names = ("rope_scaling_short_factor", "rope_scaling_long_factor")
        given = [name for name in names if getattr(self, name) is not None]
        for name in given:
            n = len(getattr(self, name))
            if n != self.rotary_size // 2:
                raise ModelArgsError(f"{name}: expected {self.rotary_size // 2} factors, got {n}")
        if given and not self.original_max_position_embeddings:
            raise ModelArgsError(
                f"original_max_position_embeddings: expected a number of positions beside "
                f"{given[0]}, got {self.original_max_position_embeddings}"
            )

    def _check_layer_types(self) -> None:
        types = self.layer_types
        if types is None:
            return
        # Upstream: its params files of LFM2 have one type more than layers, without effect.
        if len(types) < self.n_layers:
            raise ModelArgsError(f"layer_types: expected {self.n_layers} types, got {len(types)}")
        for kind in types:
            if kind not in LAYER_TYPES:
                raise ModelArgsError(
                    f"layer_types: expected each one of {', '.join(LAYER_TYPES)}, got "
                    f"{quoted(str(kind))}"
                )
        if LAYER_TYPES[1] in types and (self.sliding_window or 0) < 1:
            raise ModelArgsError(
                "sliding_window: expected 1 or more positions beside layers of sliding_attention, "
                f"got {self.sliding_window}"
            )

    @property
    def kv_heads(self) -> int:
        return self.n_heads if self.n_kv_heads is None else self.n_kv_heads

    @property
    def head_size(self) -> int:
        return self.dim // self.n_heads if self.head_dim is None else self.head_dim

    @property
    def rotary_size(self) -> int:
        """Elements of a head that are rotated, the first ones."""
        return int(self.head_size * self.partial_rotary_factor)

    @property
    def rotates_last(self) -> bool:
        """True if nothing comes between the rotation of queries and keys and their attention."""
        return self.qk_norm_before_rope or not self.use_qk_norm

    @property
    def ffn(self) -> int:
        """Width of the feed-forward layers."""
        if self.hidden_dim is not None:
            return self.hidden_dim
        wide = int(2 * (4 * self.dim) / 3)
        if self.ffn_dim_multiplier is not None:
            wide = int(self.ffn_dim_multiplier * wide)
        return -(-wide // self.multiple_of) * self.multiple_of

    def is_convolution(self, layer: int) -> bool:
        """Whether a layer has a short convolution in place of attention."""
        return self.layer_types is not None and self.layer_types[layer] == LAYER_TYPES[2]

    @property
    def has_convolutions(self) -> bool:
        return any(map(self.is_convolution, range(self.n_layers)))

    def window_of(self, layer: int) -> int:
        """Positions that a query of a layer sees, its own included; 0: all before it."""
        local = self.layer_types is not None and self.layer_types[layer] == LAYER_TYPES[1]
        return int(self.sliding_window or 0) if local else 0


def read_params(path: str | Path) -> ModelArgs:
    """The arguments of a params JSON; ModelArgsError names the file and the key."""
    path = Path(path)
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ModelArgsError(f"{path}: expected a JSON file of sizes, got {error}") from None
    if not isinstance(entries, dict):
        raise ModelArgsError(f"{path}: expected a JSON object, got a {type(entries).__name__}")
    return args_of(entries, str(path))


def args_of(entries: Mapping[str, Any], where: str) -> ModelArgs:
    """The arguments of a params JSON's entries."""
    hints = typing.get_type_hints(ModelArgs)
    known: dict[str, Any] = {}
    for key, value in entries.items():
        if key in hints:
            known[key] = _checked(f"{where}: {key}", value, hints[key])
        else:
            _check_other(where, key, value)
    try:
        return ModelArgs(**known)
    except ModelArgsError as error:
        raise ModelArgsError(f"{where}: {error}") from None


def _checked(where: str, value: Any, hint: Any) -> Any:
    """The value as its type says; whole numbers are numbers, too."""
    options = typing.get_args(hint) if type(None) in typing.get_args(hint) else (hint,)
    if value is None and type(None) in options:
        return None
    wanted = options[0]
    if wanted == list[float] or wanted == list[str]:
        kind = typing.get_args(wanted)[0]
        if isinstance(value, list):
            return [_checked(f"{where}[{i}]", entry, kind) for i, entry in enumerate(value)]
    elif wanted == dict[str, float] and isinstance(value, dict):
        return {key: _checked(f"{where}.{key}", entry, float) for key, entry in value.items()}
    elif wanted is float and type(value) is int:
        return float(value)
    elif wanted is int and type(value) is float and value.is_integer():
        return int(value)
    elif type(value) is wanted:
        return value
    name = getattr(wanted, "__name__", str(wanted))
    raise ModelArgsError(f"{where}: expected {name}, got {quoted(repr(value))}")


def _check_other(where: str, key: str, value: Any) -> None:
    """Refuses a key, unless it has no effect or says that a part is off."""
    if key in _WITHOUT_EFFECT or key in _DETAILS_NOT_HERE:
        return
    if key in _PARTS_NOT_HERE:
        if value is None or value == _PARTS_NOT_HERE[key]:
            return
        raise ModelArgsError(
            f"{where}: {key}: this part of a model is not supported: expected "
            f"{_PARTS_NOT_HERE[key]!r} or no such key, got {quoted(repr(value))}"
        )
    names = [field.name for field in fields(ModelArgs)]
    near = difflib.get_close_matches(key, names, 1)
    hint = f"; {near[0]} is near" if near else f"; known are {', '.join(names)}"
    raise ModelArgsError(f"{where}: expected a known key, got {quoted(key)}{hint}")
