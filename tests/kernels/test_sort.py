"""Sorting against eager torch, stable: every element type and layout, ties, NaN, both zeros."""

from __future__ import annotations

import itertools

import pytest
import torch
from support.element_samples import REAL, orders, sample
from support.op_driver import OpError, Out, check_op, run_op

aten = torch.ops.aten


def shuffled(
    shape: tuple[int, ...], dtype: torch.dtype, order: list[int] | None = None
) -> torch.Tensor:
    """Values with ties, in no order."""
    mixed = sample(shape, torch.int64) * 7919 % 61 - (0 if dtype == torch.uint8 else 30)
    x = (mixed % 2 == 0) if dtype == torch.bool else mixed.to(dtype)
    if order is None:
        return x
    return x.permute(order).contiguous().permute([order.index(d) for d in range(len(shape))])


@pytest.mark.parametrize("dtype", REAL, ids=str)
def test_sort_equals_the_stable_sort(dtype: torch.dtype) -> None:
    for shape in ((), (1,), (7,), (40,), (3, 50), (4, 5, 18), (0, 3), (3, 0)):
        for order, descending in itertools.product(orders(len(shape)), (False, True)):
            x = shuffled(shape, dtype, order)
            for dim in range(-1, len(shape)):
                want = torch.sort(x.contiguous(), stable=True, dim=dim, descending=descending)
                for out_order in orders(len(shape)):
                    check_op(
                        aten.sort.values,
                        x,
                        dim,
                        descending,
                        expected=list(want),
                        out_order=out_order,
                    )
                check_op(
                    aten.sort.values_stable,
                    x,
                    stable=True,
                    dim=dim,
                    descending=descending,
                    expected=list(want),
                )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_nan_is_the_greatest_and_zeros_are_equal(dtype: torch.dtype) -> None:
    nan, inf = float("nan"), float("inf")
    x = torch.tensor([0.0, nan, -0.0, -inf, 1.5, 0.0, nan, inf, -1.5, -0.0] * 3, dtype=dtype)
    for descending in (False, True):
        want = torch.sort(x, stable=True, dim=0, descending=descending)
        values, indices = check_op(aten.sort.values, x, 0, descending, expected=list(want))
        assert torch.equal(torch.signbit(values), torch.signbit(x[indices]))


def test_wrong_arguments_are_refused_with_words() -> None:
    out = [Out(torch.float32, (3,)), Out(torch.int64, (3,))]
    with pytest.raises(OpError, match="expected a dimension of a tensor of rank 1, got 1"):
        run_op("aten::sort.values", sample((3,)), 1, False, out=out)
    with pytest.raises(OpError, match="differ"):
        run_op("aten::sort.values", sample((3,), torch.int8), 0, False, out=out)
    with pytest.raises(OpError, match="indices: expected i64, got i32"):
        run_op("aten::sort.values", sample((3,)), 0, False, out=[out[0], Out(torch.int32, (3,))])
    with pytest.raises(OpError, match="out: "):
        run_op("aten::sort.values", sample((4,)), 0, False, out=out)


@pytest.mark.parametrize("dtype", REAL[:-1], ids=str)
@pytest.mark.parametrize("largest", [False, True])
def test_topk_takes_the_first_of_equal_elements_for_any_number(
    largest: bool, dtype: torch.dtype
) -> None:
    """The order is that of a stable sort; eager's choice among equal ones is not defined."""
    x = torch.cat([shuffled((3, 300), dtype), shuffled((3, 300), dtype).sort(1)[0]], 1)
    if dtype.is_floating_point:
        x[:, ::67] = float("nan")
    values, indices = x.sort(dim=1, descending=largest, stable=True)
    for k in (1, 10, 48, 49, 100):
        wanted = [values[:, :k], indices[:, :k]]
        check_op(aten.topk.values, x, k, 1, largest, expected=wanted)
        check_op(aten.topk.values, x.t(), k, 0, largest, expected=[t.t() for t in wanted])
