"""Checkpoints that are quantized already, as Llama's SpinQuant and QAT releases.

A layer has codes int8 `<layer>.weight` [rows, columns] and `<layer>.scales` [rows, groups]: 4 bits
in groups, or 8 bits with a scale for each row. Codes are kept; scales are rounded to bfloat16, as
XNNPACK stores them. Adapters (base.use_lora) are `<layer>.adaptor.A.weight` [rank, columns] and
`<layer>.adaptor.B.weight` [rows, rank], y = W x + 2 B A x, or times the scale of lora_args.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch

from executorch_py.extension.llm.checkpoint import Checkpoint, CheckpointError
from executorch_py.extension.llm.export.config.llm_config import (
    LlmConfig,
    PreqMode,
    bits_and_group,
)
from executorch_py.extension.llm.export.quantize_model import quantized_layer, quantized_table
from executorch_py.extension.llm.export.standard_quantized import WeightKind
from executorch_py.extension.llm.export.supported_keys import OWN_TARGET
from executorch_py.extension.llm.model.adapters import Adapter
from executorch_py.extension.llm.model.transformer import Transformer
from executorch_py.extension.llm.model.weights import in_halves
from executorch_py.terminal_text import quoted

_TABLE, _OUTPUT = "tok_embeddings", "output"
_SCALES = ".scales"
_ADAPTERS = (".adaptor.A.weight", ".adaptor.B.weight")
_LORA_SCALE = 2.0  # of upstream's layer


def take_quantized(
    model: Transformer, checkpoint: Checkpoint, config: LlmConfig
) -> tuple[Checkpoint, Adapter]:
    """Replaces the layers whose scales are in a checkpoint; the rest of it, and its adapters.

    CheckpointError names a tensor that does not fit the configuration.
    """
    own = config.export.target == OWN_TARGET
    taken: set[str] = set()
    adapters: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}
    for place in _quantized_places(checkpoint):
        where = f"{checkpoint.where}: {place}"
        codes, scales = checkpoint[f"{place}.weight"], checkpoint[f"{place}{_SCALES}"]
        module = _module(model, place, where)
        kind = _kind(place, module.weight.shape[1], config)
        _check_shapes(where, module, kind, codes, scales)
        scales = scales.reshape(len(scales), -1).to(torch.bfloat16).to(torch.float32)
        if place.endswith((".wq", ".wk")) and not model.args.use_hf_rope:
            sizes = model.args.head_size, model.args.rotary_size
            codes, scales = in_halves(codes, *sizes), in_halves(scales, *sizes)
        made: Any
        if place == _TABLE:
            made = quantized_table(codes, scales, kind, own)
        else:
            made = quantized_layer(codes, scales, kind, None, is_dynamic=True, own=own)
            if f"{place}{_ADAPTERS[0]}" in checkpoint and config.base.use_lora:
                adapters[place] = _adapter(model, checkpoint, place, config.base.use_lora)
                taken |= {f"{place}{name}" for name in _ADAPTERS}
        owner, _, leaf = place.rpartition(".")
        setattr(model.get_submodule(owner) if owner else model, leaf, made)
        taken |= {f"{place}.weight", f"{place}{_SCALES}"}
    if not taken:
        raise CheckpointError(
            f"{checkpoint.where}: expected scales of quantized layers (base.preq_mode), got none"
        )
    if config.base.use_lora and not adapters:
        raise CheckpointError(
            f"{checkpoint.where}: expected matrices of adapters such as "
            f"layers.0.attention.wq{_ADAPTERS[0]} (base.use_lora), got none"
        )
    rest = {n: partial(checkpoint.__getitem__, n) for n in checkpoint if n not in taken}
    return Checkpoint(rest, checkpoint.where), Adapter(adapters)


def _quantized_places(checkpoint: Checkpoint) -> Iterator[str]:
    for name in checkpoint:
        place = name.removesuffix(_SCALES)
        if name.endswith(_SCALES) and f"{place}.weight" in checkpoint:
            yield place


def _module(model: Transformer, place: str, where: str) -> Any:
    try:
        module = model.get_submodule(place)
    except AttributeError:
        module = None
    if not isinstance(module, (torch.nn.Linear, torch.nn.Embedding)):
        raise CheckpointError(f"{where}: expected a layer of the model, got none of this name")
    return module


def _adapter(
    model: Transformer, checkpoint: Checkpoint, place: str, rank: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """The matrices of the adapter of a layer, in the model's order of rows; B has the scale."""
    layer: Any = model.get_submodule(place)
    shapes = {_ADAPTERS[0]: [rank, layer.in_features], _ADAPTERS[1]: [layer.out_features, rank]}
    found = []
    for name, shape in shapes.items():
        where = f"{checkpoint.where}: {place}{name}"
        if f"{place}{name}" not in checkpoint:
            raise CheckpointError(f"{where}: expected a matrix {shape} (base.use_lora), got none")
        tensor = checkpoint[f"{place}{name}"]
        if list(tensor.shape) != shape or not tensor.is_floating_point():
            raise CheckpointError(
                f"{where}: expected floats of shape {shape} (base.use_lora), got {tensor.dtype} of "
                f"shape {list(tensor.shape)}"
            )
        found.append(tensor.to(torch.float32))
    a, b = found
    if place.endswith((".wq", ".wk")) and not model.args.use_hf_rope:
        b = in_halves(b, model.args.head_size, model.args.rotary_size)
    return a, b * (model.args.lora_args or {}).get("scale", _LORA_SCALE)


def _kind(place: str, columns: int, config: LlmConfig) -> WeightKind:
    if place == _TABLE:
        bits, group = bits_and_group(
            "base.preq_embedding_quantize", config.base.preq_embedding_quantize
        )
        return WeightKind(bits, 0 if group == columns else group)
    if place == _OUTPUT and config.base.preq_mode is PreqMode.preq_8da4w_out_8da8w:
        return WeightKind(8, 0)
    return WeightKind(4, config.base.preq_group_size)


def _check_shapes(
    where: str, module: Any, kind: WeightKind, codes: torch.Tensor, scales: torch.Tensor
) -> None:
    shape = module.weight.shape
    if codes.shape != shape or codes.dtype != torch.int8:
        raise CheckpointError(
            f"{where}.weight: expected int8 of shape {list(shape)}, got {codes.dtype} of shape "
            f"{list(codes.shape)}"
        )
    n_groups = shape[1] // (kind.group or shape[1])
    if scales.numel() != shape[0] * n_groups or shape[1] % (kind.group or shape[1]):
        raise CheckpointError(
            f"{where}{_SCALES}: expected [{shape[0]}, {n_groups}] for groups of "
            f"{kind.group or shape[1]}, got {list(scales.shape)}"
        )
    if not bool(scales.isfinite().all()):
        raise CheckpointError(f"{where}{_SCALES}: expected finite numbers, got NaN or infinity")
    if int(codes.min()) < -kind.limit or int(codes.max()) >= kind.limit:
        got = quoted(f"{int(codes.min())} to {int(codes.max())}")
        raise CheckpointError(f"{where}.weight: expected codes of {kind.bits} bits, got {got}")


class RotatedLinear(torch.nn.Module):
    """A layer whose weights are for inputs after a Hadamard transform."""

    def __init__(self, layer: torch.nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.layer(torch.ops.llama.fast_hadamard_transform(x))
        return result


def rotate_inputs(model: Transformer) -> None:
    """Transforms the input of each w2, whose weights SpinQuant has rotated."""
    for block in model.layers:
        block.feed_forward.w2 = RotatedLinear(block.feed_forward.w2)
