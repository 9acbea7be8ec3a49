"""Quantized recurrent layers: linear layers are quantized, cells stay float."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import fx, nn

from executorch_py.backends.xnnpack import XnnpackPartitioner
from executorch_py.backends.xnnpack.partition.unroll_recurrent import MAX_CELLS
from executorch_py.exir import to_edge_transform_and_lower
from executorch_py.quantizer import (
    AnnotationWarning,
    XNNPACKQuantizer,
    calibrate,
    convert_pt2e,
    get_symmetric_quantization_config,
    left_float,
    prepare_pt2e,
)

STATIC = get_symmetric_quantization_config(is_per_channel=True)
DYNAMIC = get_symmetric_quantization_config(is_per_channel=True, is_dynamic=True)


class Both(nn.Module):
    """A bidirectional LSTM and a GRU; two linear layers per cell."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.lstm = nn.LSTM(8, 6, bidirectional=True, batch_first=True)
        self.gru = nn.GRU(12, 5, bias=False)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y, (h, c) = self.lstm(x)
        z, _ = self.gru(y.transpose(0, 1))
        return z, h, c


X = torch.randn(2, 2, 8, generator=torch.Generator().manual_seed(0))


def prepared(quantizer: XNNPACKQuantizer, model: nn.Module, x: torch.Tensor = X) -> fx.GraphModule:
    return prepare_pt2e(torch.export.export(model.eval(), (x,)).module(), quantizer)


def converted(model: fx.GraphModule) -> fx.GraphModule:
    calibrate(model, [X, X / 2])
    return convert_pt2e(model)


@pytest.mark.parametrize("config", [STATIC, DYNAMIC], ids=["static", "dynamic"])
def test_weights_are_integers_and_numbers_are_near(config: Any) -> None:
    graph = converted(prepared(XNNPACKQuantizer().set_global(config), Both()))
    linears = [n for n in graph.graph.nodes if n.target is torch.ops.aten.linear.default]
    # A layer for the inputs of all steps, and one per step but the first, whose state is zero; for
    # two directions of the LSTM, and for the GRU.
    assert len(linears) == 3 * (1 + 1)
    assert all("dequantize" in str(n.args[1].target) for n in linears)
    exported, wanted = torch.export.export(graph, (X,)), graph(X)
    for floats, found in zip(Both()(X), wanted, strict=True):
        assert (floats - found).abs().max() < 0.03
    for partitioner in ([XnnpackPartitioner()], None)[: 2 if config is STATIC else 1]:
        edge = to_edge_transform_and_lower(exported, partitioner=partitioner)
        for found, right in zip(edge.to_executorch().run(X), wanted, strict=True):
            assert (torch.as_tensor(found) - right).abs().max() < 0.02


def test_weights_that_all_steps_read_are_there_once() -> None:
    model = nn.LSTM(128, 128, batch_first=True)
    x = torch.randn(1, 4, 128)

    class Outputs(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm = model

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            result: torch.Tensor = self.lstm(x)[0]
            return result

    graph = prepared(XNNPACKQuantizer().set_global(DYNAMIC), Outputs(), x)
    graph(x)
    program = torch.export.export(convert_pt2e(graph), (x,))
    integers = 2 * 4 * 128 * 128
    for partitioner in ([XnnpackPartitioner()], None):
        edge = to_edge_transform_and_lower(program, partitioner=partitioner)
        assert len(edge.to_executorch().buffer) < 1.3 * integers


def test_what_is_not_to_be_quantized_stays_whole() -> None:
    quantizer = XNNPACKQuantizer().set_global(STATIC).set_module_type(nn.LSTM, None)
    graph = prepared(quantizer, Both())
    targets = [str(n.target) for n in graph.graph.nodes]
    assert "aten.lstm.input" in targets and "aten.gru.input" not in targets


def test_long_sequences_stay_loops_and_say_so() -> None:
    x = torch.randn(2, MAX_CELLS, 12)
    model = nn.Sequential(nn.GRU(12, 4, batch_first=True, bidirectional=True))
    with pytest.warns(AnnotationWarning, match=f"gru: steps .* are 256; up to {MAX_CELLS} are"):
        graph = prepared(XNNPACKQuantizer().set_global(STATIC), model, x)
    assert [row.operator for row in left_float(graph).rows] == ["gru.input"]


def test_cells_say_why_they_are_float() -> None:
    rows = left_float(prepared(XNNPACKQuantizer().set_global(STATIC), Both())).rows
    assert {row.reason for row in rows} == {
        "cells of recurrent layers compute with floats, their products with integers"
    }
    assert {row.module for row in rows} == {"lstm", "gru"}
