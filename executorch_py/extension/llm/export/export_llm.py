"""`export_llm`: a decoder of the Llama family as a program, from upstream's configuration.

    python -m executorch_py.extension.llm.export.export_llm --config file.yaml [+]group.key=value …

export.target is the runtime that the file is for. The default is upstream's: portable operators,
those of its library `llama` for caches, and XNNPACK where backend.xnnpack says so. "executorch_py"
is this project's runtime, whose operators for caches and quantized layers take their place.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram

from executorch_py.exir import ExecutorchProgramManager
from executorch_py.extension.llm.checkpoint import CheckpointError
from executorch_py.extension.llm.export.config.llm_config import (
    DtypeOverride,
    LlmConfig,
    LoraConfig,
)
from executorch_py.extension.llm.export.config.read_config import (
    ConfigError,
    checked,
    read_config,
)
from executorch_py.extension.llm.export.debug_files import (
    profiled,
    save_debug_files,
    save_graphs,
)
from executorch_py.extension.llm.export.hf_model import cast_parameters
from executorch_py.extension.llm.export.lower_llm import captured, lowered
from executorch_py.extension.llm.export.prequantized import rotate_inputs, take_quantized
from executorch_py.extension.llm.export.quantize_model import quantize_model
from executorch_py.extension.llm.export.supported_keys import (
    OWN_TARGET,
    refuse_unsupported,
    sink_and_window,
)
from executorch_py.extension.llm.model.adapters import (
    Adapter,
    AdapterNumbers,
    adapted,
    add_adapter,
    numbers_of,
    open_adapter,
)
from executorch_py.extension.llm.model.model_args import ModelArgs, ModelArgsError, read_params
from executorch_py.extension.llm.model.model_classes import args_of_class
from executorch_py.extension.llm.model.pruning import keep_ids, prune_rows, read_map
from executorch_py.extension.llm.model.transformer import Limits, Transformer
from executorch_py.extension.llm.model.weights import initialize, load_weights, open_checkpoint

_SUFFIX = ".pte"
_MEGABYTE = 10**6
_DTYPES = {
    DtypeOverride.fp32: torch.float32,
    DtypeOverride.fp16: torch.float16,
    DtypeOverride.bf16: torch.bfloat16,
}
_KINDS = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16"}  # of caches

Report = Callable[[str], None]


def export_llm(config: LlmConfig, report: Report | None = None) -> ExecutorchProgramManager:
    """The program of a configuration: forward(tokens i64 [1, S], input_pos i64 [1]) -> logits.

    Without model.use_kv_cache there is no input_pos. `report` is called with lines that say what
    was done. ConfigError for keys that are not supported and ModelArgsError for sizes, before any
    weight is read. CheckpointError for tensors that do not fit or are not finite; ConfigError also
    for a map of the vocabulary or a group size that does not fit the model.
    """
    config = checked(config)
    if config.export.export_only:
        raise ConfigError(
            "export.export_only: expected false for a program, got true: capture_llm gives graphs"
        )
    graphs, constants = _captured(config, report or (lambda line: None))
    return lowered(graphs, config, constants)


def capture_llm(config: LlmConfig, report: Report | None = None) -> dict[str, ExportedProgram]:
    """The graphs that export_llm lowers, by method. Errors are those of export_llm."""
    return _captured(checked(config), report or (lambda line: None))[0]


def _captured(config: LlmConfig, say: Report) -> tuple[dict[str, ExportedProgram], dict[str, Any]]:
    """The graph of each method, and the constant methods."""
    refuse_unsupported(config)
    methods = _constant_methods(config)
    model = _model(config, say)
    adapters = _adapters(model, config)
    maps = [
        _map(path, model) for path in (config.model.input_prune_map, config.model.output_prune_map)
    ]
    prune_rows(model, *maps)
    for line in quantize_model(model, config):
        say(line)
    if config.export.target == OWN_TARGET and config.backend.xnnpack.enabled:
        say(f"backend.xnnpack: not used, as {OWN_TARGET} has operators of its own")
    cast_parameters(model, model.limits.dtype)
    keep_ids(model, *maps)
    if config.quantization.use_spin_quant is not None:
        rotate_inputs(model)
    exported = {}
    for name, adapter in adapters.items():
        with adapted(model, adapter):
            exported[name] = captured(model, config)
    return exported, {**_sizes(model, config), **methods}


def _model(config: LlmConfig, say: Report) -> Transformer:
    base = config.base
    args = args_of_class(base.model_class.name) if base.params is None else read_params(base.params)
    model = Transformer(args, _limits(config, args))
    say(f"{base.model_class.name}: {sum(p.numel() for p in model.parameters()):,} weights")
    if base.checkpoint is None:
        say("base.checkpoint: none, so that weights are random")
        initialize(model)
    else:
        checkpoint = open_checkpoint(base.checkpoint)
        adapter = Adapter({})
        if base.preq_mode is not None:
            checkpoint, adapter = take_quantized(model, checkpoint, config)
        load_weights(model, checkpoint)
        add_adapter(model, adapter)
    if base.tokenizer_path is not None:
        say("base.tokenizer_path: not read, as no text is needed")
    if config.export.so_library is not None:
        say("export.so_library: not loaded, as the operators are part of this package")
    if config.model.expand_rope_table:
        say("model.expand_rope_table: the table has the size that operators read in any case")
    return model


def _map(path: str | None, model: Transformer) -> list[int] | None:
    return None if path is None else read_map(path, model.args.vocab_size)


def _limits(config: LlmConfig, args: ModelArgs) -> Limits:
    model, export = config.model, config.export
    cache = "none"
    sink, window = sink_and_window(config)
    if model.use_kv_cache and export.target == OWN_TARGET:
        if sink and not args.rotates_last:
            raise ConfigError(
                "model.use_attention_sink: expected a model that rotates queries after their norm, "
                "as distances to the sink are rotations of its operator, got qk_norm_before_rope "
                "false"
            )
        cache = "own i8" if model.quantize_kv_cache else "own f32"
    elif model.use_kv_cache and model.use_sdpa_with_kv_cache:
        cache = "operators i8" if model.quantize_kv_cache else "operators"
    elif model.use_kv_cache:
        cache = "tensors"
    windows = model.local_global_attention
    if windows is not None and (not windows or min(windows) < 0):
        raise ConfigError(
            f"model.local_global_attention: expected windows of 0 or more, got {windows}"
        )
    if cache.startswith("operators") and args.attn_logit_softcapping:
        raise ConfigError(
            f"model.use_sdpa_with_kv_cache: expected false, or export.target={OWN_TARGET}, as its "
            f"operator has no attn_logit_softcapping, got {args.attn_logit_softcapping}"
        )
    return Limits(
        capacity=export.max_context_length,
        longest=export.max_seq_length,
        cache=cache,
        windows=(window,) * args.n_layers if window else _repeated(windows, args.n_layers),
        sink=sink,
        all_logits=config.debug.generate_full_logits,
        dtype=_DTYPES[model.dtype_override],
    )


def _adapters(model: Transformer, config: LlmConfig) -> dict[str, Adapter | None]:
    """The adapter of each method, None for the model alone. Weights are not quantized yet."""
    chosen: dict[str, LoraConfig | None] = {"forward": config.base.lora_config}
    if config.multimethod.methods:
        chosen = {m.method_name: m.lora_config for m in config.multimethod.methods}
    return {
        name: None
        if lora is None
        else open_adapter(lora.adapter_checkpoint, _adapter_numbers(lora), model)
        for name, lora in chosen.items()
    }


def _adapter_numbers(lora: LoraConfig) -> AdapterNumbers:
    if lora.adapter_config is not None:
        return numbers_of(lora.adapter_config)
    if lora.lora_rank < 1 or lora.lora_alpha < 1:
        raise ConfigError(
            "lora_config: expected adapter_config, or lora_rank and lora_alpha of 1 or more, got "
            f"{lora.lora_rank} and {lora.lora_alpha}"
        )
    scale = lora.lora_alpha / lora.lora_rank
    return AdapterNumbers(lora.lora_rank, scale, tuple(lora.target_modules))


def _repeated(windows: list[int] | None, n: int) -> tuple[int, ...] | None:
    return None if windows is None else tuple(windows[i % len(windows)] for i in range(n))


# ---- constant methods


def _sizes(model: Transformer, config: LlmConfig) -> dict[str, Any]:
    """Constant methods that upstream's runners read, and those that say what caches keep.

    A model with short convolutions, whose states cannot go back, does not say that.
    """
    parts = [block.attention for block in model.layers]
    caches = [part.kv_cache.layer for part in parts if part is not None]
    kept: dict[str, Any] = {
        "get_cache_kind": "i8" if config.model.quantize_kv_cache else _KINDS[model.limits.dtype],
        "get_cache_windows": [layer.sees for layer in caches],
        "get_cache_slots": [layer.slots - layer.sink for layer in caches],
    }
    if any(layer.sink for layer in caches):
        kept["get_cache_sinks"] = [layer.sink for layer in caches]
    return {
        "get_max_seq_len": config.export.max_seq_length,
        "get_max_context_len": config.export.max_context_length,
        "get_n_layers": model.args.n_layers,
        "get_vocab_size": model.args.vocab_size,
        "use_kv_cache": config.model.use_kv_cache,
        "use_sdpa_with_kv_cache": config.model.use_sdpa_with_kv_cache,
        "enable_dynamic_shape": config.model.enable_dynamic_shape,
        **(kept if config.model.use_kv_cache and len(caches) == len(parts) else {}),
    }


def _constant_methods(config: LlmConfig) -> dict[str, Any]:
    """The entries of base.metadata."""
    text = config.base.metadata
    if text is None:
        return {}
    try:
        entries = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"base.metadata: expected JSON, got {error}") from None
    if not isinstance(entries, dict):
        raise ConfigError(f"base.metadata: expected a JSON object, got {type(entries).__name__}")
    return entries


# ---- the command


def output_path(config: LlmConfig) -> Path:
    """The file that the command writes: the model class is its name without output_name."""
    name = config.export.output_name or config.base.model_class.name
    return Path(config.export.output_dir) / (name if name.endswith(_SUFFIX) else name + _SUFFIX)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command: 0, or 1 after a message about the configuration or a checkpoint."""
    parser = argparse.ArgumentParser(
        prog="python -m executorch_py.extension.llm.export.export_llm",
        description="Export a decoder of the Llama family as a program.",
    )
    parser.add_argument("--config", metavar="FILE", help="a YAML file of the groups' keys")
    parser.add_argument("overrides", nargs="*", metavar="group.key=value", help="wins over FILE")
    options = parser.parse_args(arguments)
    try:
        config = read_config(options.config, options.overrides)
        path = output_path(config)
        if not path.parent.is_dir():
            raise ConfigError(f"export.output_dir: expected a folder, got {path.parent}")
        with profiled(config) as of_profile:
            lines = _write(config, path)
    except (ConfigError, ModelArgsError, CheckpointError) as error:
        print(f"export_llm: {error}", file=sys.stderr)
        return 1
    print("\n".join([*lines, *of_profile]))
    return 0


def _write(config: LlmConfig, path: Path) -> list[str]:
    """Writes the program, or the graphs, and what the configuration asks for beside it."""

    def report(line: str) -> None:
        print(line, flush=True)

    if config.export.export_only:
        return [f"saved {saved}" for saved in save_graphs(capture_llm(config, report), path)]
    program = export_llm(config, report)
    program.save(str(path))
    program.write_tensor_data_to_file(path.parent)
    size = f"{path.stat().st_size / _MEGABYTE:.1f} MB"
    return [f"saved {path}: {size}", *save_debug_files(program, config, path.parent)]


if __name__ == "__main__":
    raise SystemExit(main())
