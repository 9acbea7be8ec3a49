"""Operators that copy a whole tensor, against eager torch: layouts, types, repetition."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from support.element_samples import ALL, COMPLEX, ONE_PER_SIZE, REAL, orders, sample
from support.op_driver import OpError, Out, check_op, isa_limit, isas, run_op
from support.tolerance import EXACT, assert_near

aten = torch.ops.aten
SHAPES = [(), (5,), (0, 3), (3, 4), (2, 3, 4), (2, 3, 5, 4), (1, 3, 1, 7)]


@pytest.mark.parametrize("name", ["alias_copy", "detach_copy", "lift_fresh_copy", "clone"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_plain_copies_change_the_layout_only(name: str, shape: tuple[int, ...]) -> None:
    op = getattr(aten, name).out
    for dtype, order in itertools.product(ONE_PER_SIZE, orders(len(shape))):
        x = sample(shape, dtype, order)
        for out_order in orders(len(shape)):
            check_op(op, x, expected=x, out_order=out_order)


@pytest.mark.parametrize("name", ["et_copy::_h2d_copy.out", "et_copy::_d2h_copy.out"])
def test_device_copies_are_plain_copies(name: str) -> None:
    x = sample((3, 4))
    (y,) = run_op(name, x, out=[Out(torch.float32, (3, 4))], prepared=True)
    assert torch.equal(x, y)


@pytest.mark.parametrize("planes", [2, 3, 4, 5])
def test_few_planes_become_pixels(planes: int) -> None:
    for dtype, n in itertools.product(ONE_PER_SIZE, (1, 3, 4, 5, 8, 9, 15, 16, 17, 33, 70)):
        x = sample((planes, n), dtype, (0, 1))
        check_op(torch.ops.aten.permute_copy.out, x, [1, 0])


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_every_element_type_is_copied(dtype: torch.dtype) -> None:
    x = sample((3, 5), dtype)
    check_op(aten.clone.out, x, expected=x, out_order=[1, 0])
    check_op(aten.copy.out, torch.zeros_like(x), x)
    check_op(aten.repeat.out, x, [2, 3])


@pytest.mark.parametrize("to", REAL, ids=str)
@pytest.mark.parametrize("source", REAL + COMPLEX, ids=str)
def test_conversions_equal_eager(source: torch.dtype, to: torch.dtype) -> None:
    x = sample((3, 5, 4), source)
    want = x.real.to(to) if source.is_complex else x.to(to)
    for order, out_order in itertools.product(orders(3), orders(3)):
        y = sample((3, 5, 4), source, order)
        check_op(aten._to_copy.out, y, expected=want, out_order=out_order)


@pytest.mark.parametrize("source", REAL, ids=str)
def test_conversions_give_the_same_bits_on_every_instruction_set(source: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(5)
    bits = torch.randint(0, 256, (521 * source.itemsize,), dtype=torch.uint8, generator=generator)
    bits = bits & 1 if source == torch.bool else bits
    special = [float("inf"), -float("inf"), float("nan"), -0.0, 2.0**31, -(2.0**31), 2.0**63, 1e30]
    ends = torch.tensor(special).to(source) if source.is_floating_point else bits.view(source)[:1]
    x = torch.cat([bits.view(source), ends, sample((100,), source)])
    for to in REAL:
        results = []
        for isa in isas():
            with isa_limit(isa):
                (y,) = run_op("aten::_to_copy.out", x, False, None, out=[Out(to, x.shape)])
            results.append(y)
        for y in results[1:]:
            assert_near(y, results[0], EXACT, equal_nan=True)


def test_dim_order_copies_convert_layout_and_type() -> None:
    channels_last = [0, 2, 3, 1]
    x = sample((2, 3, 4, 5))
    for source, order in itertools.product(
        (x, sample((2, 3, 4, 5), order=channels_last)), ([0, 1, 2, 3], channels_last)
    ):
        for dtype in (torch.float32, torch.int64, torch.bool):
            out = [Out(dtype, x.shape, order, dynamic=False)]
            for prepared in (False, True):
                (y,) = run_op(
                    "dim_order_ops::_to_dim_order_copy.out",
                    source,
                    False,
                    order,
                    out=out,
                    prepared=prepared,
                )
                assert torch.equal(y, x.to(dtype))
        out = [Out(torch.float32, x.shape, order)]
        (y,) = run_op("dim_order_ops::_clone_dim_order.out", source, False, None, out=out)
        assert torch.equal(y, x)


def test_empty_dim_order_resizes_only() -> None:
    out = [Out(torch.float32, (4, 5), start=(0, 0))]
    (y,) = run_op("dim_order_ops::_empty_dim_order.out", [2, 5], None, out=out)
    assert y.shape == (2, 5)
    with pytest.raises(OpError, match="empty: expected a size of 0 to 2147483647, got -5"):
        run_op("dim_order_ops::_empty_dim_order.out", [2, -5], None, out=out)


COPIES = [
    ((3, 4), (3, 4)),
    ((3, 4), (4,)),
    ((3, 4), ()),
    ((2, 3, 4), (3, 1)),
    ((0, 4), (1, 4)),
    ((), ()),
    ((), (1,)),
]


@pytest.mark.parametrize("shape, source", [c for c in COPIES if len(c[1]) <= len(c[0])], ids=str)
def test_copy_broadcasts_and_converts(shape: tuple[int, ...], source: tuple[int, ...]) -> None:
    pairs = [
        (torch.float32, torch.float32),
        (torch.float32, torch.int64),
        (torch.bool, torch.float32),
    ]
    pairs.append((torch.int8, torch.float64))
    for to, dtype in pairs:
        for order in orders(len(shape)):
            target = sample(shape, to, order)
            check_op(aten.copy.out, target, sample(source, dtype))
            for source_order in orders(len(source)):
                updated = target.clone(memory_format=torch.preserve_format)
                run_op("aten::copy_", updated, sample(source, dtype, source_order), False)
                assert torch.equal(updated, target.clone().copy_(sample(source, dtype)))


def test_copy_over_itself_changes_nothing() -> None:
    x = sample((3, 4))
    run_op("aten::copy_", x, x, False)
    assert torch.equal(x, sample((3, 4)))


REPEATS: list[tuple[tuple[int, ...], list[int]]] = [
    ((), []),
    ((), [3]),
    ((4,), [1]),
    ((4,), [3]),
    ((4,), [2, 3]),
    ((3, 4), [2, 1]),
    ((3, 4), [1, 5]),
    ((2, 3, 4), [2, 2, 2]),
    ((2, 1, 3), [1, 4, 2]),
    ((3, 4), [0, 2]),
    ((3, 0), [2, 2]),
    ((1, 1), [3, 5]),
    ((2,) * 6, [2] * 6),
]


@pytest.mark.parametrize("shape, repeats", REPEATS, ids=str)
def test_repeat_equals_eager(shape: tuple[int, ...], repeats: list[int]) -> None:
    for dtype, order in itertools.product(ONE_PER_SIZE, orders(len(shape))):
        x = sample(shape, dtype, order)
        for out_order in orders(len(repeats)):
            check_op(aten.repeat.out, x, repeats, out_order=out_order)


BIG = 9223372036854775807
REFUSED: list[tuple[str, list[Any], Out, str]] = [
    (
        "aten::repeat.out",
        [sample((2, 3)), [2]],
        Out(torch.float32, (4, 3)),
        "repeat: expected a count for each new and old dimension, got 1 for a tensor",
    ),
    (
        "aten::repeat.out",
        [sample((2, 3)), [2, -1]],
        Out(torch.float32, (4, 3)),
        "repeat: count: expected 0 or more, got -1",
    ),
    (
        "aten::repeat.out",
        [sample((2, 3)), [BIG, BIG]],
        Out(torch.float32, (4, 3)),
        "repeat: count: expected 0 or more, got 9223372036854775807",
    ),
    (
        "aten::repeat.out",
        [sample((2, 3)), [2147483647, 1]],
        Out(torch.float32, (4, 3)),
        "repeat: expected a size of 0 to 2147483647, got 4294967294",
    ),
    ("aten::repeat.out", [sample((2, 3)), [1000000, 1000000]], Out(torch.float32, (4, 3)), "out: "),
    (
        "aten::copy.out",
        [sample((2, 3)), sample((2,)), False],
        Out(torch.float32, (2, 3)),
        r"\[2\] does not broadcast",
    ),
    (
        "aten::copy.out",
        [sample((2, 3)), sample((2, 3)), False],
        Out(torch.float64, (2, 3)),
        "f32 and f64 differ",
    ),
    ("aten::clone.out", [sample((2, 3)), None], Out(torch.float64, (2, 3)), "f32 and f64 differ"),
]


@pytest.mark.parametrize("name, args, out, words", REFUSED)
def test_wrong_arguments_are_refused_with_words(
    name: str, args: list[Any], out: Out, words: str
) -> None:
    for prepared in (False, True):
        with pytest.raises(OpError, match=words):
            run_op(name, *args, out=[out], prepared=prepared)
