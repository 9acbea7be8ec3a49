"""Upstream runs our programs with low-bit weights: the same file gives the same numbers."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from support.low_bit_network import INDICES, PT2E, exported
from support.upstream_peer import Upstream

from executorch_py.backends.xnnpack import XnnpackPartitioner
from executorch_py.exir import to_edge, to_edge_transform_and_lower

BY_TORCHAO = (
    "int8 times int8",
    "int8 times int8 for VNNI",
    "7 bits times 7 bits",
    "table of 2 bits",
)


@pytest.mark.parametrize("name", [*PT2E, *BY_TORCHAO])
def test_upstream_runs_weights_in_few_bits(name: str, upstream: Upstream, tmp_path: Path) -> None:
    model, program = exported(name)
    with torch.no_grad():
        expected = model(INDICES)
    delegated = to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner()])
    for which, edge in (("kernels", to_edge(program)), ("delegate", delegated)):
        (tmp_path / f"{which}.pte").write_bytes(edge.to_executorch().buffer)
        torch.save([[INDICES]], tmp_path / f"{which}.inputs.pt")
        upstream.ask("run_inputs", which, tmp_path)
        ((found,),) = torch.load(tmp_path / f"{which}.pt")
        dynamic = "times" in name or "da" in name
        share = float((found - expected).abs().max() / expected.abs().max())
        assert share < (0.012 if dynamic else 1e-5)
