"""An LlmConfig from the arguments of a command line, as older scripts for upstream parse them.

An argument that a script's parser lacks, or that is None or empty, leaves its key as it is.
"""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from executorch_py.extension.llm.export.config.llm_config import LlmConfig
from executorch_py.extension.llm.export.config.read_config import ConfigError, config_of

# Group -> arguments that have the names of its keys.
_SAME = {
    "base": ("params", "checkpoint", "tokenizer_path", "metadata", "use_lora", "preq_mode"),
    "model": (
        "dtype_override",
        "enable_dynamic_shape",
        "use_shared_embedding",
        "use_sdpa_with_kv_cache",
        "expand_rope_table",
        "use_attention_sink",
        "output_prune_map",
        "input_prune_map",
        "use_kv_cache",
        "quantize_kv_cache",
        "static_quantize_kv_cache",
        "static_quantize_kv_cache_scale",
        "local_global_attention",
        "use_moe_quantized_op",
    ),
    "export": (
        "max_seq_length",
        "max_context_length",
        "output_dir",
        "output_name",
        "so_library",
        "export_only",
        "foundation_weights_file",
        "lora_weights_file",
    ),
    "quantization": (
        "embedding_quantize",
        "pt2e_quantize",
        "group_size",
        "use_spin_quant",
        "use_qat",
        "calibration_tasks",
        "calibration_limit",
        "calibration_seq_length",
        "calibration_data",
    ),
    "debug": (
        "profile_memory",
        "profile_path",
        "generate_etrecord",
        "generate_full_logits",
        "verbose",
    ),
    "backend.qnn": ("soc_model", "optimized_rotation_path", "num_sharding"),
    "backend.openvino": ("openvino_awq", "openvino_scale_estimation"),
    "backend.torchao": ("use_torchao_kernels_linear", "use_torchao_kernels_tied_embedding"),
}
# Argument -> the keys that it sets.
_OTHER = {
    "model": ("base.model_class",),
    "quantization_mode": ("quantization.qmode",),
    "xnnpack": ("backend.xnnpack.enabled",),
    "xnnpack_extended_ops": ("backend.xnnpack.extended_ops",),
    "xnnpack_enable_bf16": ("backend.xnnpack.enable_bf16",),
    "coreml": ("backend.coreml.enabled",),
    "coreml_enable_state": ("backend.coreml.enable_state",),
    "coreml_preserve_sdpa": ("backend.coreml.preserve_sdpa",),
    "coreml_quantize": ("backend.coreml.quantize",),
    "coreml_ios": ("backend.coreml.ios",),
    "coreml_compute_units": ("backend.coreml.compute_units",),
    "vulkan": ("backend.vulkan.enabled",),
    "vulkan_force_fp16": ("backend.vulkan.force_fp16",),
    "qnn": ("backend.qnn.enabled",),
    "use_qnn_sha": ("backend.qnn.use_sha",),
    "mlx": ("backend.mlx.enabled",),
    "openvino": ("backend.openvino.enabled",),
    "openvino_device": ("backend.openvino.device",),
    "group_size": ("quantization.group_size", "backend.openvino.nncf_compression_group_size"),
    "vgf": ("backend.vgf.enabled",),
    "vgf_compile_spec": ("backend.vgf.compile_spec",),
    "vgf_quantize_scope": ("backend.vgf.quantize_scope", "quantization.quantize_scope"),
}
_KEYS = {name: (f"{group}.{name}",) for group, names in _SAME.items() for name in names} | _OTHER


def config_of_args(args: Namespace) -> LlmConfig:
    """The configuration of parsed arguments; ConfigError for values that do not fit."""
    given = {name: value for name, value in vars(args).items() if value is not None and value != ""}
    found = {key: value for name, value in given.items() for key in _KEYS.get(name, ())}
    if "preq_mode" in given:
        for name in ("preq_group_size", "preq_embedding_quantize"):
            if name in given:
                found[f"base.{name}"] = given[name]
    if "adapter_checkpoint" in given:
        if "adapter_config" not in given:
            raise ConfigError("adapter_checkpoint: expected adapter_config beside it, got none")
        for name in ("adapter_checkpoint", "adapter_config"):
            found[f"base.lora_config.{name}"] = given[name]
    if given.get("use_torchao_kernels"):
        for name in _SAME["backend.torchao"]:
            found[f"backend.torchao.{name}"] = True
    if given.get("mlx"):
        found["model.use_kv_cache"] = True
    return config_of(_nested(found))


def _nested(found: dict[str, Any]) -> dict[str, Any]:
    """Dictionaries of the groups of dotted keys."""
    groups: dict[str, Any] = {}
    for key, value in found.items():
        *path, name = key.split(".")
        group = groups
        for part in path:
            group = group.setdefault(part, {})
        group[name] = value
    return groups
