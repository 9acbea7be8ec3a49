"""Keys of export_llm's configuration that have no effect here, refused by name."""

from __future__ import annotations

import dataclasses
from typing import Any

from executorch_py.exir.program.config import TARGETS
from executorch_py.extension.llm.export.config.llm_config import (
    DtypeOverride,
    LlmConfig,
    Pt2eQuantize,
    SpinQuant,
    bits_and_group,
)
from executorch_py.extension.llm.export.config.read_config import ConfigError
from executorch_py.terminal_text import quoted

OWN_TARGET, UPSTREAM_TARGET = TARGETS
# Keys by group, each with what is supported instead. A value other than the default is refused.
_REFUSED = {
    "model.static_quantize_kv_cache": "supported is model.quantize_kv_cache",
    "model.static_quantize_kv_cache_scale": "supported is model.quantize_kv_cache",
    "model.use_moe_quantized_op": "supported are models without experts",
    "quantization.quantize_scope": "supported is quantization.qmode, which is for linear layers",
    "quantization.calibration_tasks": "supported modes find scales of weights without data",
    "quantization.calibration_limit": "supported modes find scales of weights without data",
    "quantization.calibration_seq_length": "supported modes find scales of weights without data",
    "quantization.calibration_data": "supported modes find scales of weights without data",
    "backend.xnnpack.enable_bf16": "supported are f32 activations",
}
_DELEGATES = "supported are backend.xnnpack and programs without a delegate"
QMODES = ("8da4w", "4w", "int8")
GRAPH_QUANTIZERS = (Pt2eQuantize.xnnpack_dynamic, Pt2eQuantize.xnnpack_dynamic_qc4)


def refuse_unsupported(config: LlmConfig) -> None:
    """ConfigError for the first key whose value would have no effect, or not the one it says."""
    default = LlmConfig()
    for key, instead in _REFUSED.items():
        value = _at(config, key)
        if value != _at(default, key):
            raise _refusal(key, value, instead)
    for field in dataclasses.fields(config.backend):
        group = getattr(config.backend, field.name)
        if field.name != "xnnpack" and group != getattr(default.backend, field.name):
            changed = next(k for k, v in vars(group).items() if v != vars(type(group)())[k])
            raise _refusal(f"backend.{field.name}.{changed}", getattr(group, changed), _DELEGATES)
    if config.export.target not in TARGETS:
        expected = " or ".join(TARGETS)
        raise ConfigError(f"export.target: expected {expected}, got {quoted(config.export.target)}")
    _check_export_only(config)
    _check_dtype(config)
    _check_caches(config)
    _check_weights(config)
    _check_graph_quantizer(config)
    _check_methods(config)
    _check_prequantized(config)


def _at(config: LlmConfig, key: str) -> Any:
    value: Any = config
    for name in key.split("."):
        value = getattr(value, name)
    return value


def _refusal(key: str, value: Any, instead: str) -> ConfigError:
    shown = getattr(value, "name", None) or str(value)
    return ConfigError(f"{key}: {quoted(shown)} is not supported: {instead}")


def _check_export_only(config: LlmConfig) -> None:
    for name in ("generate_etrecord", "profile_memory"):
        if config.export.export_only and getattr(config.debug, name):
            raise ConfigError(
                f"export.export_only: expected false beside debug.{name}, which is of a program, "
                "got true"
            )


def _check_dtype(config: LlmConfig) -> None:
    chosen, weights = config.model.dtype_override, config.quantization
    if chosen is DtypeOverride.fp32:
        return
    key, others = (
        "model.dtype_override",
        {
            "quantization.qmode": weights.qmode,
            "quantization.embedding_quantize": weights.embedding_quantize,
            "quantization.pt2e_quantize": weights.pt2e_quantize,
            "base.preq_mode": config.base.preq_mode,
            "model.quantize_kv_cache": config.model.quantize_kv_cache or None,
        },
    )
    for other, value in others.items():
        if value is not None:
            raise ConfigError(f"{key}: expected fp32 beside {other}, got {chosen.value}")
    if config.export.target == OWN_TARGET:
        raise ConfigError(
            f"{key}: expected fp32, or export.target={UPSTREAM_TARGET}, got {chosen.value}"
        )


