"""Counting by value against eager torch: ranges, bins, weights, densities, types, wrong input."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from support.element_samples import laid_out
from support.op_driver import OpError, Out, check_op, run_op

A = torch.ops.aten
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
INTS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
NAN = float("nan")


def spread(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    generator = torch.Generator().manual_seed(5)
    return (torch.randn(shape, generator=generator, dtype=torch.float64) * 3).to(dtype)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_histc_equals_eager(dtype: torch.dtype) -> None:
    for shape in ((), (1,), (200,), (7, 9, 3), (0,), (3, 0)):
        x = spread(shape, dtype)
        # Eager computes the bins and counts of half types in half precision; ours are those of f32.
        wide = x if dtype.itemsize >= 4 else x.float()
        for bins, (low, high) in itertools.product((1, 4, 37), ((0, 0), (-2, 2.5), (1, 1), (0, 9))):
            want = torch.histc(wide, bins, min=low, max=high).to(dtype)
            check_op(A.histc.out, x, bins, low, high, expected=want)
    edges = torch.tensor([-2.0, -1.0, 0.0, 1.0, 2.0, 2.5, NAN, torch.inf], dtype=dtype)
    check_op(A.histc.out, edges, 4, -2, 2)
    check_op(A.histc.out, laid_out(spread((3, 4, 5), dtype), [2, 0, 1]), 3, -2, 2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_histogram_equals_eager(dtype: torch.dtype) -> None:
    x = spread((40, 7), dtype)
    weight = spread((40, 7), dtype).abs()
    edges = torch.tensor([-3.0, -1.0, 0.25, 0.5, 4.0], dtype=dtype)
    for given, density in itertools.product((None, weight), (False, True)):
        for bins, bounds in itertools.product((1, 5, 64), (None, [-2.0, 2.5], [1.0, 1.0])):
            rows: dict[str, Any] = {"range": bounds, "weight": given, "density": density}
            check_op(A.histogram.bin_ct_out, x, bins, **rows, scale=4)
        rows = {"weight": given, "density": density}
        check_op(A.histogram.bins_tensor_out, x, edges, **rows, scale=4)
    order = [1, 0]
    want = torch.histogram(x, 5, weight=weight)
    for a, b in ((laid_out(x, order), weight), (x, laid_out(weight, order))):
        check_op(A.histogram.bin_ct_out, a, 5, weight=b, expected=list(want), scale=4)
    check_op(A.histogram.bin_ct_out, x[:0], 5)


@pytest.mark.parametrize("n_bins", [3, 700, 70000])
def test_counts_of_many_elements_do_not_depend_on_memory_or_threads(n_bins: int) -> None:
    x = spread((3, 9001), torch.float32)
    check_op(A.histc.out, x, n_bins, -4.1, 4.1)
    if n_bins < 1000:  # beyond, the last bits of eager's edges depend on its vectors' width
        check_op(A.histogram.bin_ct_out, x, n_bins)
    check_op(A.histogram.bins_tensor_out, x, spread((n_bins + 1,), torch.float32).sort()[0])


def test_bounds_are_numbers_of_the_elements_type_as_in_eager() -> None:
    x = torch.tensor([0.1, 0.7, 0.3], dtype=torch.float32)  # 0.1 and 0.3 are above theirs of f64
    check_op(A.histc.out, x, 2, 0.1, 0.3)
    assert torch.histc(x, 2, 0.1, 0.3).sum() == 2


@pytest.mark.parametrize("dtype", INTS, ids=str)
def test_bincount_equals_eager(dtype: torch.dtype) -> None:
    x = (torch.arange(50) * 7919 % 13).to(dtype)
    for least in (0, 5, 20):
        check_op(A.bincount.out, x, minlength=least)
        check_op(A.bincount.out, x[:0], minlength=least)
    for weights in (torch.float32, torch.float64, torch.float16, torch.int32, torch.bool):
        check_op(A.bincount.out, x, (torch.arange(50) % 4).to(weights))


def test_wrong_arguments_are_refused_with_words() -> None:
    x, out = torch.tensor([1.0, NAN]), [Out(torch.float32, (4,))]
    with pytest.raises(OpError, match="is not finite"):
        run_op("aten::histc.out", x, 4, 0, 0, out=out)
    with pytest.raises(OpError, match="expected max above min, got 0 and 1"):
        run_op("aten::histc.out", x, 4, 1, 0, out=out)
    with pytest.raises(OpError, match="bins: expected 1 or more, got 0"):
        run_op("aten::histc.out", x, 0, 0, 1, out=out)
    counts = [Out(torch.int64, (4,))]
    with pytest.raises(
        OpError, match=r"self\[1\]: expected 0 or more and less than 2\^31 - 1, got -1"
    ):
        run_op("aten::bincount.out", torch.tensor([1, -1]), None, 0, out=counts)
    with pytest.raises(OpError, match=r"weights: expected 2 real numbers .*, got f32\[3\]"):
        run_op("aten::bincount.out", torch.tensor([1, 2]), torch.ones(3), 0, out=counts)
    with pytest.raises(OpError, match="out: "):
        run_op("aten::bincount.out", torch.tensor([1, 9]), None, 0, out=counts)
    with pytest.raises(OpError, match=r"bins: expected 1 to 2\^31 - 2, got 9223372036854775807"):
        outs = [Out(torch.float32, (1,)), Out(torch.float32, (2,))]
        run_op("aten::histogram.bin_ct_out", x, 2**63 - 1, None, None, False, out=outs)
    with pytest.raises(OpError, match=r"bins: expected 2 edges .* of f32, as self, got f32\[1\]"):
        outs = [Out(torch.float32, (1,)), Out(torch.float32, (1,))]
        run_op("aten::histogram.bins_tensor_out", x, x[:1], None, False, out=outs)
    with pytest.raises(OpError, match=r"weight: expected f32\[2\], as self, got f32\[3\]"):
        run_op("aten::histogram.bins_tensor_out", x, x, torch.ones(3), False, out=outs)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_ranges_beyond_the_arithmetic_stay_inside_the_bins(dtype: torch.dtype) -> None:
    most = torch.finfo(dtype).max
    x = torch.tensor([-most, -1.0, 0.0, 1.0, most], dtype=dtype)
    for bound in (most, torch.finfo(torch.float64).max):
        (counts,) = run_op("aten::histc.out", x, 4, -bound, bound, out=[Out(dtype, (4,))])
        assert counts.sum() == 5
