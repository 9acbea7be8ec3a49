"""Products of the same rows in one call: joint_qlinear_groups, gated_qlinear_groups and the norm in
qlinear_groups have the bits of the operators that they replace, one after the other.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from support.op_driver import (
    Const,
    Doubles,
    OpError,
    OptionalTensors,
    Out,
    Tensors,
    isa_limit,
    isas_and_dots,
    plain,
    run_op,
)
from support.tolerance import F32_GROUPWISE, assert_near

from executorch_py.exir.dialects import integer_ops
from executorch_py.exir.dialects.joint_ops import MAX_PRODUCTS

own = torch.ops.executorch_py
SILU = "sigmoid mul:x_ mul:_0"


def made(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


class Weight:
    """A random packed weight of n columns, as the arguments of an operator."""

    def __init__(self, n: int, terms: int, group: int, bits: int = 4, least: bool = False) -> None:
        g, groups, limit = made(n + terms + bits), terms // group, 2 ** (bits - 1)
        codes = torch.randint(-limit, limit, (n, groups, group), generator=g, dtype=torch.int8)
        scales = (torch.rand(n, groups, generator=g) + 0.5) / (4 * limit * math.sqrt(terms + 1))
        minimums = -limit * scales * torch.rand(n, groups, generator=g)
        wide = (codes + (limit if least and bits == 4 else 0)) * scales.unsqueeze(-1)
        wide = wide + minimums.unsqueeze(-1) if least else wide
        self.n, self.group = n, group
        self.operands = {
            "weight": integer_ops.packed_groups(codes, bits),
            "scales": integer_ops.packed_numbers(scales),
            "minimums": integer_ops.packed_numbers(minimums) if least else None,
            "sums": integer_ops.packed_columns(wide.reshape(n, -1).sum(-1), 1),
            "addends": integer_ops.packed_columns(torch.randn(n, generator=g), 1),
        }

    def product(self, x: torch.Tensor) -> torch.Tensor:
        """The rows' product by qlinear_groups alone."""
        o = {k: None if t is None else Const(t) for k, t in self.operands.items()}
        args = [x, None, None, o["weight"], o["scales"], None, o["minimums"], o["sums"]]
        args += [o["addends"], self.group, self.n, None, None, None]
        out = [Out(torch.float32, (*x.shape[:-1], self.n))]
        (result,) = run_op("executorch_py::qlinear_groups.out", *args, out=out, prepared=True)
        return result


def shared(x: Any, norm: tuple[Any, Any], weights: list[Weight]) -> list[Any]:
    """The arguments that both operators have first."""

    def listed(key: str) -> list[Any]:
        tensors = [w.operands[key] for w in weights]
        return [None if t is None else Const(t) for t in tensors]

    lists = [listed(key) for key in ("weight", "scales", "minimums", "sums", "addends")]
    kinds = [OptionalTensors if i == 2 else Tensors for i in range(len(lists))]
    packed = [kind(items) for kind, items in zip(kinds, lists, strict=True)]
    return [x, *norm, *packed, weights[0].group]


def normalized(x: torch.Tensor, norm: tuple[Any, Any]) -> torch.Tensor:
    if norm[1] is None:
        return x
    (rows,) = run_op("executorch_py::rms_norm.out", x, *norm, out=[Out(x.dtype, tuple(x.shape))])
    return rows


def assert_joint(x: torch.Tensor, norm: tuple[Any, Any], weights: list[Weight]) -> None:
    args = [*shared(x, norm, weights), [w.n for w in weights]]
    wanted = [w.product(normalized(x, norm)) for w in weights]
    outs = [Out(torch.float32, tuple(t.shape)) for t in wanted]
    name = "executorch_py::joint_qlinear_groups.out"
    for isa in isas_and_dots():
        for threads in (1, 3):
            with isa_limit(isa):
                got = run_op(
                    name, *args, out=outs, prepared=True, threads=threads, tensor_list_out=True
                )
            assert all(map(torch.equal, got, wanted)), (isa, threads)
    for a, b in zip(own.joint_qlinear_groups(*map(plain, args)), wanted, strict=True):
        assert_near(a, b, F32_GROUPWISE)


def assert_gated(
    x: torch.Tensor, norm: tuple[Any, Any], weights: list[Weight], steps: str, *numbers: float
) -> None:
    args = [*shared(x, norm, weights), weights[0].n, steps, Doubles(numbers)]
    first, second = (w.product(normalized(x, norm)) for w in weights)
    outs = [Out(torch.float32, tuple(first.shape))]
    chain = (first, steps, Doubles(numbers), Tensors([second]))
    (wanted,) = run_op("executorch_py::chain.out", *chain, out=outs, prepared=True)
    name = "executorch_py::gated_qlinear_groups.out"
    for isa in isas_and_dots():
        for threads in (1, 3):
            with isa_limit(isa):
                (got,) = run_op(name, *args, out=outs, prepared=True, threads=threads)
            assert torch.equal(got, wanted), (isa, threads)
    assert_near(own.gated_qlinear_groups(*map(plain, args)), wanted, F32_GROUPWISE)


SHAPES = [(0, 64), (1, 32), (1, 1024), (7, 128), (2, 3, 96), (65, 32), (300, 64)]
NORMS = ["no norm", "norm", "norm with a weight"]