def _check_caches(config: LlmConfig) -> None:
    model, own = config.model, config.export.target == OWN_TARGET
    if model.use_sdpa_with_kv_cache and not model.use_kv_cache:
        raise ConfigError(
            "model.use_sdpa_with_kv_cache: expected model.use_kv_cache=true beside it, got false"
        )
    if model.use_attention_sink is not None:
        _check_sink(config)
    if own:
        return
    for key in ("quantize_kv_cache", "local_global_attention"):
        if getattr(model, key) and not model.use_sdpa_with_kv_cache:
            raise ConfigError(
                f"model.{key}: expected model.use_sdpa_with_kv_cache=true beside it, got false"
            )
    if model.use_shared_embedding:
        raise ConfigError(
            f"model.use_shared_embedding: expected false, or export.target={OWN_TARGET}, as "
            "upstream's has two forms for the embedding and the last layer, got true"
        )


def _check_sink(config: LlmConfig) -> None:
    key, model = "model.use_attention_sink", config.model
    own = config.export.target == OWN_TARGET
    needed = "use_kv_cache" if own else "use_sdpa_with_kv_cache"
    if not getattr(model, needed):
        raise ConfigError(f"{key}: expected model.{needed}=true beside it, got false")
    if model.local_global_attention:
        raise ConfigError(f"{key}: expected one of it and model.local_global_attention, got both")
    sink, window = sink_and_window(config)
    if window < 1 or sink + window > config.export.max_context_length:
        raise ConfigError(
            f"{key}: expected a window of 1 or more, and both within export.max_context_length, "
            f"{config.export.max_context_length}, got {model.use_attention_sink}"
        )


def sink_and_window(config: LlmConfig) -> tuple[int, int]:
    """The numbers of model.use_attention_sink; 0, 0 without it."""
    sink, _, window = (config.model.use_attention_sink or "0,0").partition(",")
    return int(sink), int(window)


def _check_weights(config: LlmConfig) -> None:
    quantization = config.quantization
    if quantization.qmode is not None and quantization.qmode not in QMODES:
        raise ConfigError(
            f"quantization.qmode: expected one of {', '.join(QMODES)}, got {quantization.qmode}"
        )
    group = quantization.group_size
    if group is not None and (group < 0 or group % 32):
        raise ConfigError(
            f"quantization.group_size: expected a multiple of 32, or 0 for whole rows, got {group}"
        )
    if quantization.qmode is None and group is not None:
        raise ConfigError(
            "quantization.group_size: expected quantization.qmode beside it, got none"
        )
    if quantization.qmode == "int8" and group:
        raise ConfigError(
            "quantization.group_size: expected none or 0, as int8 has a scale for each row, got "
            f"{group}"
        )
    table = quantization.embedding_quantize
    if table is not None:
        bits, _ = bits_and_group("quantization.embedding_quantize", table)
        if bits not in (2, 4, 8) or table.startswith("torchao:"):
            raise ConfigError(
                "quantization.embedding_quantize: expected 2, 4 or 8 bits and a group size, got "
                f"{quoted(table)}"
            )


def _check_graph_quantizer(config: LlmConfig) -> None:
    key, quantizer = "quantization.pt2e_quantize", config.quantization.pt2e_quantize
    if quantizer is None:
        return
    if quantizer not in GRAPH_QUANTIZERS:
        expected = " and ".join(name.value for name in GRAPH_QUANTIZERS)
        raise _refusal(key, quantizer, f"supported are {expected}")
    if config.quantization.qmode is not None:
        raise ConfigError(
            f"{key}: expected one of it and quantization.qmode, got both, "
            f"{quantizer.value} and {config.quantization.qmode}"
        )
    xnnpack = config.backend.xnnpack.enabled
    if config.export.target == OWN_TARGET or not xnnpack:
        raise ConfigError(
            f"{key}: expected export.target={UPSTREAM_TARGET} and backend.xnnpack.enabled=true "
            f"beside it, as its layers are XNNPACK's, got {config.export.target} and {xnnpack}"
        )


