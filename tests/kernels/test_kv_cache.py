"""The operators of the llama:: library: caches and attention over them, against their definition
in torch (which the exporter's eager operators are)."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from support.element_samples import laid_out, sample
from support.op_driver import OpError, Out, assert_close, check_op, run_growing, run_op

import executorch_py.extension.llm.custom_ops.custom_ops  # noqa: F401

llama = torch.ops.llama
DUMMY = [Out(torch.float32, (1,))]
FLOATS = [torch.float32, torch.float16, torch.bfloat16]

# batch, queries, query heads, key/value heads, head size, cache positions, start_pos
SHAPES = [
    (1, 1, 1, 1, 1, 1, 0),
    (1, 1, 8, 2, 64, 300, 255),
    (1, 1, 4, 4, 16, 129, 128),
    (2, 7, 6, 3, 17, 31, 5),
    (1, 40, 4, 2, 32, 200, 131),
    (1, 3, 2, 1, 300, 20, 2),
    (3, 19, 2, 2, 8, 19, 0),
    (0, 2, 2, 2, 8, 5, 0),
    (1, 0, 2, 2, 8, 5, 5),
]


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def tensors(shape: tuple[int, ...], dtype: torch.dtype) -> list[torch.Tensor]:
    batch, n, heads, kv_heads, dim, size, _ = shape
    made = [torch.randn(batch, n, heads, dim)]
    made += [torch.randn(batch, size, kv_heads, dim) for _ in range(2)]
    return [t.to(dtype) for t in made]


def truth(args: list[torch.Tensor], *rest: Any) -> torch.Tensor:
    """The result in f32, rounded once."""
    return llama.custom_sdpa(*(t.float() for t in args), *rest).to(args[0].dtype)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_attention_equals_its_definition(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    args, start = tensors(shape, dtype), shape[-1]
    for rest in ((None, 0.0, True), (None, 0.0, False), (None, 0.0, True, 0.3)):
        expected = truth(args, start, *rest)
        check_op(llama.custom_sdpa.out, *args, start, *rest, expected=expected, scale=2)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_attention_with_a_mask_covers_the_whole_cache(
    shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    args = tensors(shape, dtype)
    mask = torch.randn(shape[1], shape[5])
    seen = (mask > 0) | (torch.arange(shape[5]) == 0)
    for m in (mask, seen, mask.masked_fill(~seen, -math.inf)):
        expected = truth(args, shape[-1], m)
        check_op(llama.custom_sdpa.out, *args, shape[-1], m, expected=expected, scale=2)


def test_few_queries_run_in_the_memory_that_many_were_prepared_with() -> None:
    dim, size = 4096, 32
    bound = tensors((1, 16, 2, 2, dim, size, 0), torch.float32)
    rest = [None, 0.0, True, None]
    calls = [[bound[0][:, :n], *bound[1:], 7, *rest] for n in (16, 6, 4, 1)]
    out = [Out(torch.float32, tuple(bound[0].shape))]
    for threads in (1, 3):
        given = run_growing(
            "llama::custom_sdpa.out", [*bound, 7, *rest], calls, out, threads=threads
        )
        for found, args in zip(given, calls, strict=True):
            assert_close(found[0], llama.custom_sdpa(*args), 2)


def test_attention_takes_any_layout() -> None:
    args = tensors((2, 5, 4, 2, 24, 140, 130), torch.float32)
    orders = [(0, 2, 1, 3), (3, 2, 1, 0), (0, 1, 3, 2)]
    expected = truth(args, 130, None, 0.0, True)
    for order in orders:
        given = [laid_out(t, order) for t in args]
        check_op(
            llama.custom_sdpa.out, *given, 130, None, 0.0, True, expected=expected, out_order=order
        )
    mask = torch.randn(140, 5).T
    check_op(llama.custom_sdpa.out, *args, 130, mask, expected=truth(args, 130, mask))


def test_keys_after_the_queries_are_never_read() -> None:
    args = tensors((1, 3, 2, 1, 8, 20, 4), torch.float32)
    expected = truth(args, 4, None, 0.0, True)
    for t in args[1:]:
        t[:, 7:] = torch.nan
    check_op(llama.custom_sdpa.out, *args, 4, None, 0.0, True, expected=expected)


def test_a_query_that_sees_nothing_gives_nan() -> None:
    args = tensors((1, 2, 2, 1, 8, 200, 0), torch.float32)
    mask = torch.zeros(2, 200, dtype=torch.bool)
    mask[0, 150] = True
    (y,) = check_op(llama.custom_sdpa.out, *args, 0, mask, expected=truth(args, 0, mask))
    assert torch.equal(y[0, 0], args[2][0, 150].expand(2, 8))
    assert y[0, 1].isnan().all()


def test_a_score_of_nan_spoils_its_own_row_only() -> None:
    args = tensors((1, 2, 2, 2, 8, 300, 290), torch.float32)
    args[0][0, 1, 1, 3] = torch.nan
    check_op(llama.custom_sdpa.out, *args, 290, expected=truth(args, 290), scale=2)


def test_attention_that_writes_its_caches_first() -> None:
    q, k, v = (torch.randn(1, 3, h, 8) for h in (4, 2, 2))
    for start in (0, 5, 7):
        caches = [torch.randn(1, 10, 2, 8) for _ in range(2)]
        wanted = [c.clone() for c in caches]
        expected = llama.sdpa_with_kv_cache(q, k, v, *wanted, start, 3, None, 0.0, True)
        (y,) = run_op(
            "llama::sdpa_with_kv_cache.out",
            q,
            k,
            v,
            *caches,
            start,
            3,
            None,
            0.0,
            True,
            None,
            out=[Out(torch.float32, q.shape)],
        )
        torch.testing.assert_close(y, expected)
        assert torch.equal(caches[0], wanted[0]) and torch.equal(caches[1], wanted[1])


@pytest.mark.parametrize("dtype", [torch.int8, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 2, 1, 3), (3, 1, 0, 2)], ids=str)
def test_update_cache_writes_new_positions_in_place(dtype: torch.dtype, order: Any) -> None:
    value = laid_out(sample((2, 3, 2, 5), dtype), order)
    for start in (0, 2, 4):
        cache = laid_out(torch.zeros(2, 7, 2, 5, dtype=dtype), order)
        expected = cache.clone()
        expected[:, start : start + 3] = value
        run_op("llama::update_cache.out", value, cache, start, out=DUMMY)
        assert torch.equal(cache, expected)


def test_update_cache_of_nothing_changes_nothing() -> None:
    cache = torch.ones(1, 4, 2, 2)
    run_op("llama::update_cache.out", torch.ones(1, 0, 2, 2), cache, 4, out=DUMMY)
    assert torch.equal(cache, torch.ones(1, 4, 2, 2))


def test_update_cache_with_indices_writes_where_they_say() -> None:
    value = sample((2, 3, 2, 5))
    for rows in ([[0, 1, 2], [6, 0, 3]], [[5, 5, 4], [1, 1, 1]]):
        cache, expected, indices = (
            torch.zeros(2, 7, 2, 5),
            torch.zeros(2, 7, 2, 5),
            torch.tensor(rows),
        )
        llama.update_cache_with_indices(value, expected, 0, indices)
        run_op("llama::update_cache_with_indices.out", value, cache, 0, indices, out=DUMMY)
        assert torch.equal(cache, expected)


def test_the_fallback_operator_copies_in_any_layout() -> None:
    for x in (sample((2, 3), torch.int64), sample(()), sample((0, 2))):
        check_op(llama.fallback.out, x, expected=x)
    x = laid_out(sample((2, 3, 4)), (2, 0, 1))
    check_op(llama.fallback.out, x, expected=x, out_order=(0, 1, 2))


BAD_UPDATES: list[tuple[str, torch.Tensor, int]] = [
    ("within the cache's 6, got start_pos 5 and 2 positions", torch.ones(1, 2, 3, 4), 5),
    ("start_pos -1", torch.ones(1, 2, 3, 4), -1),
    (f"start_pos {2**62}", torch.ones(1, 2, 3, 4), 2**62),
    (f"start_pos {-(2**63)}", torch.ones(1, 2, 3, 4), -(2**63)),
    ("value: dimension 2: expected size 3, as the cache, got 2", torch.ones(1, 2, 2, 4), 0),
    ("expected value and cache of rank 4, .*, got ranks 3 and 4", torch.ones(1, 2, 3), 0),
    ("value and cache", torch.ones(1, 2, 3, 4, dtype=torch.float64), 0),
]


@pytest.mark.parametrize(("words", "value", "start"), BAD_UPDATES)
def test_a_wrong_update_is_refused_and_leaves_the_cache(
    words: str, value: torch.Tensor, start: int
) -> None:
    cache = torch.zeros(1, 6, 3, 4)
    with pytest.raises(OpError, match=words):
        run_op("llama::update_cache.out", value, cache, start, out=DUMMY)
    assert not cache.any()


def test_wrong_indices_are_refused_and_leave_the_cache() -> None:
    cache, value = torch.zeros(1, 6, 3, 4), torch.ones(1, 2, 3, 4)
    for words, indices in (
        ("index 6 is outside of the cache's 6 positions", torch.tensor([[0, 6]])),
        ("index -1 is outside", torch.tensor([[0, -1]])),
        ("expected i64.1, 2.", torch.tensor([[0, 1]], dtype=torch.int32)),
        ("expected i64.1, 2.", torch.tensor([[0, 1, 2]])),
        ("of rank 1", torch.tensor([0, 1])),
    ):
        with pytest.raises(OpError, match=words):
            run_op("llama::update_cache_with_indices.out", value, cache, 0, indices, out=DUMMY)
        assert not cache.any()


def test_wrong_attention_is_refused_with_words() -> None:
    q, kv, mask = torch.ones(1, 3, 4, 8), torch.ones(1, 10, 2, 8), torch.ones(3, 10)
    rows: list[tuple[str, list[Any]]] = [
        ("within the cache's 10, got start_pos 8 and 3 positions", [q, kv, kv, 8]),
        ("start_pos -1", [q, kv, kv, -1]),
        ("start_pos: expected 0 or more, got -1", [q, kv, kv, -1, mask]),
        ("expected attn_mask or is_causal, got both", [q, kv, kv, 2, mask, 0.0, True]),
        (
            r"attn_mask: expected shape \[3, 10\], .*, got \[3, 5\]",
            [q, kv, kv, 2, mask[:, :5].clone()],
        ),
        (r"attn_mask: expected shape .*, got \[1, 3, 10\]", [q, kv, kv, 2, mask[None]]),
        ("attn_mask: expected f32 or b8, got f64", [q, kv, kv, 2, mask.double()]),
        (
            "expected a multiple of the 2 key heads, got 3 heads",
            [torch.ones(1, 3, 3, 8), kv, kv, 2],
        ),
        ("query: expected f32, f16 or bf16, got f64", [q.double(), kv.double(), kv.double(), 2]),
        ("expected one dtype, got query f16", [q.half(), kv, kv, 2]),
        ("different shapes", [q, kv, torch.ones(1, 10, 2, 6), 2]),
        ("head size 8, the keys 1 and 6", [q, torch.ones(1, 10, 2, 6), torch.ones(1, 10, 2, 6), 2]),
        ("expected query, key and value of rank 4, .*, got ranks 3, 4 and 4", [q[0], kv, kv, 2]),
    ]
    for words, given in rows:
        rest = [None, 0.0, False, None][len(given) - 4 :]
        with pytest.raises(OpError, match=words):
            run_op(
                "llama::custom_sdpa.out", *given, *rest, out=[Out(given[0].dtype, given[0].shape)]
            )


def test_refused_attention_leaves_its_caches() -> None:
    q, caches = torch.ones(1, 3, 2, 8), [torch.zeros(1, 10, 2, 8) for _ in range(2)]
    for words, start, length, mask in (
        ("within the cache's 10", 8, 3, None),
        ("within the cache's 10", 0, 11, None),
        ("expected shape .3, 10.", 0, 3, torch.ones(3, 3)),
    ):
        with pytest.raises(OpError, match=words):
            run_op(
                "llama::sdpa_with_kv_cache.out",
                q,
                q,
                q,
                *caches,
                start,
                length,
                mask,
                0.0,
                False,
                None,
                out=[Out(torch.float32, q.shape)],
            )
        assert not caches[0].any() and not caches[1].any()
