"""Sampling of images at grids of positions against eager torch."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from support.element_samples import laid_out
from support.op_driver import OpError, Out, check_op, run_op

aten = torch.ops.aten
FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("mode", [0, 1, 2])
@pytest.mark.parametrize("padding", [0, 1, 2])
@pytest.mark.parametrize("align", [False, True])
def test_grid_sampler_equals_eager(
    mode: int, padding: int, align: bool, dtype: torch.dtype
) -> None:
    for shape, size in (((2, 3, 7, 5), (4, 6)), ((1, 1, 1, 1), (3, 1)), ((1, 2, 4, 9), (0, 3))):
        x = torch.randn(shape).to(dtype)
        grid = (torch.rand(shape[0], *size, 2) * 3 - 1.5).to(dtype)
        wide = torch.float64 if dtype == torch.float64 else torch.float32
        expected = aten.grid_sampler_2d(x.to(wide), grid.to(wide), mode, padding, align).to(dtype)
        check_op(
            aten.grid_sampler_2d.out, x, grid, mode, padding, align, expected=expected, scale=4
        )


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_volumes_are_sampled_as_eager_samples_them(dtype: torch.dtype) -> None:
    for (shape, size), mode, padding, align in itertools.product(
        (((2, 3, 4, 7, 5), (3, 4, 6)), ((1, 1, 1, 1, 1), (1, 3, 1)), ((1, 2, 3, 4, 5), (2, 0, 3))),
        (0, 1),
        (0, 1, 2),
        (False, True),
    ):
        x = torch.randn(shape).to(dtype)
        grid = (torch.rand(shape[0], *size, 3) * 3 - 1.5).to(dtype)
        wide = torch.float64 if dtype == torch.float64 else torch.float32
        expected = aten.grid_sampler_3d(x.to(wide), grid.to(wide), mode, padding, align).to(dtype)
        check_op(
            aten.grid_sampler_3d.out, x, grid, mode, padding, align, expected=expected, scale=4
        )
    x, grid = torch.randn(2, 3, 4, 7, 5), torch.rand(2, 3, 4, 6, 3) * 2 - 1
    order = [0, 2, 3, 4, 1]
    given = (laid_out(x, order), laid_out(grid, order))
    check_op(aten.grid_sampler_3d.out, *given, 0, 0, False, out_order=order, scale=4)
    with pytest.raises(OpError, match=r"expected f32\[2, depth, height, width, 3\]"):
        run_op(
            "aten::grid_sampler_3d.out",
            x,
            x,
            0,
            0,
            False,
            out=[Out(torch.float32, (2, 3, 1, 1, 1))],
        )
    with pytest.raises(
        OpError, match="expected interpolation of at most 1 and padding of at most 2, got 2 and 0"
    ):
        out = [Out(torch.float32, (2, 3, 3, 4, 6))]
        run_op("aten::grid_sampler_3d.out", x, grid, 2, 0, False, out=out)


def test_grid_sampler_takes_any_layout() -> None:
    x, grid = torch.randn(2, 3, 7, 5), torch.rand(2, 4, 6, 2) * 2 - 1
    for order in ((0, 2, 3, 1), (3, 2, 1, 0)):
        given = (laid_out(x, order), laid_out(grid, order))
        check_op(aten.grid_sampler_2d.out, *given, 0, 0, False, out_order=order, scale=4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("position", [torch.nan, torch.inf, -torch.inf, 1e30])
def test_positions_far_away_are_what_they_are_in_eager(position: float, dtype: torch.dtype) -> None:
    for spatial, mode, padding in itertools.product((2, 3), (0, 1, 2), (0, 1, 2)):
        if (spatial, mode) == (3, 2) or (position == 1e30 and padding == 2):
            continue  # no such operator; reflected at random
        x = torch.randn(1, 2, *(3, 4, 5)[:spatial], dtype=dtype)
        grid = torch.full((1, *(1, 2, 3)[:spatial], spatial), 0.3, dtype=dtype)
        for axis in range(spatial):
            grid.view(-1, spatial)[axis % grid[0, ..., 0].numel(), axis] = position
        op = getattr(aten, f"grid_sampler_{spatial}d").out
        for align in (False, True):
            check_op(op, x, grid, mode, padding, align, scale=4)


def test_wrong_arguments_are_refused_with_words() -> None:
    x, grid, out = (
        torch.ones(1, 2, 3, 3),
        torch.ones(1, 2, 2, 2),
        [Out(torch.float32, (1, 2, 2, 2))],
    )
    rows: list[tuple[str, list[Any]]] = [
        ("got input f32 of rank 3", [x[0], grid, 0, 0, True]),
        ("grid: expected .*, got f64 of rank 4", [x, grid.double(), 0, 0, True]),
        (
            "grid: expected .*, got f32 of rank 4",
            [x, torch.ones(1, 2, 2, 3), 0, 0, True],
        ),
        (
            "expected interpolation of at most 2 and padding of at most 2, got 3 and 0",
            [x, grid, 3, 0, True],
        ),
        ("padding of at most 2, got 0 and -1", [x, grid, 0, -1, True]),
        (
            "expected spatial dimensions of 1 or more",
            [x[:, :, :0], grid, 0, 0, True],
        ),
    ]
    for words, args in rows:
        with pytest.raises(OpError, match=words):
            run_op("aten::grid_sampler_2d.out", *args, out=out)
