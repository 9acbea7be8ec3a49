"""Decoders of transformers lower however they were traced.

A trace that is not strict records the caches twice (exir/decompose/shared_constants.py); torch's
own run_decompositions refuses it.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from support.decoder_files import file_with_positions

from executorch_py.exir import to_edge
from executorch_py.extension.llm.session import Session
from executorch_py.testing import verify_program

IDS = [5, 17, 42, 3, 9]


@pytest.mark.parametrize("gradients", [False, True], ids=["no gradients", "gradients"])
@pytest.mark.parametrize("strict", [False, True], ids=["not strict", "strict"])
def test_greedy_tokens_are_those_of_the_model(
    tmp_path: Path, strict: bool, gradients: bool
) -> None:
    path, model = file_with_positions(tmp_path / "b.pte", strict=strict, gradients=gradients)
    wanted = model.generate(
        torch.tensor([IDS]), max_new_tokens=12, do_sample=False, eos_token_id=None
    )
    assert Session(path).generate(IDS, 12, stop=()) == wanted[0, len(IDS) :].tolist()


def test_regions_without_gradients_lower_in_a_trace_with_them() -> None:
    class Regions(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(4, 4)
            self.register_buffer("sums", torch.zeros(4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.layer(x)
            with torch.no_grad():
                factors = y.sin() * 2
                self.sums.add_(factors.sum(0))
                with torch.enable_grad():
                    y = y.cos()
            return y * factors + self.sums

    x = torch.rand(3, 4)
    for strict in (False, True):
        model = Regions()
        exported = torch.export.export(model, (x,), strict=strict)
        targets = [str(node.target) for node in exported.graph.nodes]
        assert "wrap_with_set_grad_enabled" in targets
        verify_program(to_edge(exported).to_executorch(), model, x)
