"""Captured decoders: norms and residuals are fused, and the last layer computes one position."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
from support.decoders import build

from executorch_py.extension.llm.export.hf_decoder import Decoder, capture
from executorch_py.extension.llm.export.quantized_linear import quantize_layers

N_LAYERS = 2


def captured(kind: str, *, quantized: bool = True, **options: Any) -> torch.fx.Graph:
    model = build(kind, {})
    if quantized:
        quantize_layers(model, 32)
    return capture(Decoder(model, 64, **options)).graph_module.graph


def calls(graph: torch.fx.Graph) -> list[torch.fx.Node]:
    return [node for node in graph.nodes if node.op == "call_function"]


@pytest.mark.parametrize(("kind", "norms"), [("Llama", 2), ("Qwen3", 4), ("Gemma2", 4)])
def test_every_norm_is_one_call(kind: str, norms: int) -> None:
    names = Counter(str(node.target) for node in calls(captured(kind)))
    assert names["executorch_py.rms_norm.default"] == norms * N_LAYERS + 1
    assert not {"aten.rsqrt.default", "aten._assert_tensor_metadata.default"} & set(names)


@pytest.mark.parametrize("kind", ["Llama", "Phi3"])
def test_residuals_are_added_by_the_products(kind: str) -> None:
    """Phi-3 has joint weights, dropout before its residuals and slices of whole heads."""
    names = Counter(str(node.target) for node in calls(captured(kind)))
    assert names["executorch_py.qlinear_groups.default"] == 7 * N_LAYERS + 1
    assert names["aten.add.Tensor"] == 1  # of positions


@pytest.mark.parametrize("kind", ["Llama", "Qwen3", "Gemma3", "Exaone4", "Phi3"])
def test_heads_stay_where_the_product_writes_them(kind: str) -> None:
    """Gemma 3 and EXAONE 4 normalize queries and keys between two transpositions."""
    names = Counter(str(node.target) for node in calls(captured(kind)))
    assert not {"aten.transpose.int", "aten.permute.default"} & set(names)


@pytest.mark.parametrize("quantized", [True, False])
@pytest.mark.parametrize("kind", ["Llama", "Qwen3", "Gemma2"])
def test_behind_the_last_attention_there_is_one_position(kind: str, quantized: bool) -> None:
    nodes = calls(captured(kind, quantized=quantized))
    attention = max(i for i, node in enumerate(nodes) if "cached_attention" in str(node.target))
    reshaped, last, *rest = nodes[attention + 1 :]
    assert "reshape" in str(reshaped.target) and "slice" in str(last.target)
    shapes = [node.meta["val"].shape for node in rest if node.meta["val"].dim() == 3]
    assert shapes and all(shape[1] == 1 for shape in shapes)


def test_all_positions_are_kept_where_all_logits_are_wanted() -> None:
    *_, logits = calls(captured("Llama", all_logits=True))
    assert logits.meta["val"].shape[1] != 1
