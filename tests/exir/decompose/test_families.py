"""Families of operators outside the core set, decomposed for both lowerings: each family is one
program that is run and compared with eager torch, over element types, shapes and special values.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from executorch_py.exir import EdgeCompileConfig, to_edge
from executorch_py.testing.parity import verify_program

aten = torch.ops.aten
INF, NAN = math.inf, math.nan
GENERATOR = torch.Generator().manual_seed(0)
FLOATS = torch.randn(4, 6, generator=GENERATOR)
TIED = torch.tensor([[3.0, 1.0, 2.0, 1.0, 2.0, 2.0], [0.0, -1.0, INF, -INF, 5.0, 0.5]])
WITH_NAN = torch.tensor([[3.0, NAN, 2.0, 1.0, NAN], [NAN] * 5, [5.0, 4.0, 3.0, 2.0, 1.0]])
INTS = torch.tensor([[3, 1, 2, 1, 2, 2], [7, -9, 7, 0, 0, 7]])
INDEX = torch.tensor([[0, 1, 1, 0, 3, 1], [2, 2, 0, 1, 1, 2]])


def order(x: Tensor) -> Any:
    """Values, and elements at the indices: an index may name any of equal elements."""
    results: list[Tensor] = [x.median(), x.nanmedian()]
    for dim, keepdim in ((0, False), (-1, True)):
        pairs = [x.median(dim, keepdim), x.nanmedian(dim, keepdim)]
        pairs += [x.kthvalue(k, dim, keepdim) for k in (1, 2)]
        for values, indices in pairs:
            named = x.gather(dim, indices if keepdim else indices.unsqueeze(dim))
            results += [values, named]
    return tuple(results)


def buckets(x: Tensor) -> Any:
    edges, none = torch.tensor([-1.0, 0.0, 0.0, 2.0]), torch.zeros(0)
    return (
        torch.bucketize(x, edges, right=True),
        torch.bucketize(x, edges, out_int32=True),
        torch.bucketize(x[0, 0], edges),
        torch.bucketize(1, edges),
        torch.bucketize(x, none, out_int32=True),
    )


def mode(x: Tensor) -> Any:
    return (*x.mode(0), *x.mode(-1, True))


def means_by_index(x: Tensor) -> Any:
    index, row = INDEX[:, : x.shape[1]], torch.tensor([1, 0, 1])
    target, source = torch.ones(4, x.shape[1], dtype=x.dtype), torch.stack([x[0], x[1], x[0]])
    results = [
        torch.scatter(target, 0, index, x, reduce="add"),
        torch.scatter(target, 0, index, x, reduce="multiply"),
        torch.scatter(target, 0, index, 3, reduce="multiply"),
    ]
    for include in (True, False):
        results += [
            target.scatter_reduce(0, index, x, "mean", include_self=include),
            target.index_reduce(0, row, source, "mean", include_self=include),
            target.index_reduce(0, row, source, "prod", include_self=include),
        ]
    return tuple(results)


def placed(x: Tensor) -> Any:
    return (
        x.put(torch.tensor([1, -1, 1]), torch.tensor([5, 6, 7], dtype=x.dtype), accumulate=True),
        x.put(torch.tensor([[2], [0]]), torch.tensor([[5], [6]], dtype=x.dtype)),
        x.take(torch.tensor([[0, -1], [3, 2]])),
        x.diagonal_scatter(x.new_zeros(4), 1),
        x.as_strided_scatter(x.new_zeros(2, 3), (2, 3), (5, 1), 1),
        x.masked_select(x[:, :1] > 0),
        x.unfold(1, 3, 2),
        x.clone().resize_(2, 3),
        x.index_add(0, torch.tensor([1]), x[:1]),
        x.index_copy(1, torch.tensor([2, 0]), x[:, :2]),
        x.index_fill(1, torch.tensor([2, 0]), 4),
        x.masked_scatter(x > 0, x.flip(0)),
    )


def numbers(x: Tensor) -> Any:
    other = x.flip(0)
    return (
        torch.exp2(x),
        torch.fmax(x, other),
        torch.fmin(x, other),
        torch.angle(x),
        torch.xlogy(x, other),
        torch.special.xlog1py(x, other),
        torch.special.entr(x),
        torch.sinc(x),
        torch.heaviside(x, torch.ones((), dtype=x.dtype)),
        torch.float_power(x, 2),
        torch.logaddexp(x.float(), other.float()),
        torch.logaddexp2(x.float(), other.float()),
        torch.nan_to_num(x),
        torch.isin(x, other[0]),
        torch.special.ndtr(x),
        torch.signbit(x),
        torch.frac(x.float()),
        torch.positive(x),
    )


def steps_of_halves(x: Tensor) -> Any:
    """Functions whose mixed operands eager rounds to half precision, some also between steps."""
    other, number, whole = x.flip(0), torch.tensor(1.7), torch.tensor([[1], [20], [-3], [0]])
    wide = x.float() + number
    pairs = [(x, number), (x, other), (x, number.double()), (number, x)]
    results = [torch.ldexp(x, whole), torch.ldexp(x, number), torch.ldexp(x, other)]
    for a, b in pairs:
        results += [
            torch.addcmul(a, b, b, value=0.7),
            torch.addcdiv(a, b, b.abs() + 1, value=0.7),
            torch.xlogy(a, b.abs()),
            torch.special.xlog1py(a, b.abs()),
            torch.logaddexp(a, b),
            nn.functional.mse_loss(a.expand(4, 6), b.expand(4, 6), reduction="none"),
        ]
    results += [torch.xlogy(x, 0.3), torch.special.xlog1py(0.3, x.abs())]
    results += [torch.logit(x.sigmoid()), torch.logit(x.sigmoid(), eps=0.1)]
    results += [nn.functional.softshrink(x, 0.1), nn.functional.softshrink(other, 1.7)]
    for reduction in ("none", "mean"):
        results.append(nn.functional.smooth_l1_loss(x, other, reduction, beta=0.37))
        results.append(nn.functional.huber_loss(x, other, reduction, delta=0.37))
    return (*results, torch.xlogy(wide, wide.abs()), nn.functional.mse_loss(x, other))


def numbers_beside_halves(x: Tensor) -> Any:
    """Products and quotients with 0-d operands, which eager does not round first."""
    number, whole, wide = 0.1, 2049, torch.tensor(0.1, dtype=torch.float64)
    results: list[Tensor] = []
    for a, b in ((x, number), (x, whole), (x, wide), (wide.float(), x), (x[0, 1], number)):
        results += [a * b, a / b, a // b, torch.div(a, b, rounding_mode="trunc")]
    results += [number / x, number // x, x + number, x % number, x > number, x.clamp(min=number)]
    results += [x[0, 0] / torch.tensor(3), x[0, 0].nanmean()]  # no dimensions on either side
    return (*results, torch.add(x, x, alpha=number), x / x.float().max(), x * 70000.0)


def rounded(x: Tensor) -> Any:
    return tuple(torch.round(x, decimals=d) for d in (0, 2, -1))


def products(x: Tensor) -> Any:
    a, b = x[:2, :3], x[:3, :2]
    return (
        torch.addmv(x[0, :2], a, x[1, :3], beta=0.5, alpha=2),
        torch.addbmm(x[:2, :2], a.expand(3, 2, 3), b.expand(3, 3, 2), beta=0.5, alpha=2),
        torch.dist(a, a + 1, 3),
        nn.functional.bilinear(a, a.flip(0), x[:, :3].expand(5, 4, 3)[:, :3].contiguous()),
        torch.linalg.cross(a, a.flip(0)),
        torch.trace(a),
        torch.renorm(a, 2, 0, 1.0),
        torch.renorm(a.half(), 2, 0, 1.0),
        torch.linalg.vector_norm(a.bfloat16(), dtype=torch.float32),
        torch.cdist(a, a.flip(0), 1.5),
        nn.functional.embedding(torch.tensor([[1, 0]]), x * 3, max_norm=1.0),
    )


def whole_products(x: Tensor) -> Any:
    a, b = x[:1, :3].expand(4, 2, 3), x[:, :3].reshape(1, 3, 2).expand(4, 3, 2)
    return (
        torch.addbmm(x[:, :2], a, b),
        torch.addbmm(x[0, :2], a, b, beta=2.6, alpha=1.2),
        torch.addbmm(x[0, 0], a[:0], b[:0], beta=3),
        nn.functional.bilinear(x[:, :3], x[:, 1:3], a.expand(4, 2, 3).mT),
    )


def cholesky(x: Tensor) -> Any:
    a = x @ x.mT + torch.eye(x.shape[0], dtype=x.dtype)
    return aten.cholesky(a), aten.cholesky(torch.stack([a, a * 2]), upper=True)


def complex_numbers(x: Tensor) -> Any:
    z = torch.complex(x, x.flip(0))
    return (
        torch.view_as_real(z * z),
        torch.view_as_complex(x.reshape(2, -1, 2)).abs(),
        torch.polar(x.abs(), x).real,
        z.imag,
        z.angle(),
        torch.view_as_real(z.mm(z.mT)),
        torch.view_as_real(z.expand(2, 4, 6).bmm(z.mT.expand(2, 6, 4)).sum(0)),
        x.view(torch.int32),
        x.view(torch.uint8).view(torch.int64),
    )


CASES: dict[str, tuple[Callable[[Tensor], Any], list[Tensor]]] = {
    "order": (order, [FLOATS, TIED, WITH_NAN, INTS, INTS.to(torch.uint8), TIED.half()]),
    "order of nothing": (
        lambda x: (x.median(), x.nanmedian()),
        [torch.zeros(0, 3), torch.zeros(0, dtype=torch.int32)],
    ),
    "order of one number": (lambda x: (x.median(), *x.kthvalue(1), *x.mode()), [torch.tensor(2.0)]),
    "buckets": (buckets, [FLOATS, INTS, TIED.half()]),
    "mode": (mode, [FLOATS, TIED, INTS, INTS > 1, TIED.half()]),
    "means by index": (means_by_index, [FLOATS[:2], INTS, INTS.to(torch.int8), FLOATS[:2].half()]),
    "placed": (placed, [FLOATS, INTS.repeat(2, 1), FLOATS.bfloat16()]),
    "numbers": (numbers, [FLOATS, TIED, WITH_NAN, INTS, FLOATS.double()]),
    "rounded": (rounded, [FLOATS * 30, (FLOATS * 30).half(), FLOATS.double() * 30]),
    "numbers beside halves": (numbers_beside_halves, [FLOATS.half(), FLOATS.bfloat16()]),
    "steps of halves": (steps_of_halves, [FLOATS.half(), FLOATS.bfloat16(), FLOATS]),
    "products": (products, [FLOATS, FLOATS.double()]),
    "whole products": (whole_products, [INTS, INTS.to(torch.uint8), TIED[:, :4].bfloat16()]),
    "cholesky": (cholesky, [FLOATS, FLOATS.double()]),
    "complex numbers": (complex_numbers, [FLOATS]),
}


class Function(nn.Module):
    def __init__(self, compute: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.compute = compute

    def forward(self, x: Tensor) -> Any:
        return self.compute(x)


@pytest.mark.filterwarnings("ignore:index_reduce", "ignore:The reduce argument")
@pytest.mark.filterwarnings("ignore:torch.cholesky is deprecated")  # says torch
@pytest.mark.parametrize("name", CASES)
def test_a_family_of_operators_equals_eager(name: str) -> None:
    compute, inputs = CASES[name]
    model = Function(compute)
    for x in inputs:
        program = to_edge(torch.export.export(model, (x,))).to_executorch()
        verify_program(program, model, x)


def test_unchecked_lowering_decomposes_too() -> None:
    model = Function(lambda x: x.median(-1).values)
    config = EdgeCompileConfig(_check_ir_validity=False)
    program = to_edge(torch.export.export(model, (FLOATS,)), compile_config=config)
    verify_program(program.to_executorch(), model, FLOATS)


def test_negative_padding_is_cut_off_by_slices() -> None:
    class Pads(nn.Module):
        def forward(self, x: Tensor) -> list[Tensor]:
            pads = ((-1, -2), (-3, 1), (0, 2, -1, 0), (0, 0, -1, -2), (-6, 1))
            return [nn.functional.pad(x, pad, value=0.5) for pad in pads]

    edge = to_edge(torch.export.export(Pads(), (FLOATS,)))
    calls = [node for node in edge.exported_program().graph.nodes if node.op == "call_function"]
    pads = [node.args[1] for node in calls if "constant_pad_nd" in str(node.target)]
    assert pads
    assert all(n >= 0 for pad in pads for n in pad)
    assert verify_program(edge.to_executorch(), Pads(), FLOATS).ok


def test_classes_that_are_not_there_are_refused() -> None:
    model = Function(lambda x: nn.functional.one_hot(x, 5))
    program = to_edge(torch.export.export(model, (torch.tensor([0, 4, 2]),))).to_executorch()
    verify_program(program, model, torch.tensor([1, 1, 3]))
    for wrong in (5, -1):
        with pytest.raises(ValueError, match=f"index {wrong} .* out of bounds"):
            program.run((torch.tensor([0, wrong, 2]),))
