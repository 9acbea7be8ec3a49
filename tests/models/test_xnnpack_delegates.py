"""Partitions of real models into XNNPACK delegates: few and large, with reasons for the rest."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from executorch_py.backends.xnnpack import XnnpackPartitioner
from executorch_py.backends.xnnpack.preprocess import XnnpackBackend
from executorch_py.exir import to_edge_transform_and_lower
from executorch_py.exir.backend.backend_details import PreprocessResult
from executorch_py.exir.backend.delegation_summary import DelegationSummary
from models import transformer_models, vision

IMAGE = (torch.rand(1, 3, 224, 224),)


@pytest.fixture(autouse=True)
def _no_payloads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Payloads are left empty, since the partitioner decides before they are written."""
    empty = staticmethod(lambda *_: PreprocessResult(b""))
    monkeypatch.setattr(XnnpackBackend, "preprocess", empty)


def summary(model: torch.nn.Module, inputs: tuple[Any, ...]) -> DelegationSummary:
    program = torch.export.export(model, inputs)
    edge = to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner()])
    return edge.delegation_summary()


def left(found: DelegationSummary) -> set[str]:
    assert all(record.reason for record in found.records if record.delegate is None)
    return {record.operator for record in found.records if record.delegate is None}


@pytest.mark.parametrize(
    "name", ["mobilenet_v2", "mobilenet_v3_large", "resnet18", "vit_b_16", "swin_t"]
)
def test_an_image_model_is_one_delegate(name: str) -> None:
    found = summary(vision.build(name), IMAGE)
    assert len(found.delegates) == 1, str(found)
    assert left(found) == set()


def test_a_sentence_encoder_is_one_delegate_behind_its_embedding() -> None:
    tokens = torch.ones(1, 16, dtype=torch.int64)
    found = summary(transformer_models.minilm().eval(), (tokens, torch.ones_like(tokens)))
    assert len(found.delegates) == 1, str(found)
    assert left(found) == {
        "aten::bitwise_and.Tensor",
        "aten::embedding",
        "aten::expand_copy",
        "aten::index.Tensor",
        "aten::unsqueeze_copy",
        "aten::where.self",
        "dim_order_ops::_to_dim_order_copy",
    }
    assert found.delegated_share is not None and found.delegated_share > 0.99