def given(shape: tuple[int, ...], norm: str) -> tuple[torch.Tensor, tuple[Any, Any]]:
    """Rows, and the norm before the products."""
    x = torch.randn(shape, generator=made(sum(shape)))
    weight = torch.rand(shape[-1], generator=made(3)) + 0.5
    kinds = {NORMS[0]: (None, None), NORMS[1]: (None, 1e-5), NORMS[2]: (Const(weight), 1e-3)}
    return x, kinds[norm]


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_joint_products_have_the_bits_of_single_ones(shape: tuple[int, ...], norm: str) -> None:
    x, before = given(shape, norm)
    terms = shape[-1]
    weights = [Weight(n, terms, 32, 4 if n % 2 else 8, n == 37) for n in (37, 16, 1, 256)]
    assert_joint(x, before, weights)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_gated_products_have_the_bits_of_products_and_steps(
    shape: tuple[int, ...], norm: str
) -> None:
    x, before = given(shape, norm)
    for n in (1, 48, 300):
        two = [Weight(n, shape[-1], 32), Weight(n, shape[-1], 32, 8)]
        assert_gated(x, before, two, SILU)


@pytest.mark.parametrize(
    ("steps", "numbers"),
    [("gelu_tanh mul:_0", ()), ("gelu mul:0_", ()), ("add:_s relu mul:_0 sub:_x", (0.5,))],
)
def test_any_steps_may_join_two_products(steps: str, numbers: tuple[float, ...]) -> None:
    x, before = given((9, 96), NORMS[2])
    assert_gated(x, before, [Weight(40, 96, 48), Weight(40, 96, 48, least=True)], steps, *numbers)


def test_a_wide_gate_is_computed_piece_by_piece() -> None:
    x, before = given((130, 32), NORMS[1])
    assert_gated(x, before, [Weight(1000, 32, 32), Weight(1000, 32, 32)], SILU)


@pytest.mark.parametrize("norm", NORMS[1:])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_norm_inside_of_a_product_has_the_bits_of_one_before_it(
    shape: tuple[int, ...], norm: str
) -> None:
    x, before = given(shape, norm)
    weight = Weight(37, shape[-1], 32)
    o = {k: None if t is None else Const(t) for k, t in weight.operands.items()}
    residual = torch.randn(*shape[:-1], 37, generator=made(5))
    args = [x, None, None, o["weight"], o["scales"], None, None, o["sums"], o["addends"], 32, 37]
    args += [residual, *before]
    outs = [Out(torch.float32, tuple(residual.shape))]
    wanted = residual + weight.product(normalized(x, before))
    for isa in isas_and_dots():
        with isa_limit(isa):
            (got,) = run_op("executorch_py::qlinear_groups.out", *args, out=outs, prepared=True)
        assert torch.equal(got, wanted), isa
    assert_near(own.qlinear_groups(*map(plain, args)), wanted, F32_GROUPWISE)


def test_a_row_of_nan_changes_no_other_row() -> None:
    x, before = given((3, 64), NORMS[2])
    weights = [Weight(20, 64, 32), Weight(20, 64, 32)]
    name, out = "executorch_py::gated_qlinear_groups.out", [Out(torch.float32, (3, 20))]
    args = [*shared(x, before, weights), 20, SILU, Doubles()]
    (whole,) = run_op(name, *args, out=out, prepared=True)
    x[1, 5] = math.nan
    (got,) = run_op(name, *args, out=out, prepared=True)
    assert got[1].isnan().all()
    assert torch.equal(got[::2], whole[::2])


X = torch.zeros(2, 64)
TWO = [Weight(20, 64, 32), Weight(20, 64, 32)]


@pytest.mark.parametrize(
    ("at", "value", "words"),
    [
        (0, X.to(torch.int8), "input: expected f32, got i8"),
        (0, torch.zeros(2, 60), "group: expected a divisor of the rows' 60 terms, got 32"),
        (1, Const(torch.ones(3)), "norm_weight: expected 64 contiguous elements of f32, got 3"),
        (2, None, "norm: expected rows of f32 and norm_eps, got f32 and None"),
        (3, Tensors([Const(TWO[0].operands["weight"])]), "weights: expected 2, one for each"),
        (5, OptionalTensors([]), "minimums: expected 2, one for each result, got 0"),
        (9, [20, -1], "channels: expected 0 … 2147483647, got -1"),
        (9, [20, 40], "weight: expected 1536 contiguous elements of u8 or i8, got 1024 of u8"),
        (9, [1] * (MAX_PRODUCTS + 1), f"9: expected at most {MAX_PRODUCTS} integers, got"),
    ],
)
def test_what_does_not_fit_is_refused(at: int, value: Any, words: str) -> None:
    args = [*shared(X, (Const(torch.ones(64)), 1e-5), TWO), [20, 20]]
    args[at] = value
    name, outs = "executorch_py::joint_qlinear_groups.out", [Out(torch.float32, (2, 20))] * 2
    with pytest.raises(OpError, match=words):
        run_op(name, *args, out=outs, prepared=True, tensor_list_out=True)


def test_steps_that_read_a_third_product_are_refused() -> None:
    args = [*shared(X, (None, None), TWO), 20, "mul:_1", Doubles()]
    name, outs = "executorch_py::gated_qlinear_groups.out", [Out(torch.float32, (2, 20))]
    with pytest.raises(OpError, match="the number of one of 1 tensors, got '1'"):
        run_op(name, *args, out=outs, prepared=True)
