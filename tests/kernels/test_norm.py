"""Layer, group, batch normalisation and dropout against eager torch: float types and layouts."""

from __future__ import annotations

import pytest
import torch
from support.op_driver import Const, OpError, Out, check_op, run_op
from support.tolerance import F32_SHIFTED_NORM, assert_near

aten = torch.ops.aten
FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
LAST = (0, 2, 3, 1)


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def tolerance(dtype: torch.dtype) -> float:
    """Eager rounds half types between its steps; one unit in the last place may differ."""
    return {torch.float16: 2.0, torch.bfloat16: 1.0}.get(dtype, 4.0)


def vector(n: int, dtype: torch.dtype) -> torch.Tensor:
    return (torch.rand(n) + 0.5).to(dtype)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize(
    ("shape", "n"),
    [((4, 7), 1), ((2, 3, 768), 1), ((2, 5, 33), 2), ((3, 2500), 1), ((6,), 1), ((0, 4), 1)],
)
def test_layer_norm_equals_eager(shape: tuple[int, ...], n: int, dtype: torch.dtype) -> None:
    x, normalized = torch.randn(shape).to(dtype) + 3, list(shape[-n:])
    w, b = (torch.rand(normalized).to(dtype) for _ in range(2))
    scale = tolerance(dtype)
    check_op(aten.native_layer_norm.out, x, normalized, Const(w), Const(b), 1e-5, scale=scale)
    check_op(aten.native_layer_norm.out, x, normalized, w, None, 1e-3, scale=scale)
    check_op(aten.native_layer_norm.out, x, normalized, None, None, 1e-5, scale=scale)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_a_single_element_normalises_to_the_bias_exactly(dtype: torch.dtype) -> None:
    x, w, b = torch.randn(3, 1).to(dtype), vector(1, dtype), vector(1, dtype)
    outs = [Out(dtype, (3, 1))] * 3
    (y, *_) = run_op("aten::native_layer_norm.out", x, [1], w, b, 1e-5, out=outs)
    assert torch.equal(y, b.expand(3, 1))


