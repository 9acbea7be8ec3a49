"""Random operators: the generator against its published test vector, the distributions against
their own definitions, and independence from threads. Every driver call draws as the first call of a
method with seed 0.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from support.op_driver import OpError, Out, isa_limit, isas, run_op
from support.op_values import DTYPES
from support.tolerance import SAMPLED_SHARES, assert_near

FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
N = 1 << 17


def _draw(
    name: str, *args: object, dtype: torch.dtype, shape: tuple[int, ...] = (N,)
) -> torch.Tensor:
    return run_op(name, *args, out=[Out(dtype, shape)])[0]


def test_the_generator_gives_the_published_numbers_of_philox() -> None:
    # philox4x32-10, counter 0, key 0 (the known-answer file of the Random123 distribution).
    words = [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    expected = [((words[i + 1] << 32 | words[i]) >> 11) * 2.0**-53 for i in (0, 2)]
    assert _draw("aten::rand.out", [2], dtype=torch.float64, shape=(2,)).tolist() == expected


@pytest.mark.parametrize("dtype", FLOATS)
def test_rand_is_uniform_over_the_unit_interval_without_one(dtype: torch.dtype) -> None:
    x = _draw("aten::rand.out", [N], dtype=dtype)
    assert x.min() >= 0 and x.max() < 1
    x = x.double()
    assert abs(x.mean() - 0.5) < 5 * math.sqrt(1 / 12 / N) + 2.0**-9
    assert abs(x.var() - 1 / 12) < 0.002
    counts = torch.histc(x, 16, 0, 1)
    chi_square = ((counts - N / 16) ** 2 / (N / 16)).sum()
    assert chi_square < 50  # 15 degrees of freedom: once in 10^5


@pytest.mark.parametrize("dtype", FLOATS)
def test_randn_is_standard_normal(dtype: torch.dtype) -> None:
    x = _draw("aten::randn.out", [N], dtype=dtype).double()
    assert abs(x.mean()) < 5 / math.sqrt(N)
    assert abs(x.var() - 1) < 5 * math.sqrt(2 / N)
    for z, tail in ((1.0, 0.15865525), (2.0, 0.02275013), (3.0, 0.0013499)):
        spread = 5 * math.sqrt(tail / N) + (0.004 if dtype == torch.bfloat16 else 0.0005)
        assert abs((x > z).double().mean() - tail) < spread
        assert abs((x < -z).double().mean() - tail) < spread
    pairs = x[: N // 2 * 2].reshape(-1, 2)
    assert abs((pairs[:, 0] * pairs[:, 1]).mean()) < 5 / math.sqrt(N / 2)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, torch.int64, torch.float32])
def test_randint_reaches_every_integer_of_its_range_alike(dtype: torch.dtype) -> None:
    x = _draw("aten::randint.low_out", 3, 10, [N], dtype=dtype).long()
    counts = torch.bincount(x)
    assert counts[:3].sum() == 0 and len(counts) == 10
    assert ((counts[3:] - N / 7).abs() < 5 * math.sqrt(N / 7)).all()
    assert torch.equal(_draw("aten::randint.out", 7, [N], dtype=dtype).long(), x - 3)


def test_randint_covers_the_whole_of_i64() -> None:
    low, high = -(2**63), 2**63 - 1
    x = _draw("aten::randint.low_out", low, high, [N], dtype=torch.int64)
    assert x.min() < low + 2**48 and x.max() > high - 2**48


def test_random_likes_take_shape_from_their_tensor() -> None:
    like = torch.zeros(3, 0, 2), torch.zeros(4, 5)
    for x in like:
        shape = tuple(x.shape)
        for name, args in [
            ("aten::rand_like.out", (x, None)),
            ("aten::randn_like.out", (x, None)),
            ("aten::randint_like.out", (x, 5, None)),
            ("aten::randint_like.low_dtype_out", (x, 2, 5, None)),
        ]:
            assert _draw(name, *args, dtype=torch.float32, shape=shape).shape == x.shape


@pytest.mark.parametrize("n", [0, 1, 2, 7, 1000])
def test_randperm_is_a_permutation(n: int) -> None:
    x = _draw("aten::randperm.out", n, dtype=torch.int64, shape=(n,))
    assert torch.equal(x.sort().values, torch.arange(n))


def test_multinomial_follows_its_weights() -> None:
    weights = torch.tensor([0.0, 1.0, 2.0, 5.0])
    x = _draw("aten::multinomial.out", weights, 4000, True, None, dtype=torch.int64, shape=(4000,))
    shares = torch.bincount(x, minlength=4) / 4000
    assert_near(shares, weights / 8, SAMPLED_SHARES)


def test_multinomial_without_replacement_gives_distinct_samples_in_every_row() -> None:
    weights = torch.rand(5, 9, generator=torch.Generator().manual_seed(0))
    weights[:, 4] = 0
    x = _draw("aten::multinomial.out", weights, 8, False, None, dtype=torch.int64, shape=(5, 8))
    for row in x:
        assert sorted(row.tolist()) == [0, 1, 2, 3, 5, 6, 7, 8]
    weights = torch.tensor([1.0, 3.0]).repeat(1000, 1)
    first = _draw(
        "aten::multinomial.out", weights, 1, False, None, dtype=torch.int64, shape=(1000, 1)
    )
    assert abs(first.double().mean() - 0.75) < 0.07


def test_multinomial_over_many_weights_follows_them() -> None:
    weights = torch.rand(70001, generator=torch.Generator().manual_seed(1)).double()
    weights[::3] = 0
    for n, replacement in ((5000, True), (5000, False), (46667, False)):
        x = _draw(
            "aten::multinomial.out", weights, n, replacement, None, dtype=torch.int64, shape=(n,)
        )
        assert (weights[x] > 0).all()
        assert replacement or x.unique().numel() == n
        share = weights[:35000].sum() / weights.sum() if n == 5000 else torch.tensor(0.5)
        assert abs((x < 35000).double().mean() - share) < 0.04


def test_every_instruction_set_draws_the_same_numbers() -> None:
    weights = torch.rand(3, 700, generator=torch.Generator().manual_seed(2))
    for n in (1, 2, 15, 16, 17, 255, 257, 1003):
        calls: list[tuple[str, list[Any], torch.dtype, tuple[int, ...]]] = [
            (f"aten::{name}.out", [[n]], dtype, (n,))
            for name in ("rand", "randn")
            for dtype in FLOATS
        ]
        calls += [("aten::randint.out", [1 << 40, [n]], torch.int64, (n,))]
        calls += [("aten::randperm.out", [n], torch.int16, (n,))]
        for k, again in ((min(n, 700), False), (n, True)):
            args = [weights, k, again, None]
            calls += [("aten::multinomial.out", args, torch.int64, (3, k))]
        for name, args, dtype, shape in calls:
            drawn = []
            for isa in isas():
                with isa_limit(isa):
                    drawn.append(_draw(name, *args, dtype=dtype, shape=shape))
            assert all(torch.equal(x, drawn[0]) for x in drawn), (name, n, dtype)


def test_multinomial_refuses_what_it_cannot_draw() -> None:
    for weights, n, words in [
        ([1.0, -1.0], 1, "weight 1: expected a finite number of 0 or more, got -1"),
        ([0.0, 0.0], 1, "all 2 weights are 0"),
        ([1.0, 0.0], 2, "2 samples without replacement from 1 weights"),
        ([1.0, math.inf], 1, "weight 1: expected a finite number of 0 or more, got inf"),
    ]:
        with pytest.raises(OpError, match=words):
            _draw(
                "aten::multinomial.out", torch.tensor(weights), n, False, None,
                dtype=torch.int64, shape=(n,),
            )  # fmt: skip


@pytest.mark.parametrize("dtype", FLOATS)
def test_dropout_in_training_drops_its_share_and_scales_the_rest(dtype: torch.dtype) -> None:
    x = torch.ones(64, 2048, dtype=dtype)
    outs = [Out(dtype, (64, 2048)), Out(torch.bool, (64, 2048))]
    y, mask = run_op("aten::native_dropout.out", x, 0.25, True, out=outs)
    assert abs(mask.double().mean() - 0.75) < 5 * math.sqrt(0.25 * 0.75 / N)
    assert torch.equal(y, x * mask * (1 / 0.75))


def test_dropout_in_training_handles_a_channels_last_tensor() -> None:
    x = torch.arange(2 * 3 * 4 * 5.0).reshape(2, 3, 4, 5) + 1
    last = x.to(memory_format=torch.channels_last)
    outs = [Out(torch.float32, (2, 3, 4, 5)), Out(torch.bool, (2, 3, 4, 5))]
    y, mask = run_op("aten::native_dropout.out", last, 0.5, None, out=outs)
    assert torch.equal(y, x * mask * 2)
    assert 0 < mask.sum() < mask.numel()


def test_numbers_do_not_depend_on_threads() -> None:
    for name in ("aten::rand.out", "aten::randn.out"):
        one, three = (
            run_op(name, [N + 3], out=[Out(torch.float32, (N + 3,))], threads=n)[0] for n in (1, 3)
        )
        assert torch.equal(one, three)


def test_rand_refuses_an_output_that_holds_no_real_numbers() -> None:
    for dtype in set(DTYPES) - set(FLOATS):
        with pytest.raises(OpError, match="rand: out: expected a real dtype"):
            _draw("aten::rand.out", [3], dtype=dtype, shape=(3,))
