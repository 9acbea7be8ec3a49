"""Attention as one kernel, against eager torch: shapes, layouts, masks, types, bits."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from support.element_samples import laid_out
from support.op_driver import OpError, Out, check_op, isa_limit, isas, run_op

from executorch_py.exir.ir.attention_op import attention_out

NAME = "executorch_py::scaled_dot_product_attention.out"
OUT = attention_out()
FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]

# shapes of query and key, columns of value
SHAPES: list[tuple[tuple[int, ...], tuple[int, ...], int]] = [
    ((1, 1, 1, 1), (1, 1, 1, 1), 1),
    ((3, 4), (5, 4), 7),
    ((2, 3, 4), (2, 5, 4), 4),
    ((1, 2, 33, 64), (1, 2, 197, 64), 64),
    ((2, 3, 17, 31), (2, 3, 129, 31), 31),
    ((1, 2, 1, 64), (1, 2, 300, 64), 64),
    ((1, 1, 40, 300), (1, 1, 20, 300), 280),
    ((2, 2, 2, 3, 8), (2, 2, 2, 9, 8), 5),
    ((2, 3, 6, 8), (1, 3, 9, 8), 8),
    ((2, 1, 6, 8), (3, 9, 8), 8),
    ((1, 2, 0, 8), (1, 2, 9, 8), 8),
    ((1, 2, 4, 8), (1, 2, 0, 8), 8),
    ((1, 2, 4, 0), (1, 2, 3, 0), 8),
    ((0, 2, 4, 8), (0, 2, 3, 8), 8),
]


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def tensors(
    shape: tuple[tuple[int, ...], tuple[int, ...], int], dtype: torch.dtype = torch.float32
) -> list[torch.Tensor]:
    query, key, columns = shape
    made = [torch.randn(query), torch.randn(key), torch.randn((*key[:-1], columns))]
    return [t.to(dtype) for t in made]


def truth(args: list[torch.Tensor], *rest: Any, **kwargs: Any) -> torch.Tensor:
    """The result by definition: in f32 at least, rounded once."""
    wide = torch.promote_types(args[0].dtype, torch.float32)
    mask = rest[0] if rest else None
    if mask is not None and mask.dtype == torch.bool:
        mask = torch.zeros(mask.shape).masked_fill(~mask, -math.inf)
    if mask is not None:
        rest = (mask.to(wide), *rest[1:])
    y, _ = torch.ops.aten._scaled_dot_product_attention_math(
        *(t.to(wide) for t in args), *rest, **kwargs
    )
    return y.to(args[0].dtype).contiguous()


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_attention_equals_eager(shape: Any, dtype: torch.dtype) -> None:
    args = tensors(shape, dtype)
    check_op(OUT, *args, expected=truth(args), scale=2)
    check_op(OUT, *args, None, 0.0, True, expected=truth(args, None, 0.0, True), scale=2)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_masks_are_added_or_say_what_is_seen(shape: Any, dtype: torch.dtype) -> None:
    args = tensors(shape, dtype)
    n_queries, n_keys = args[0].shape[-2], args[1].shape[-2]
    for sizes in ((n_queries, n_keys), (1, n_keys), (*args[0].shape[:-1], n_keys), (n_queries, 1)):
        numbers = torch.randn(sizes)
        for mask in (numbers, numbers.to(dtype), numbers > -0.5):
            check_op(OUT, *args, mask, expected=truth(args, mask), scale=2)


@pytest.mark.parametrize("order", [(0, 2, 1, 3), (3, 2, 1, 0), (0, 1, 3, 2), (2, 0, 1, 3)], ids=str)
def test_any_layout_is_read_and_written(order: tuple[int, ...]) -> None:
    args = tensors(((2, 3, 35, 24), (2, 3, 140, 24), 24))
    mask = torch.randn(2, 3, 35, 140)
    given = [laid_out(t, order) for t in (*args, mask)]
    check_op(OUT, *given, expected=truth(args, mask), out_order=order, scale=2)
    check_op(OUT, *args, expected=truth(args), out_order=order, scale=2)


@pytest.mark.parametrize(("k_heads", "v_heads"), [(1, 1), (2, 2), (3, 3), (6, 6), (3, 2), (2, 1)])
@pytest.mark.parametrize("n_queries", [1, 7, 50])
def test_query_heads_share_key_and_value_heads(k_heads: int, v_heads: int, n_queries: int) -> None:
    q, k, v = (
        torch.randn(2, 6, n_queries, 16),
        *(torch.randn(2, h, 150, 16) for h in (k_heads, v_heads)),
    )
    wide = [q, k.repeat_interleave(6 // k_heads, 1), v.repeat_interleave(6 // v_heads, 1)]
    mask = torch.randn(2, 6, n_queries, 150)
    for rest in (
        (None, 0.0, False),
        (None, 0.0, True),
        (mask, 0.0, False),
        (mask[:, :1] > 0, 0.0, False),
    ):
        expected = truth(wide, *rest)
        check_op(OUT, q, k, v, *rest, enable_gqa=True, expected=expected, scale=2)


def test_scale_and_mask_with_causal() -> None:
    args = tensors(((1, 2, 50, 16), (1, 2, 140, 16), 16))
    mask = torch.randn(50, 140)
    for factor in (0.3, -0.2, 0.0, 1.0):
        (y,) = run_op(
            NAME,
            *args,
            mask,
            0.0,
            True,
            factor,
            False,
            False,
            out=[Out(torch.float32, (1, 2, 50, 16))],
        )
        both = mask.masked_fill(~torch.ones(50, 140, dtype=torch.bool).tril(), -math.inf)
        torch.testing.assert_close(y, truth(args, both, scale=factor))


def test_a_query_that_sees_nothing_gives_zeros_or_nan_as_asked() -> None:
    args = tensors(((1, 2, 40, 8), (1, 2, 300, 8), 8))
    seen = torch.rand(40, 300) > 0.5
    seen[3] = False
    for mask in (seen, torch.zeros(40, 300).masked_fill(~seen, -math.inf)):
        (y,) = check_op(OUT, *args, mask, expected=truth(args, mask), scale=2)
        assert (y[:, :, 3] == 0).all()
        expected = truth(args, mask)
        expected[:, :, 3] = math.nan
        check_op(OUT, *args, mask, unseen_is_nan=True, expected=expected, scale=2)


def test_nan_and_infinite_scores_go_where_eager_takes_them() -> None:
    shape = ((1, 1, 34, 4), (1, 1, 140, 4), 4)
    for at, value in ((0, math.nan), (1, math.nan), (2, math.nan), (2, math.inf), (1, math.inf)):
        args = tensors(shape)
        args[at][0, 0, 3, 1] = value
        mask = torch.ones(34, 140, dtype=torch.bool)
        mask[5:9, 3] = False
        for m in (None, mask):
            check_op(OUT, *args, m, expected=truth(args, m), scale=2)
    huge = tensors(shape)
    huge[0][0, 0, 2] = torch.tensor([1e30, 0, 0, 0])
    huge[1][0, 0, :, 0] = -1e30
    check_op(OUT, *huge, expected=truth(huge), scale=2)
    huge[1][0, 0, 3, 0] = 1e30
    check_op(OUT, *huge, expected=truth(huge), scale=2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_every_instruction_set_gives_the_same_bits(dtype: torch.dtype) -> None:
    for queries, members in ((1, 1), (7, 1), (45, 2), (16, 1)):
        q, k, v = torch.randn(2, 2 * members, queries, 40), *torch.randn(2, 2, 2, 200, 40)
        args = [t.to(dtype) for t in (q, k, v)]
        for mask, causal in ((None, False), (None, True), (torch.randn(queries, 200) * 3, False)):
            results = []
            for isa in isas():
                with isa_limit(isa):
                    for threads in (1, 3):
                        (y,) = run_op(
                            NAME,
                            *args,
                            mask,
                            0.0,
                            causal,
                            None,
                            True,
                            False,
                            out=[Out(dtype, q.shape)],
                            prepared=True,
                            threads=threads,
                        )
                        results.append(y)
            assert all(torch.equal(y, results[0]) for y in results)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"key": (1, 2, 5, 3)}, "expected query and key with one last dimension"),
        ({"value": (1, 2, 4, 8)}, "expected key and value with one last dimension but one"),
        ({"key": (1, 3, 5, 8)}, "expected leading dimensions that broadcast"),
        ({"query": (8,)}, "expected at least 2 dimensions each"),
        ({"mask": (4, 5)}, r"attn_mask: expected .* scores' \[1, 2, 3, 5\], got \[4, 5\]"),
        ({"mask": (5,)}, "that broadcasts"),
        ({"dropout": 0.5}, "scaled_dot_product_attention: dropout_p: expected 0, got 0.5"),
        ({"gqa": True, "key": (1, 3, 5, 8)}, "that key and value heads divide"),
    ],
    ids=str,
)
def test_what_does_not_fit_is_refused_with_words(change: dict[str, Any], message: str) -> None:
    sizes = {"query": (1, 2, 3, 8), "key": (1, 2, 5, 8), "value": (1, 2, 5, 8)}
    q, k, v = (torch.randn(change.get(name, size)) for name, size in sizes.items())
    mask = torch.zeros(change["mask"]) if "mask" in change else None
    rest = (mask, change.get("dropout", 0.0), False, None, change.get("gqa", False), False)
    with pytest.raises(OpError, match=message):
        run_op(NAME, q, k, v, *rest, out=[Out(torch.float32, (1, 2, 3, 8))])


def test_types_that_do_not_fit_are_refused_with_words() -> None:
    q, k, v = torch.randn(3, 1, 2, 3, 8)
    rest = (None, 0.0, False, None, False, False)
    out = [Out(torch.float32, (1, 2, 3, 8))]
    with pytest.raises(
        OpError, match="scaled_dot_product_attention: expected one dtype, got query f32, key f16,"
    ):
        run_op(NAME, q, k.half(), v, *rest, out=out)
    with pytest.raises(OpError, match="query: expected a floating-point type, got i64"):
        run_op(NAME, q.long(), k.long(), v.long(), *rest, out=out)
    with pytest.raises(OpError, match="attn_mask: expected b8, f32 or the query's f32, got f64"):
        run_op(NAME, q, k, v, torch.zeros(3, 3).double(), *rest[1:], out=out)