def test_layer_norm_takes_any_layout() -> None:
    x = torch.randn(3, 5, 7, 9).contiguous(memory_format=torch.channels_last)
    w, b = torch.rand(9), torch.rand(9)
    want = [t.contiguous() for t in aten.native_layer_norm(x, [9], w, b, 1e-5)]
    (y, *_) = run_op(
        "aten::native_layer_norm.out",
        x,
        [9],
        w,
        b,
        1e-5,
        out=[Out(torch.float32, t.shape, LAST) for t in want],
    )
    torch.testing.assert_close(y, want[0], check_stride=False)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize(
    "shape", [(2, 6, 5, 7), (1, 12, 40), (3, 4), (2, 6, 2, 3, 4), (0, 6, 3, 3)], ids=str
)
def test_group_norm_equals_eager(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    x = torch.randn(shape).to(dtype)
    n, c = shape[:2]
    area = x[0, 0].numel() if n else 9
    w, b = vector(c, dtype), vector(c, dtype)
    for groups in (1, 2, c):
        check_op(
            aten.native_group_norm.out,
            x,
            w,
            b,
            n,
            c,
            area,
            groups,
            1e-5,
            scale=tolerance(dtype) * 2,
        )
        check_op(
            aten.native_group_norm.out,
            x,
            None,
            None,
            n,
            c,
            area,
            groups,
            1e-5,
            scale=tolerance(dtype) * 2,
        )


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_group_norm_gives_the_same_bits_in_every_layout(dtype: torch.dtype) -> None:
    x, w, b = torch.randn(2, 12, 29, 41).to(dtype), vector(12, dtype), vector(12, dtype)
    results = []
    for order, prepared, threads in ((None, False, 1), (LAST, False, 1), (LAST, True, 3)):
        given = x if order is None else x.contiguous(memory_format=torch.channels_last)
        args = (given, w, b, 2, 12, 29 * 41, 3, 1e-5)
        outs = [Out(dtype, x.shape, order), Out(dtype, (2, 3)), Out(dtype, (2, 3))]
        name = "aten::native_group_norm.out"
        results.append(run_op(name, *args, out=outs, prepared=prepared, threads=threads))
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize(
    "shape", [(2, 6, 5, 7), (3, 5), (2, 4, 50), (1, 3, 4, 5, 6), (0, 3, 2, 2)], ids=str
)
def test_batch_norm_in_eval_equals_eager(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    x = torch.randn(shape).to(dtype)
    w, b, mean, var = (vector(shape[1], dtype) for _ in range(4))
    op = aten._native_batch_norm_legit_no_training.out
    check_op(op, x, w, b, mean, var, 0.1, 1e-5, scale=tolerance(dtype))
    check_op(op, x, None, None, mean, var, 0.1, 1e-5, scale=tolerance(dtype))


@pytest.mark.parametrize("channels", [3, 300])
def test_batch_norm_of_channels_last_images_equals_eager(channels: int) -> None:
    x = torch.randn(2, channels, 5, 4)
    params = [vector(channels, torch.float32) for _ in range(4)]
    (want, *_) = aten._native_batch_norm_legit_no_training(x, *params, 0.1, 1e-5)
    outs = [Out(torch.float32, x.shape, LAST), Out(torch.float32, (0,)), Out(torch.float32, (0,))]
    for given in (x, x.contiguous(memory_format=torch.channels_last)):
        (y, *_) = run_op(
            "aten::_native_batch_norm_legit_no_training.out",
            given,
            *params,
            0.1,
            1e-5,
            out=outs,
            threads=2,
        )
        torch.testing.assert_close(y, want, check_stride=False)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_batch_norm_in_training_updates_running_statistics(dtype: torch.dtype) -> None:
    x = torch.randn(4, 3, 6, 5).to(dtype) + 2
    w, b = vector(3, dtype), vector(3, dtype)
    mean, var = vector(3, dtype), vector(3, dtype)
    ours = mean.clone(), var.clone()
    want = aten._native_batch_norm_legit(x, w, b, mean, var, True, 0.1, 1e-5)
    outs = [Out(dtype, t.shape) for t in want]
    got = run_op("aten::_native_batch_norm_legit.out", x, w, b, *ours, True, 0.1, 1e-5, out=outs)
    for g, e in zip((*got, *ours), (*want, mean, var), strict=True):
        torch.testing.assert_close(g, e)
    check_op(aten._native_batch_norm_legit.no_stats_out, x, w, b, True, 0.1, 1e-5, scale=4)


def test_statistics_do_not_cancel() -> None:
    x = torch.randn(2, 4096) + 1e4
    (y, *_) = run_op(
        "aten::native_layer_norm.out",
        x,
        [4096],
        None,
        None,
        1e-5,
        out=[Out(torch.float32, x.shape), Out(torch.float32, (2, 1)), Out(torch.float32, (2, 1))],
    )
    want = torch.nn.functional.layer_norm(x.double(), [4096]).float()
    assert_near(y, want, F32_SHIFTED_NORM)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_dropout_of_nothing_or_everything_equals_eager(dtype: torch.dtype) -> None:
    x = torch.randn(3, 5).to(dtype)
    check_op(aten.native_dropout.out, x, 0.5, False)
    check_op(aten.native_dropout.out, x, 0.0, True)
    outs = [Out(dtype, x.shape), Out(torch.bool, x.shape)]
    y, mask = run_op("aten::native_dropout.out", x, 1.0, True, out=outs)
    assert not y.any() and not mask.any()


def test_wrong_arguments_are_refused_with_words() -> None:
    x, outs = (
        torch.randn(2, 6),
        [Out(torch.float32, (2, 6)), Out(torch.float32, (2, 1)), Out(torch.float32, (2, 1))],
    )
    with pytest.raises(OpError, match=r"normalized_shape.0.: expected 6, as input, got 5"):
        run_op("aten::native_layer_norm.out", x, [5], None, None, 1e-5, out=outs)
    with pytest.raises(OpError, match=r"weight: expected .* and shape \[6\], got f32\[5\]"):
        run_op("aten::native_layer_norm.out", x, [6], torch.rand(5), None, 1e-5, out=outs)
    with pytest.raises(OpError, match="6 channels do not divide into 4 groups"):
        run_op("aten::native_group_norm.out", x, None, None, 2, 6, 1, 4, 1e-5, out=outs)
    with pytest.raises(OpError, match="groups"):
        run_op("aten::native_group_norm.out", x, None, None, 2, 6, 1, 0, 1e-5, out=outs)
    with pytest.raises(OpError, match=r"weight: expected a .* vector of 6 .*, got f32\[2\]"):
        run_op("aten::native_group_norm.out", x, torch.rand(2), None, 2, 6, 1, 2, 1e-5, out=outs)
    with pytest.raises(OpError, match=r"training: expected True without .*, got False"):
        name = "aten::_native_batch_norm_legit.no_stats_out"
        run_op(name, x, None, None, False, 0.1, 1e-5, out=outs)
