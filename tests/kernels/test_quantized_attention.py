"""Attention over int8 caches, compared with attention over the dequantized caches."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest
import torch
from support.op_driver import OpError, Out, assert_close, isa_limit, isas_and_dots, run_op

import_module("executorch_py.extension.llm.custom_ops.custom_ops")
llama = torch.ops.llama
NAME = "llama::custom_quantized_sdpa.out"


Codes = tuple[torch.Tensor, torch.Tensor, torch.Tensor]  # codes, zero points, scales


def codes(*shape: int, seed: int = 0) -> Codes:
    generator = torch.Generator().manual_seed(sum(shape) + seed)
    rows = (*shape[:-1], 1)
    return (
        torch.randint(-128, 128, shape, generator=generator).to(torch.int8),
        torch.randint(-20, 20, rows, generator=generator).to(torch.int8),
        torch.rand(rows, generator=generator) * 0.01 + 0.002,
    )


def arguments(q: Codes, k: Codes, v: Codes, *rest: Any, heads_first: bool = False) -> list[Any]:
    """`rest` is start_pos, attn_mask, dropout, is_causal and scale."""
    return [q[0], k[0], v[0], *rest, *q[1:], *k[1:], *v[1:], heads_first]


def run(args: list[Any], threads: int = 1) -> torch.Tensor:
    out = [Out(torch.float32, args[0].shape)]
    (result,) = run_op(NAME, *args, out=out, threads=threads)
    return result


@pytest.mark.parametrize("heads_first", [False, True])
@pytest.mark.parametrize("keys", [7, 300])
@pytest.mark.parametrize(("heads", "shared", "dim"), [(4, 4, 8), (6, 2, 20), (2, 1, 260)])
def test_attention_over_caches_of_bytes_equals_eager(
    heads: int, shared: int, dim: int, keys: int, heads_first: bool
) -> None:
    def shape(positions: int, n: int) -> tuple[int, ...]:
        return (2, n, positions, dim) if heads_first else (2, positions, n, dim)

    queries, start = 3, keys - 5
    q, k, v = (
        codes(*shape(queries, heads)),
        codes(*shape(keys, shared)),
        codes(*shape(keys, shared)),
    )
    mask = torch.rand(queries, keys) > 0.3
    mask[:, 0] = True
    for rest in ((None, 0.0, True, None), (mask, 0.0, False, 0.3), (None, 0.0, False, None)):
        args = arguments(q, k, v, start, *rest, heads_first=heads_first)
        expected = llama.custom_quantized_sdpa(*args)
        for threads in (1, 3):
            assert_close(run(args, threads), expected, 16)


@pytest.mark.parametrize("zeros", [(-128, -128), (127, 127), (-128, 127), (127, -128)])
@pytest.mark.parametrize("code", [None, -128, 127])
def test_products_are_exact_at_the_extremes(zeros: tuple[int, int], code: int | None) -> None:
    q, k, v = codes(1, 3, 4, 132), codes(1, 40, 2, 132, seed=1), codes(1, 40, 2, 132, seed=2)
    for (rows, points, scales), zero in ((q, zeros[0]), (k, zeros[1])):
        if code is not None:
            rows[..., 1:] = code  # a code of each row differs, and so do the scores
        points.fill_(zero)
        scales.fill_(1.0)
    args = arguments(q, k, v, 30, None, 0.0, True, 1e-5)
    expected = llama.custom_quantized_sdpa(*args)
    for isa in isas_and_dots():
        with isa_limit(isa):
            assert_close(run(args), expected, 1)


@pytest.mark.parametrize(("queries", "keys", "dim"), [(1, 300, 64), (37, 130, 20), (3, 20, 261)])
def test_every_instruction_set_gives_the_same_bits(queries: int, keys: int, dim: int) -> None:
    q, k, v = codes(2, queries, 6, dim), codes(2, keys, 2, dim), codes(2, keys, 2, dim, seed=1)
    args = arguments(q, k, v, keys - queries, None, 0.0, True, None)
    expected = llama.custom_quantized_sdpa(*args)
    results = []
    for isa in isas_and_dots():
        with isa_limit(isa):
            results.append(run(args))
    assert_close(results[0], expected, 16)
    for result in results[1:]:
        assert torch.equal(result, results[0])


def test_elements_of_a_row_may_lie_apart() -> None:
    q, k, v = (
        tuple(t.to(memory_format=torch.channels_last) for t in codes(2, n, heads, 24))
        for n, heads in ((3, 4), (19, 2), (19, 2))
    )
    args = arguments(q, k, v, 16, None, 0.0, True, None)
    assert args[0].stride(3) != 1
    assert_close(run(args), llama.custom_quantized_sdpa(*args), 16)


def test_zero_points_need_not_be_bytes() -> None:
    q, k, v = codes(1, 2, 4, 16), codes(1, 9, 2, 16), codes(1, 9, 2, 16, seed=1)
    q, k = ((t[0], t[1] + 0.5, t[2]) for t in (q, k))
    args = arguments(q, k, v, 7, None, 0.0, True, None)
    assert_close(run(args), llama.custom_quantized_sdpa(*args), 16)


def test_queries_may_be_floats() -> None:
    k, v = codes(1, 9, 2, 8), codes(1, 9, 2, 8)
    args: tuple[Any, ...] = (torch.randn(1, 1, 2, 8), k[0], v[0], 4, None, 0.0, True, None)
    args += (None, None, k[1], k[2], v[1], v[2], False)
    expected = llama.custom_quantized_sdpa(*args)
    out = [Out(torch.float32, expected.shape)]
    assert_close(run_op(NAME, *args, out=out)[0], expected, 16)


def test_numbers_that_do_not_fit_the_rows_are_refused() -> None:
    q = codes(1, 1, 2, 8)
    args = (q[0], q[0], q[0], 0, None, 0.0, True, None, q[1], q[2], q[1], q[2])
    with pytest.raises(
        OpError, match=r"argument 2: zero points: .* shape \[1, 1, 2, 1\], .*, got i8\[1, 1, 1, 1\]"
    ):
        run_op(NAME, *args, q[1][:, :, :1], q[2], False, out=[Out(torch.float32, (1, 1, 2, 8))])
    with pytest.raises(OpError, match=r"argument 2: scales: .* one for each row, got c64\[1, 1, 2"):
        wrong = q[2].to(torch.complex64)
        run_op(NAME, *args, q[1], wrong, False, out=[Out(torch.float32, (1, 1, 2, 8))])
    with pytest.raises(
        OpError, match=r"argument 2: expected rank 4 and f32, or i8 .*, got i8 of rank 4"
    ):
        run_op(NAME, *args, None, None, False, out=[Out(torch.float32, (1, 1, 2, 8))])
