"""Sizes of synthetic inputs of `run`: the smallest useful ones, or those of --shape."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from executorch_py.cli.main import main
from executorch_py.cli.synthetic import synthetic_inputs
from executorch_py.exir import to_edge
from executorch_py.runtime import Runtime, Signature


class Pair(torch.nn.Module):
    def forward(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        return left + right[1:]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> str:
    """left has 3 to 9 rows, right one more."""
    rows = torch.export.Dim("rows", min=3, max=9)
    exported = torch.export.export(
        Pair(),
        (torch.ones(4, 2), torch.ones(5, 2)),
        dynamic_shapes=({0: rows}, {0: rows + 1}),
    )
    path = tmp_path_factory.mktemp("programs") / "pair.pte"
    to_edge(exported).to_executorch().save(path)
    return str(path)


@pytest.fixture(scope="module")
def signature(program: str) -> Signature:
    return Runtime.get().load_program(program).signature


def shapes(signature: Signature, *given: str) -> list[tuple[int, ...]]:
    return [np.shape(value) for value in synthetic_inputs(signature, given, None)[0]]


def test_dynamic_sizes_are_the_smallest_that_fit_together(signature: Signature) -> None:
    assert shapes(signature) == [(3, 2), (4, 2)]


def test_a_given_shape_decides_about_sizes_that_follow_it(signature: Signature) -> None:
    assert shapes(signature, "left=7x2") == [(7, 2), (8, 2)]
    assert shapes(signature, "right=7x2") == [(6, 2), (7, 2)]


def test_run_says_which_sizes_it_chose_and_how_to_choose_others(
    program: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", program, "--ones"]) == 0
    said = "the smallest useful; choose others with: --shape left=3x2 --shape right=4x2\n"
    assert said in capsys.readouterr().out
    assert main(["run", program, "--shape", "left=9x2"]) == 0
    assert "sizes as given: --shape left=9x2 --shape right=10x2\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ("left=2x2", "--shape: expected left: float32[3…9, 2], got [2, 2]"),
        ("left=4x2x1", "--shape: expected left: float32[3…9, 2], got [4, 2, 1]"),
        ("middle=4x2", "one of the inputs ['left', 'right'], got 'middle'; write left=4x2"),
        ("4x2", "got a shape without a name; write left=4x2"),
        ("left=4,2", "--shape: expected a shape such as 1x3x224x224"),
        ("left=4x2:int64", "got dtype int64: leave it out"),
    ],
)
def test_a_wrong_shape_names_the_input_and_its_bounds(
    program: str, shape: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", program, "--shape", shape]) == 1
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


def test_shapes_and_files_exclude_each_other_and_outputs_are_checked_first(
    program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", program, "x.npy", "--shape", "left=3x2"]) == 1
    assert "leave one of them out" in capsys.readouterr().err
    assert main(["run", program, "--ones", "--output", str(tmp_path / "no" / "x.npz")]) == 1
    taken = capsys.readouterr()
    assert "--output: expected an existing folder" in taken.err and taken.out == ""
    text = tmp_path / "text.npy"
    text.write_text("1 2 3")
    assert main(["run", program, str(text), str(text)]) == 1
    assert "expected a .npy or .npz file of numbers" in capsys.readouterr().err
