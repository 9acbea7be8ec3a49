"""Norms that take statistics of their input: of a batch outside a delegate, of a sample inside."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from executorch_py.backends.xnnpack import XnnpackPartitioner
from executorch_py.exir import to_edge_transform_and_lower

BATCH = torch.export.Dim("batch", min=1, max=4)
NORMS = {
    "of two samples": (nn.BatchNorm2d(8, track_running_stats=False), (2, 8, 4, 5), None, False),
    "of any number": (nn.BatchNorm2d(8, track_running_stats=False), (2, 8, 4, 5), BATCH, False),
    "of one sample": (nn.BatchNorm2d(8, track_running_stats=False), (1, 8, 4, 5), None, True),
    "of rows": (nn.BatchNorm1d(8, track_running_stats=False), (3, 8, 6), None, False),
    "of each instance": (nn.InstanceNorm2d(8, affine=True), (2, 8, 4, 5), None, True),
}


@pytest.mark.parametrize("name", NORMS)
def test_a_norm_without_running_statistics_equals_eager_torch(name: str) -> None:
    norm, shape, batch, is_delegated = NORMS[name]
    model = nn.Sequential(nn.Sigmoid(), norm, nn.ReLU()).eval()
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    dynamic: Any = ({0: batch},) if batch else None
    exported = torch.export.export(model, (x,), dynamic_shapes=dynamic)
    edge = to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()])
    records = edge.delegation_summary().records
    [norms] = [r for r in records if "norm" in r.operator]
    assert (norms.delegate is not None) == is_delegated
    assert is_delegated or str(norms.reason).startswith("its statistics span the batch")
    assert edge.to_executorch().verify(model, x).ok
