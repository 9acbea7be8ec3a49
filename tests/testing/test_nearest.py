"""Values of a file against those of eager torch: roundings are near, one wrong channel is not."""

from __future__ import annotations

import pytest
import torch

from executorch_py.testing.file_values import FileValue
from executorch_py.testing.nearest import Match, Pool

GENERATOR = torch.Generator().manual_seed(0)
EXACT = torch.rand(2, 32, 9, 9, generator=GENERATOR, dtype=torch.float64) * 200 - 100
# Both integers near a tie, as fixed-point arithmetic gives: a step of 0.12 to one side.
SHIFTED = (EXACT + 0.12).round().to(torch.int8)


def match_of(found: torch.Tensor, exact: torch.Tensor = EXACT) -> Match:
    match = Pool([FileValue(found)]).integers(exact, exact.round().to(torch.int8), None)
    assert match is not None
    return match


def test_integers_next_to_a_tie_are_near() -> None:
    beyond = SHIFTED.clone()
    beyond[:, 4:] = EXACT[:, 4:].round().to(torch.int8)
    match = match_of(beyond)
    assert match.is_near and match.distances is not None
    assert match.distances.beyond_tie > 0 and not match.distances.crowded


@pytest.mark.parametrize(("dim", "index"), [(1, 5), (1, 31), (2, 0), (3, 8)])
def test_one_wrong_slice_is_not_near(dim: int, index: int) -> None:
    found = EXACT.round()
    found.select(dim, index).copy_((EXACT.select(dim, index) + 0.45).round())
    match = match_of(found.to(torch.int8))
    d = match.distances
    assert d is not None and d.beyond == 0 and not match.is_near and match.is_certain
    assert d.beyond_tie <= d.elements / 16, "the whole tensor shows it, too"
    assert f"at index {index} of dim {dim}" in d.crowded


def test_slices_of_few_elements_are_left_to_chance() -> None:
    exact = EXACT[0, 0, :5, :3]
    found = exact.round()
    found[1, 1] += torch.sign(exact[1, 1] - found[1, 1])
    assert match_of(found.to(torch.int8), exact).distances is not None
    assert not match_of(found.to(torch.int8), exact).distances.crowded  # type: ignore[union-attr]