def _check_methods(config: LlmConfig) -> None:
    methods, lora = config.multimethod.methods, config.base.lora_config
    if methods and lora is not None:
        raise ConfigError(
            "base.lora_config: expected adapters of multimethod.methods alone, got both"
        )
    if config.multimethod.share_mutable_buffers and not methods:
        raise ConfigError(
            "multimethod.share_mutable_buffers: expected multimethod.methods beside it, got none"
        )
    names = [method.method_name for method in methods]
    for i, method in enumerate(methods):
        where = f"multimethod.methods[{i}]"
        if not method.method_name.isidentifier() or names.count(method.method_name) > 1:
            raise ConfigError(
                f"{where}.method_name: expected names that differ, got {quoted(method.method_name)}"
            )
        if method.export_seq_len is not None:
            raise _refusal(
                f"{where}.export_seq_len", method.export_seq_len, "supported is max_seq_length"
            )
    for where, chosen in [
        ("base", lora),
        *((f"multimethod.methods[{i}]", m.lora_config) for i, m in enumerate(methods)),
    ]:
        if chosen is not None and chosen.adapter_quant is not None:
            key = f"{where}.lora_config.adapter_quant"
            raise _refusal(key, chosen.adapter_quant, "adapters stay float")
    if config.export.lora_weights_file is not None and not any(
        [lora, *(method.lora_config for method in methods)]
    ):
        raise ConfigError("export.lora_weights_file: expected an adapter, got none")


def _check_prequantized(config: LlmConfig) -> None:
    base, model, default = config.base, config.model, LlmConfig().base
    if config.quantization.use_spin_quant is SpinQuant.cuda:
        raise _refusal("quantization.use_spin_quant", SpinQuant.cuda, "supported is native")
    if base.use_lora < 0 or (base.use_lora and not config.quantization.use_qat):
        raise ConfigError(
            "base.use_lora: expected the rank of a checkpoint's adapters beside "
            "quantization.use_qat=true (other adapters: base.lora_config), got "
            f"{base.use_lora} and {str(config.quantization.use_qat).lower()}"
        )
    if config.quantization.use_qat and base.preq_mode is None:
        raise ConfigError("quantization.use_qat: expected base.preq_mode beside it, got none")
    if config.quantization.use_qat and config.quantization.use_spin_quant is not None:
        raise ConfigError(
            "quantization.use_qat: expected one of it and quantization.use_spin_quant, got both"
        )
    if base.preq_mode is None:
        for key in ("preq_group_size", "preq_embedding_quantize"):
            if getattr(base, key) != getattr(default, key):
                raise ConfigError(f"base.{key}: expected base.preq_mode beside it, got none")
        return
    if base.checkpoint is None:
        raise ConfigError("base.preq_mode: expected base.checkpoint beside it, got none")
    others = {
        "quantization.qmode": config.quantization.qmode,
        "quantization.embedding_quantize": config.quantization.embedding_quantize,
        "base.lora_config": base.lora_config,
        "multimethod.methods": config.multimethod.methods or None,
        "model.input_prune_map": model.input_prune_map,
        "model.output_prune_map": model.output_prune_map,
    }
    for key, value in others.items():
        if value is not None:
            raise ConfigError(f"{key}: expected none beside base.preq_mode, got {value}")
    bits, _ = bits_and_group("base.preq_embedding_quantize", base.preq_embedding_quantize)
    if bits != 8:
        raise ConfigError(f"base.preq_embedding_quantize: expected 8 bits, got {bits}")
    if base.preq_group_size < 1 or base.preq_group_size % 32:
        raise ConfigError(
            f"base.preq_group_size: expected a multiple of 32, got {base.preq_group_size}"
        )
