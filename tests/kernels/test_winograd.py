"""Winograd convolutions stay within the stated bound of the exact sums, with the same bits on every
instruction set, with any number of threads, prepared or not, in every layout.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from support.op_driver import (
    Const,
    Doubles,
    OpError,
    Out,
    Tensors,
    check_op,
    isa_limit,
    isas,
    run_growing,
    run_op,
)
from support.tolerance import F64_ROUNDING, assert_near

from executorch_py.testing.winograd_bound import matrices, winograd_bound

NAME = "executorch_py::winograd_convolution.out"
TILES = (2, 4, 6)


def values(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape) + seed))


def arguments(
    x: torch.Tensor, w: Any, bias: Any, padding: list[int], tile: int, *epilogue: Any
) -> list[Any]:
    text, numbers, tensors = epilogue or ("", [], [])
    plain = [x, w, bias, [1, 1], padding, [1, 1], False, [0, 0], 1]
    return [*plain, tile, text, Doubles(numbers), Tensors(list(tensors))]


def run(
    x: torch.Tensor,
    w: torch.Tensor,
    bias: torch.Tensor | None,
    padding: list[int],
    tile: int,
    *epilogue: Any,
    constant: bool = True,
    **options: Any,
) -> torch.Tensor:
    weight = Const(w) if constant else w
    size = torch.nn.functional.conv2d(x, w, bias, padding=padding).shape
    order = None if x.is_contiguous() else (0, 2, 3, 1)
    args = arguments(x, weight, bias, padding, tile, *epilogue)
    return run_op(NAME, *args, out=[Out(torch.float32, size, order)], **options)[0]


def channels_last(x: torch.Tensor) -> torch.Tensor:
    return x.to(memory_format=torch.channels_last)


def assert_within_bound(
    found: torch.Tensor,
    x: torch.Tensor,
    w: torch.Tensor,
    bias: torch.Tensor | None,
    padding: list[int],
    tile: int,
) -> None:
    exact, limit = winograd_bound(x, w, bias, padding, tile)
    error = (found.to(torch.float64) - exact).abs()
    assert found.shape == exact.shape
    assert bool((error <= limit).all()), f"{float((error / limit).max()):.2g} of the limit"


# Batch, channels in and out, height and width, padding.
SHAPES = {
    "whole tiles": (1, 32, 32, 12, 12, [1, 1]),
    "odd sizes": (1, 16, 48, 13, 17, [1, 1]),
    "odd channels": (1, 19, 37, 9, 11, [1, 1]),
    "batch of two": (2, 33, 31, 10, 7, [1, 1]),
    "no padding": (1, 5, 70, 11, 8, [0, 0]),
    "padding of two": (2, 8, 3, 5, 6, [2, 2]),
    "uneven padding": (1, 8, 8, 9, 9, [2, 0]),
    "one pixel": (2, 21, 18, 1, 1, [1, 1]),
    "one output": (1, 17, 16, 3, 3, [0, 0]),
    "one channel": (1, 1, 1, 14, 15, [1, 1]),
    "two chunks of channels": (1, 300, 40, 8, 8, [1, 1]),
    "several blocks": (1, 64, 64, 57, 58, [1, 1]),
    "packed rows": (1, 24, 300, 7, 7, [1, 1]),
}


@pytest.mark.parametrize("tile", TILES)
@pytest.mark.parametrize("case", SHAPES)
def test_results_are_within_the_bound_in_every_layout(case: str, tile: int) -> None:
    n, c_in, c_out, height, width, padding = SHAPES[case]
    x, w, bias = values(n, c_in, height, width), values(c_out, c_in, 3, 3), values(c_out)
    wanted = run(x, w, bias, padding, tile)
    assert_within_bound(wanted, x, w, bias, padding, tile)
    for image in (x, channels_last(x)):
        assert torch.equal(run(image, w, bias, padding, tile), wanted)
        assert torch.equal(run(image, w, bias, padding, tile, constant=False), wanted)
        for threads in (1, 2, 3):
            found = run(image, w, bias, padding, tile, prepared=True, threads=threads)
            assert torch.equal(found, wanted), threads
    for isa in isas():
        with isa_limit(isa):
            found = run(channels_last(x), w, bias, padding, tile, prepared=True)
        assert torch.equal(found, wanted), isa


@pytest.mark.parametrize("tile", TILES)
def test_results_without_bias_are_within_the_bound(tile: int) -> None:
    x, w = channels_last(values(1, 20, 9, 9)), values(24, 20, 3, 3)
    assert_within_bound(run(x, w, None, [1, 1], tile), x, w, None, [1, 1], tile)


@pytest.mark.parametrize("tile", TILES)
def test_positive_images_and_weights_are_within_the_bound(tile: int) -> None:
    """Nothing cancels in the sums, but all of it does in the transforms."""
    x, w = channels_last(values(1, 64, 14, 14).abs() + 3), values(32, 64, 3, 3).abs()
    assert_within_bound(run(x, w, None, [1, 1], tile), x, w, None, [1, 1], tile)


@pytest.mark.parametrize("tile", TILES)
def test_the_matrices_are_those_of_a_convolution(tile: int) -> None:
    b, g, a = matrices(tile)
    for i in range(tile + 2):
        for t in range(3):
            d, w = torch.eye(tile + 2, dtype=torch.float64)[i], torch.eye(3, dtype=torch.float64)[t]
            wanted = torch.tensor([float(j + t == i) for j in range(tile)], dtype=torch.float64)
            assert_near(a @ ((g @ w) * (b @ d)), wanted, F64_ROUNDING)


EPILOGUES: list[tuple[str, list[float], int]] = [
    ("relu", [], 0),
    ("clamp", [-0.5, 6.0], 0),
    ("add:_s clamp mul:x_ div:_s", [3.0, 0.0, 6.0, 6.0], 0),
    ("add:_0 relu", [], 1),
    ("mul:1_ add:0_ gelu", [], 2),
]


@pytest.mark.parametrize("image", [values, lambda *s: channels_last(values(*s))])
@pytest.mark.parametrize("chain", EPILOGUES, ids=lambda chain: chain[0])
def test_an_epilogue_equals_its_steps(chain: Any, image: Any) -> None:
    text, numbers, n_tensors = chain
    x, w, bias = image(2, 20, 11, 13), values(35, 20, 3, 3), values(35)
    plain = run(x, w, bias, [1, 1], 4)
    tensors = [image(*plain.shape) + i for i in range(n_tensors)]
    order = (0, 2, 3, 1) if not plain.is_contiguous() else None
    (wanted,) = run_op(
        "executorch_py::chain.out",
        plain,
        text,
        Doubles(numbers),
        Tensors(tensors),
        out=[Out(torch.float32, plain.shape, order)],
    )
    for prepared, threads in ((False, 1), (True, 1), (True, 3)):
        epilogue = (text, numbers, tensors)
        found = run(x, w, bias, [1, 1], 4, *epilogue, prepared=prepared, threads=threads)
        assert torch.equal(found, wanted)


def test_outputs_grow_with_images() -> None:
    w, bias = Const(values(32, 24, 3, 3)), values(32)
    images = [values(n, 24, size, size) for n, size in ((3, 21), (1, 1), (2, 21), (3, 13))]

    def call(x: torch.Tensor) -> list[Any]:
        return arguments(x, w, bias, [1, 1], 4)

    for threads in (1, 3):
        found = run_growing(
            NAME,
            call(images[0]),
            [call(x) for x in images],
            [Out(torch.float32, (3, 32, 21, 21))],
            threads=threads,
        )
        for x, (result,) in zip(images, found, strict=True):
            assert torch.equal(result, run(x, w.tensor, bias, [1, 1], 4))


def test_every_way_to_load_and_run_gives_the_bits_of_the_first() -> None:
    x, w, bias = values(2, 16, 9, 9), values(16, 16, 3, 3), values(16)
    wanted = run(x, w, bias, [1, 1], 4)
    op = torch.ops.executorch_py.winograd_convolution.out
    check_op(op, *arguments(x, Const(w), bias, [1, 1], 4), expected=wanted)


@pytest.mark.parametrize(("n", "c_in", "size"), [(0, 4, 5), (1, 0, 5)])
def test_images_without_elements(n: int, c_in: int, size: int) -> None:
    x, w = torch.zeros(n, c_in, size, size), values(6, c_in, 3, 3)
    bias = values(6)
    out = torch.ops.aten.convolution.default(x, w, bias, [1, 1], [2, 2], [1, 1], False, [0, 0], 1)
    args = arguments(x, w, bias, [2, 2], 4)
    (found,) = run_op(NAME, *args, out=[Out(torch.float32, out.shape)])
    assert torch.equal(found, out)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({9: 3}, "tile: expected 2, 4 or 6, got 3"),
        ({3: [2, 2]}, "expected stride 1, .*, got 2, 1 and 1"),
        ({4: [3, 1]}, "padding of at most 2, got 1, 1 and 3"),
        ({5: [2, 2]}, "dilation 1 .*, got 1, 2 and 1"),
        ({1: values(4, 4, 1, 1)}, "a kernel of 3 x 3, got f32 and 1 x 1 x 1"),
        ({1: values(4, 2, 3, 3), 8: 2}, "expected 1 group and transposed=false, got 2 and false"),
        ({6: True}, "expected 1 group and transposed=false, got 1 and true"),
    ],
)
def test_other_convolutions_are_refused(change: dict[int, Any], message: str) -> None:
    args = arguments(values(1, 4, 9, 9), values(4, 4, 3, 3), None, [1, 1], 4)
    for position, value in change.items():
        args[position] = value
    size = torch.ops.aten.convolution.default(*args[:9]).shape
    with pytest.raises(OpError, match=message):
        run_op(NAME, *args, out=[Out(torch.float32, size)])
