"""Pages of mapped weights: given back after use, unless they were changed."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from executorch_py.extension.llm.checkpoint.safetensors import open_safetensors
from executorch_py.extension.llm.checkpoint.spent_pages import let_go

BYTES = 32 << 20


def resident(kind: str) -> int:
    """Bytes of this process in memory: RssFile or RssAnon."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(kind)) << 10


@pytest.fixture
def mapped(tmp_path: Path) -> torch.Tensor:
    """A tensor over a file whose pages were all read."""
    save_file({"w": torch.arange(BYTES // 4, dtype=torch.float32)}, tmp_path / "w.safetensors")
    tensor = open_safetensors(tmp_path / "w.safetensors")["w"]
    assert tensor.sum() > 0
    return tensor


def test_pages_of_a_file_are_given_back_and_read_again(mapped: torch.Tensor) -> None:
    before = resident("RssFile")
    let_go(mapped)
    assert before - resident("RssFile") > 0.9 * BYTES
    assert torch.equal(mapped, torch.arange(BYTES // 4, dtype=torch.float32))


def test_pages_beside_a_slice_stay(mapped: torch.Tensor) -> None:
    before = resident("RssFile")
    let_go(mapped[: BYTES // 16])
    assert 0.2 * BYTES < before - resident("RssFile") < 0.3 * BYTES


def test_a_changed_tensor_keeps_its_values(mapped: torch.Tensor) -> None:
    mapped[BYTES // 8] = -1.0
    let_go(mapped)
    assert mapped[BYTES // 8] == -1.0


@pytest.mark.parametrize(
    "tensor",
    [torch.ones(1 << 20), torch.ones(1 << 10, 1 << 10).T, torch.ones(3), torch.ones(0)],
    ids=["own memory", "transposed", "less than a page", "empty"],
)
def test_tensors_in_memory_of_their_own_keep_their_values(tensor: torch.Tensor) -> None:
    let_go(tensor)
    assert (tensor == 1).all()


def test_tensors_without_memory_are_left_alone() -> None:
    let_go(torch.ones(1 << 20, device="meta"))
