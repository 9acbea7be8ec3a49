"""Recurrent layers: one delegate for few steps, a loop for many; results agree with eager torch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from executorch_py.backends.xnnpack import XnnpackPartitioner
from executorch_py.backends.xnnpack.partition.config import AddConfig
from executorch_py.exir import EdgeProgramManager, to_edge_transform_and_lower

STEPS = 2


def lowered(
    layer: nn.Module, x: torch.Tensor, partitioner: Any, **dynamic: Any
) -> EdgeProgramManager:
    torch.manual_seed(0)
    exported = torch.export.export(layer.eval(), (x,), **dynamic)
    edge = to_edge_transform_and_lower(exported, partitioner=[partitioner])
    edge.to_executorch().verify(layer, x)
    return edge


@pytest.mark.parametrize(
    ("layer", "shape", "dtype"),
    [
        (nn.LSTM(4, 8, bidirectional=True), (STEPS, 2, 4), torch.float32),
        (nn.LSTM(4, 8, proj_size=3, batch_first=True), (2, STEPS, 4), torch.float16),
        (nn.GRU(4, 8, bidirectional=True, bias=False), (STEPS, 1, 4), torch.float32),
    ],
)
def test_a_layer_of_few_steps_is_one_delegate(
    layer: nn.Module, shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    found = lowered(layer.to(dtype), torch.rand(shape).to(dtype), XnnpackPartitioner())
    summary = found.delegation_summary()
    assert len(summary.delegates) == 1, str(summary)
    assert summary.delegated_share == 1.0, str(summary)


def test_the_number_of_sequences_may_be_found_at_run_time() -> None:
    dims = ({1: torch.export.Dim("n", min=1, max=4)},)
    layer, x = nn.LSTM(4, 8), torch.rand(STEPS, 2, 4)
    edge = lowered(layer, x, XnnpackPartitioner(), dynamic_shapes=dims)
    assert len(edge.delegation_summary().delegates) == 1
    edge.to_executorch().verify(layer, torch.rand(STEPS, 4, 4))


def left_of(edge: EdgeProgramManager) -> dict[str, str]:
    targets = {node.target for node in edge.exported_program().graph.nodes}
    assert torch.ops.higher_order.scan in targets
    records = edge.delegation_summary().records
    return {r.operator: str(r.reason) for r in records if r.delegate is None}


def test_a_layer_of_many_steps_stays_a_loop_whose_product_says_why_it_is_left() -> None:
    edge = lowered(nn.GRU(4, 8), torch.rand(129, 1, 4), XnnpackPartitioner())
    assert "weights come into a loop or branch as operands" in left_of(edge)["aten::addmm"]


def test_a_layer_that_can_be_taken_in_part_only_stays_a_loop() -> None:
    edge = lowered(nn.GRU(4, 8), torch.rand(STEPS, 1, 4), XnnpackPartitioner(configs=[AddConfig]))
    assert "configs do not include its operator" in left_of(edge)["aten::sigmoid"]
