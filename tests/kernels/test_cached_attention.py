"""Attention over a key/value cache in panels, against plain torch on the same caches.

A query's result has the same bits whether a prompt comes at once, in pieces or token by token, with
any number of threads and every instruction set.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from support.op_driver import OpError, Out, assert_close, isa_limit, isas_and_dots, run_op

from executorch_py.exir.dialects import attention_ops

NAME = "executorch_py::cached_attention.out"
own = torch.ops.executorch_py
KINDS = ["f32", "f16", "i8"]


@dataclass(frozen=True)
class Case:
    """A prompt of `n` positions after `start` others."""

    dim: int = 64
    group: int = 2
    heads: int = 2  # of the cache
    n: int = 5
    start: int = 3
    capacity: int = 64
    window: int = 0
    sinks: int = 0
    softcap: float = 0.0
    rotated: int | None = None  # None: all of dim, if that is even
    interleaved: bool = False
    batch: int = 1
    value_dim: int | None = None

    @property
    def width(self) -> int:
        return self.dim if self.value_dim is None else self.value_dim

    @property
    def dims(self) -> int:
        return self.dim // 2 * 2 if self.rotated is None else self.rotated


CASES = {
    **{f"dim {d}": Case(dim=d) for d in (1, 8, 64, 80, 96, 128, 256, 300)},
    **{f"group {g}": Case(group=g, dim=16) for g in (1, 3, 4, 8)},
    **{f"{n} positions": Case(n=n, dim=24, start=0) for n in (1, 2, 17, 40)},
    "many rows": Case(n=40, group=4, dim=32, start=7, capacity=47),
    "several blocks": Case(n=9, start=760, capacity=900, dim=32),
    "one token behind blocks": Case(n=1, start=800, capacity=801, dim=64, heads=1, group=4),
    "a border of blocks": Case(n=30, start=245, capacity=300, dim=20),
    "window": Case(n=12, start=30, window=7, dim=16),
    "window, at the start": Case(n=12, start=0, window=7, dim=16, capacity=19),
    "window, wrapped": Case(n=9, start=95, window=10, capacity=18, dim=16),
    "window, wrapped in blocks": Case(n=33, start=610, window=280, capacity=312, dim=16, group=3),
    "window of one block border": Case(n=40, start=500, window=20, capacity=600, dim=16),
    "window of one": Case(n=4, start=5, window=1, capacity=4, dim=8),
    "sinks": Case(n=12, start=0, window=7, sinks=3, dim=16, capacity=24),
    "sinks, left behind": Case(n=12, start=30, window=7, sinks=4, dim=16, capacity=30),
    "sinks, wrapped": Case(n=9, start=95, window=10, sinks=4, dim=16, capacity=22),
    "sinks, one token": Case(n=1, start=95, window=10, sinks=4, capacity=14),
    "sinks in two panels": Case(n=8, start=70, window=10, sinks=20, capacity=50, group=3),
    "sinks in two blocks": Case(n=9, start=640, window=20, sinks=300, dim=16, capacity=350),
    "sinks, wrapped in blocks": Case(
        n=33, start=610, window=280, sinks=5, dim=16, group=3, capacity=317
    ),
    "sinks, not rotated": Case(n=9, start=40, window=9, sinks=2, rotated=0, capacity=21),
    "softcap": Case(softcap=5.0, n=7),
    "part of the dims rotated": Case(rotated=16, dim=40),
    "no rotation": Case(rotated=0),
    "interleaved": Case(interleaved=True, n=7),
    "interleaved part": Case(interleaved=True, rotated=6, dim=9),
    "batch 2": Case(batch=2, n=6, dim=12, group=3),
    "values of another size": Case(dim=24, value_dim=37),
    "everything": Case(
        dim=48,
        group=3,
        heads=2,
        n=20,
        start=290,
        capacity=300,
        window=270,
        softcap=20.0,
        rotated=32,
        batch=2,
        value_dim=20,
    ),
}


def floats(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape) + seed))


def empty_cache(case: Case, kind: str) -> dict[str, torch.Tensor]:
    shapes = attention_ops.cache_shapes(
        kind, case.batch, case.heads, case.capacity, case.dim, case.width
    )
    return {name: torch.zeros(shape, dtype=dtype) for name, (shape, dtype) in shapes.items()}


def copied(cache: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: t.clone() for name, t in cache.items()}


class Prompt:
    """Queries, keys and values of positions 0 … start + n."""

    def __init__(self, case: Case) -> None:
        total = case.start + case.n
        self.case = case
        self.query = floats(case.batch, total, case.heads * case.group, case.dim)
        self.key = floats(case.batch, total, case.heads, case.dim, seed=1)
        self.value = floats(case.batch, total, case.heads, case.width, seed=2)
        angles = floats(max(total, case.sinks + case.window), case.dims, seed=3)
        if not case.interleaved:
            half = angles[:, : case.dims // 2]
            angles = torch.cat((half, half), -1)
        self.cos, self.sin = (angles.cos(), angles.sin()) if case.dims else (None, None)

    def arguments(self, cache: dict[str, torch.Tensor], begin: int, end: int) -> tuple[Any, ...]:
        case = self.case
        rows = (t[:, begin:end].contiguous() for t in (self.query, self.key, self.value))
        at = torch.arange(begin, end)
        if case.sinks:
            at = torch.cat((at, torch.tensor([case.sinks + case.window - 1])))
        tables = (None if t is None else t[at] for t in (self.cos, self.sin))
        caches = (cache.get(name) for name in names())
        numbers = (case.capacity, case.window, case.dim**-0.5, case.softcap, case.interleaved)
        return (*rows, *tables, begin, *caches, *numbers, case.sinks)

    def run(
        self, cache: dict[str, torch.Tensor], begin: int, end: int, threads: int = 1
    ) -> torch.Tensor:
        case = self.case
        out = Out(torch.float32, (case.batch, end - begin, case.heads * case.group, case.width))
        args = self.arguments(cache, begin, end)
        (result,) = run_op(NAME, *args, out=[out], threads=threads)
        return result

    def filled(self, kind: str) -> dict[str, torch.Tensor]:
        """The cache with the positions before the prompt."""
        cache = empty_cache(self.case, kind)
        most = self.most
        for begin in range(0, self.case.start, most):
            self.run(cache, begin, min(begin + most, self.case.start))
        return cache

    @property
    def most(self) -> int:
        case = self.case
        return case.capacity - case.sinks - case.window + 1 if case.window else case.capacity


def names() -> tuple[str, ...]:
    return ("key_cache", "value_cache", "key_scales", "key_sums", "value_scales")


def pieces(case: Case, sizes: list[int]) -> list[tuple[int, int]]:
    """Parts of the prompt of these sizes, the last one repeated."""
    borders, at, i = [], case.start, 0
    end = case.start + case.n
    while at < end:
        to = min(end, at + sizes[min(i, len(sizes) - 1)])
        borders.append((at, to))
        at, i = to, i + 1
    return borders


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_results_and_caches_equal_plain_torch_however_a_prompt_is_divided(
    case: Case, kind: str
) -> None:
    prompt = Prompt(case)
    before = prompt.filled(kind)
    begin, end = case.start, case.start + case.n
    wanted_cache, cache = copied(before), copied(before)
    wanted = own.cached_attention(*prompt.arguments(wanted_cache, begin, end))
    whole = prompt.run(cache, begin, end)
    assert_close(whole, wanted, 4)
    for name, tensor in wanted_cache.items():
        assert torch.equal(cache[name], tensor), name
    for sizes in ([1], [3, 2], [case.n - 1, 1] if case.n > 1 else [1]):
        for threads in (1, 2, 3):
            again = copied(before)
            parts = [prompt.run(again, *border, threads) for border in pieces(case, sizes)]
            assert torch.equal(torch.cat(parts, 1), whole), (sizes, threads)
            for name, tensor in cache.items():
                assert torch.equal(again[name], tensor), name
    assert torch.equal(prompt.run(copied(before), begin, end, threads=3), whole)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "name",
    ["dim 80", "many rows", "window, wrapped in blocks", "sinks, wrapped in blocks", "softcap"],
)
def test_every_instruction_set_gives_the_same_bits(name: str, kind: str) -> None:
    case = CASES[name]
    prompt = Prompt(case)
    before = prompt.filled(kind)
    wanted = prompt.run(copied(before), case.start, case.start + case.n)
    for isa in isas_and_dots():
        with isa_limit(isa):
            got = prompt.run(copied(before), case.start, case.start + case.n)
        assert torch.equal(got, wanted), isa


@pytest.mark.parametrize("interleaved", [False, True])
def test_rotated_keys_have_the_bits_of_eager_torch(interleaved: bool) -> None:
    case = Case(dim=64, rotated=48, n=6, start=0, interleaved=interleaved)
    prompt, cache = Prompt(case), empty_cache(case, "f32")
    prompt.run(cache, 0, 6)
    keys = attention_ops.cached_keys(cache["key_cache"], None, 64)[:, :, :6]
    x = prompt.key
    if not interleaved:
        head, tail = x[..., :48], x[..., 48:]
        turned = torch.cat((-head[..., 24:], head[..., :24]), -1)
        rotated = head * prompt.cos[:, None] + turned * prompt.sin[:, None]
        assert torch.equal(keys, torch.cat((rotated, tail), -1).transpose(1, 2))
    wanted = attention_ops.rotated(x, prompt.cos, prompt.sin, interleaved)
    assert torch.equal(keys, wanted.transpose(1, 2))


def test_few_large_elements_of_keys_cost_a_cache_of_8_bits_little_precision() -> None:
    case = Case(dim=256, group=4, n=8, start=200, capacity=256)
    prompt = Prompt(case)
    for rows in (prompt.query, prompt.key):
        rows[..., 37] *= 20
    exact = prompt.run(prompt.filled("f32"), 200, 208)
    rounded = prompt.run(prompt.filled("i8"), 200, 208)
    error = (rounded - exact).square().mean().sqrt() / exact.square().mean().sqrt()
    assert error < 1 / 50


def test_a_cache_of_8_bits_is_close_to_floats() -> None:
    case = Case(dim=64, group=4, n=8, start=200, capacity=256)
    prompt = Prompt(case)
    exact = prompt.run(prompt.filled("f32"), 200, 208)
    rounded = prompt.run(prompt.filled("i8"), 200, 208)
    error = (rounded - exact).square().mean().sqrt() / exact.square().mean().sqrt()
    assert error < 1 / 50


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rotated", [16, 12])
def test_distances_to_sinks_are_those_of_positions_counted_in_the_cache(
    kind: str, rotated: int
) -> None:
    case = Case(n=3, start=30, window=7, sinks=4, dim=16, capacity=14, rotated=rotated)
    prompt = Prompt(case)
    angles = torch.arange(40)[:, None] / 10.0 ** torch.arange(rotated // 2)
    angles = torch.cat((angles, angles), -1)
    prompt.cos, prompt.sin = angles.cos(), angles.sin()
    found = prompt.run(prompt.filled(kind), 30, 33)
    for i in range(3):
        # The keys that the query sees, at adjacent positions, and the query at the last of them.
        at = torch.cat((torch.arange(4), torch.arange(24 + i, 31 + i)))
        near = Prompt(replace(case, n=1, start=10, window=0, sinks=0))
        near.cos, near.sin = prompt.cos, prompt.sin
        near.query, near.key, near.value = (
            t[:, at] for t in (prompt.query, prompt.key, prompt.value)
        )
        wanted = near.run(near.filled("f32"), 10, 11)
        error = (found[:, i] - wanted[:, 0]).square().mean().sqrt() / wanted.square().mean().sqrt()
        assert error < (1 / 50 if kind == "i8" else 1 / 1000)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_values_that_a_query_does_not_see_never_spoil_it(kind: str, bad: float) -> None:
    for case in (
        Case(n=6, start=0, dim=20),
        Case(n=12, start=30, window=7, dim=16, capacity=20),
        Case(n=12, start=30, window=7, sinks=2, dim=16, capacity=22),
    ):
        prompt = Prompt(case)
        before = prompt.filled(kind)
        begin, end = case.start, case.start + case.n
        prompt.value[:, begin + 4, 1] = bad
        whole = prompt.run(copied(before), begin, end, threads=2)
        again = copied(before)
        single = [prompt.run(again, at, at + 1) for at in range(begin, end)]
        assert torch.equal(torch.cat(single, 1).nan_to_num(7.0), whole.nan_to_num(7.0))
        assert whole[:, :4].isfinite().all()
        assert not whole[:, 4, case.group :].isfinite().any()
        assert whole[:, :, : case.group].isfinite().all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("which", ["query", "key", "value"])
def test_nan_spoils_the_results_of_its_own_head_only(kind: str, which: str) -> None:
    case = Case(n=5, start=0, heads=3, dim=8)
    prompt = Prompt(case)
    getattr(prompt, which)[0, 2, 1, 3] = math.nan
    result = prompt.run(empty_cache(case, kind), 0, 5)
    spoiled = result.isnan().any(-1)[0]
    wanted = torch.zeros(5, 6, dtype=torch.bool)
    if which == "query":
        wanted[2, 1] = True
    else:
        wanted[2:, 2:4] = True
    assert torch.equal(spoiled, wanted)


def test_slots_that_no_query_sees_are_never_read() -> None:
    case = Case(n=3, start=4, capacity=40, dim=8)
    prompt = Prompt(case)
    cache = prompt.filled("f32")
    wanted = prompt.run(copied(cache), 4, 7)
    cache["key_cache"][:, :, 0, :, 7:] = math.nan
    cache["key_cache"][:, :, 1:] = math.nan
    cache["value_cache"][:, :, :, 7:] = math.inf
    assert torch.equal(prompt.run(cache, 4, 7), wanted)


def test_operands_take_any_layout() -> None:
    case = Case(n=6, start=2, dim=12, batch=2)
    prompt = Prompt(case)
    before = prompt.filled("f32")
    wanted = prompt.run(copied(before), 2, 8)
    args = list(prompt.arguments(copied(before), 2, 8))
    for i in range(3):
        args[i] = args[i].permute(3, 1, 2, 0).contiguous().permute(3, 1, 2, 0)
    out = Out(torch.float32, tuple(wanted.shape), (0, 2, 1, 3))
    (result,) = run_op(NAME, *args, out=[out])
    assert torch.equal(result, wanted)


BASE = Case(n=3, start=2, capacity=20, dim=8)
I_CAPACITY, I_WINDOW, I_SINKS = 11, 12, 16
# what: kind of cache, changes of arguments, words of the refusal
REFUSALS: dict[str, tuple[str, dict[int, Any], str]] = {
    "rank": ("f32", {0: torch.zeros(3, 4, 8)}, "query: expected f32 .batch, position"),
    "dtype": ("f32", {1: torch.zeros(1, 3, 2, 8).double()}, "double|in_dtypes|dtype|key: expected"),
    "positions differ": ("f32", {2: torch.zeros(1, 4, 2, 8)}, "value: expected the query's batch"),
    "head size": ("f32", {1: torch.zeros(1, 3, 2, 6)}, "key: expected head size 8"),
    "no head size": ("f32", {2: torch.zeros(1, 3, 2, 0)}, "value: expected a head size of 1 to"),
    "heads": ("f32", {0: torch.zeros(1, 3, 5, 8)}, "query: expected heads in a multiple of"),
    "one table": ("f32", {4: None}, "expected both cos and sin or neither"),
    "odd table": ("f32", {3: torch.zeros(3, 7), 4: torch.zeros(3, 7)}, "cos: expected contiguous"),
    "wide table": ("f32", {3: torch.zeros(3, 10), 4: torch.zeros(3, 10)}, "an even size up to 8"),
    "short table": ("f32", {4: torch.zeros(2, 8)}, "sin: expected contiguous f32"),
    "negative start": ("f32", {5: -1}, "start_pos: expected 0 to"),
    "far start": ("f32", {5: 1 << 40}, "start_pos: expected 0 to"),
    "beyond the cache": ("f32", {5: 18}, "expected positions below the capacity 20"),
    "capacity": ("f32", {I_CAPACITY: 0}, "capacity: expected 1 or more"),
    "other capacity": ("f32", {I_CAPACITY: 33}, "key_cache: expected contiguous f32"),
    "window": ("f32", {I_WINDOW: 21}, "window: expected 0 to the capacity"),
    "negative window": ("f32", {I_WINDOW: -1}, "window: expected 0 to the capacity"),
    "too many at once": ("f32", {5: 18, I_WINDOW: 19}, "expected at most 2 positions at once"),
    "sinks without a window": (
        "f32",
        {I_SINKS: 1, **dict.fromkeys((3, 4), torch.zeros(4, 8))},
        "sinks: expected 0, or a window and at most 20",
    ),
    "negative sinks": ("f32", {I_WINDOW: 5, I_SINKS: -1}, "sinks: expected 0, or a window"),
    "too many sinks": (
        "f32",
        {I_WINDOW: 15, I_SINKS: 6, **dict.fromkeys((3, 4), torch.zeros(4, 8))},
        "sinks: expected 0, or a window and at most 5 beside it, got 6",
    ),
    "too many at once beside sinks": (
        "f32",
        {5: 18, I_WINDOW: 16, I_SINKS: 3, **dict.fromkeys((3, 4), torch.zeros(4, 8))},
        "expected at most 2 positions at once, the capacity 20 less 3 sinks and the window 16",
    ),
    "no row for sinks": ("f32", {I_WINDOW: 5, I_SINKS: 2}, "cos: expected contiguous f32 .4 pos"),
    "cache dtype": ("f32", {6: torch.zeros(1, 2, 2, 8, 16, dtype=torch.int32)}, "key_cache: exp"),
    "cache shape": ("f32", {7: torch.zeros(1, 2, 1, 16, 16)}, "value_cache: expected contiguous"),
    "scales of floats": ("f16", {8: torch.zeros(1, 2, 2, 16)}, "key_scales: expected None"),
    "no scales": ("i8", {10: None}, "value_scales: expected a tensor"),
    "sums": ("i8", {9: torch.zeros(1, 2, 2, 16)}, "key_sums: expected contiguous i32"),
}


@pytest.mark.parametrize("case", REFUSALS.values(), ids=REFUSALS)
def test_refusals_name_the_argument_and_leave_the_caches_alone(case: Any) -> None:
    kind, changes, words = case
    prompt = Prompt(BASE)
    cache = prompt.filled(kind)
    before = copied(cache)
    args = list(prompt.arguments(cache, 2, 5))
    for i, value in changes.items():
        args[i] = value
    out = [Out(torch.float32, (1, 3, 4, 8))]
    with pytest.raises(OpError, match=words):
        run_op(NAME, *args, out=out)
    for name, tensor in before.items():
        assert torch.equal(cache[name], tensor), name


def test_a_call_without_positions_changes_nothing() -> None:
    prompt = Prompt(BASE)
    cache = prompt.filled("f32")
    before = copied(cache)
    assert prompt.run(cache, 4, 4).shape == (1, 0, 4, 8)
    assert all(torch.equal(cache[name], t) for name, t in before.items())


def test_a_longer_cache_gives_the_same_bits() -> None:
    short = Case(n=7, start=3, capacity=10, dim=16)
    wanted = Prompt(short).run(Prompt(short).filled("f32"), 3, 10)
    for capacity in (16, 300, 1000):
        case = replace(short, capacity=capacity)
        assert torch.equal(Prompt(case).run(Prompt(case).filled("f32"), 3, 10), wanted)


def test_eager_torch_refuses_what_the_kernel_refuses() -> None:
    prompt = Prompt(BASE)
    cache = prompt.filled("f32")
    args = list(prompt.arguments(cache, 2, 5))
    args[5] = 18
    with pytest.raises(RuntimeError, match="positions: expected at most 20, got 21"):
        own.cached_attention(*args)
    with pytest.raises(ValueError, match="kind: expected one of f32, f16, i8"):
        attention_ops.cache_shapes("bf16", 1, 1, 1, 1)
