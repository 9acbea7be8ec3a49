"""Weights of a Transformer in few bits, as export_llm's configuration says."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import torch

from executorch_py.extension.llm.checkpoint.spent_pages import let_go
from executorch_py.extension.llm.export.config.llm_config import LlmConfig, bits_and_group
from executorch_py.extension.llm.export.config.read_config import ConfigError
from executorch_py.extension.llm.export.quantized_linear import (
    PackedRows,
    QuantizedEmbedding,
    QuantizedLinear,
    check_finite,
    children_of,
    reason_to_keep,
)
from executorch_py.extension.llm.export.standard_quantized import (
    CodedEmbedding,
    GroupedLinear,
    WeightKind,
    quantize_rows,
)
from executorch_py.extension.llm.export.supported_keys import OWN_TARGET
from executorch_py.extension.llm.model.transformer import Transformer

_DEFAULT_GROUP = 128
_TABLE = "tok_embeddings"


def quantize_model(model: Transformer, config: LlmConfig) -> list[str]:
    """Replaces linear layers and the embedding one by one; lines that say what was done.

    Layers whose columns are no multiple of the group stay float. CheckpointError names a weight
    with NaN or infinity.
    """
    own = config.export.target == OWN_TARGET
    linear, table = _linear_kind(config), _table_kind(model, config)
    is_dynamic = config.quantization.qmode == "8da4w"
    shares = own and is_dynamic and _same_codes(model, linear, table)
    lines = []
    if table is not None and not shares:
        _replace_table(model, table, own)
        lines.append(f"embedding: {_words(table)}")
    if linear is not None:
        left = replace_linear(model, linear, is_dynamic=is_dynamic, own=own)
        lines.append(f"linear layers: {_words(linear)}")
        if left:
            lines.append(f"left in f32: {', '.join(left[:6])}{' …' if len(left) > 6 else ''}")
    output: Any = model.output
    if shares and isinstance(output, QuantizedLinear):
        shared: Any = QuantizedEmbedding(output.packed)
        model.tok_embeddings = shared
        lines.append("embedding: the codes of the last layer")
    return lines


def _linear_kind(config: LlmConfig) -> WeightKind | None:
    quantization = config.quantization
    if quantization.qmode is None:
        return None
    group = quantization.group_size
    if quantization.qmode == "int8":
        return WeightKind(8, 0)
    return WeightKind(4, _DEFAULT_GROUP if group is None else group, quantization.use_hqq)


def _table_kind(model: Transformer, config: LlmConfig) -> WeightKind | None:
    key, text = "quantization.embedding_quantize", config.quantization.embedding_quantize
    if text is None:
        return None
    bits, group = bits_and_group(key, text)
    width = model.args.dim
    if group and width % group:
        raise ConfigError(f"{key}: expected a divisor of the {width} columns, got {group}")
    if width % (8 // bits):
        raise ConfigError(f"{key}: expected columns in whole bytes of codes, got {width}")
    return WeightKind(bits, group)


def _same_codes(model: Transformer, linear: WeightKind | None, table: WeightKind | None) -> bool:
    """Whether the embedding and the last layer can share their codes."""
    if linear is None or table is None:
        return False
    tied = model.output.weight is model.tok_embeddings.weight
    return tied and (linear.bits, linear.group) == (table.bits, table.group)


def _replace_table(model: Transformer, kind: WeightKind, own: bool) -> None:
    weight = model.tok_embeddings.weight
    check_finite(f"{_TABLE}.weight", weight)
    made: Any = quantized_table(*quantize_rows(weight, kind), kind, own)
    model.tok_embeddings = made
    let_go(weight)


def quantized_table(
    codes: torch.Tensor, scales: torch.Tensor, kind: WeightKind, own: bool
) -> torch.nn.Module:
    """An embedding of codes, in operators of this project or of every runtime."""
    if own and kind.bits in (4, 8):
        return QuantizedEmbedding(PackedRows.from_codes(codes, scales, kind.bits))
    return CodedEmbedding(codes, scales, kind.bits)


def quantized_layer(
    codes: torch.Tensor,
    scales: torch.Tensor,
    kind: WeightKind,
    bias: torch.Tensor | None,
    *,
    is_dynamic: bool,
    own: bool,
) -> torch.nn.Module:
    """A linear layer of codes, in operators of this project or of every runtime."""
    if own and is_dynamic:
        return QuantizedLinear(PackedRows.from_codes(codes, scales, kind.bits), bias)
    return GroupedLinear(codes, scales, kind, bias, is_dynamic)


def replace_linear(
    model: torch.nn.Module,
    kind: WeightKind,
    *,
    is_dynamic: bool,
    own: bool,
    keep: Collection[str] = (),
) -> list[str]:
    """Replaces the linear layers of a model one by one; names of those that stay float.

    These are the layers in `keep`, those whose columns are no multiple of the group, and those that
    compute more than a linear layer. CheckpointError names a weight or bias with NaN or infinity.
    """
    left = []
    for place in children_of(model, torch.nn.Linear):
        layer: Any = place.child
        if reason_to_keep(place, layer.in_features, kind.group, keep) is not None:
            left.append(place.name)
            continue
        check_finite(f"{place.name}.weight", layer.weight)
        if layer.bias is not None:
            check_finite(f"{place.name}.bias", layer.bias)
        codes, scales = quantize_rows(layer.weight, kind)
        made = quantized_layer(codes, scales, kind, layer.bias, is_dynamic=is_dynamic, own=own)
        place.replace(made)
        let_go(layer.weight)
    return left


def _words(kind: WeightKind) -> str:
    return f"{kind.bits} bits in {f'groups of {kind.group}' if kind.group else 'rows'}"
