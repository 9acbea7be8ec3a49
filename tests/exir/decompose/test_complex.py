"""Complex tensors inside models, and as their inputs and outputs, against eager torch.

Many functions share a program, so that each costs no export of its own.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from support.tolerance import F32
from torch import Tensor, nn
from torch.export import Dim

from executorch_py.exir import (
    EdgeCompileConfig,
    ExecutorchBackendConfig,
    to_edge,
    to_edge_transform_and_lower,
)
from executorch_py.exir.error import ExportError
from executorch_py.runtime import Runtime
from executorch_py.testing import assert_parity, verify_program

aten = torch.ops.aten


class All(nn.Module):
    """The results of several functions of the same inputs."""

    def __init__(self, functions: dict[str, Callable[..., Any]]) -> None:
        super().__init__()
        self.functions = list(functions.values())

    def forward(self, *inputs: Tensor) -> list[Any]:
        return [function(*inputs) for function in self.functions]


def randn(*shape: int, dtype: torch.dtype = torch.complex64) -> Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(*shape, dtype=dtype, generator=generator)


ARITHMETIC: dict[str, Callable[[Tensor, Tensor, Tensor], Any]] = {
    "sum": lambda a, b, x: a + b,
    "of real and complex": lambda a, b, x: (a + x, a * x, x - a, x / a),
    "numbers": lambda a, b, x: (a * 2.5, a * (1 + 2j), 1 - a, a / 3, x * 1j, 2 / a),
    "quotient": lambda a, b, x: a / b,
    "minus": lambda a, b, x: -a,
    "conjugate": lambda a, b, x: (a.conj() * b, a.conj(), a.conj().imag, torch.vdot(a[0], b[0])),
    "parts": lambda a, b, x: (a.real, a.imag * 2, torch.view_as_real(a)),
    "size and angle": lambda a, b, x: (a.abs(), a.angle(), a.sgn()),
    "joined": lambda a, b, x: (torch.complex(x, x * 2), torch.polar(x.abs(), x)),
    "joined halves": lambda a, b, x: (
        torch.complex(x.half(), x.half()),
        torch.view_as_real(torch.complex(x.half(), x.half())),
    ),
    "joined in place": lambda a, b, x: torch.view_as_complex(torch.stack([x, x + 1], -1)),
    "equal": lambda a, b, x: (a == b, a != a.clone(), a == 1, a != 1j),
    "chosen": lambda a, b, x: (torch.where(x > 0, a, b), a.masked_fill(x > 0, 0)),
    "infinite": lambda a, b, x: ((a / 0).isinf(), (a * float("nan")).isnan(), a.isfinite()),
    "made": lambda a, b, x: (
        torch.zeros_like(a),
        a.new_ones(2),
        torch.full((2,), 1 - 2j) * a[0, 0],
    ),
    "cast": lambda a, b, x: (x.to(a.dtype), x + torch.tensor(2j)),
    "in place": lambda a, b, x: a.clone().mul_(2).add_(b),
}
TURNS = ("sin", "cos", "tan", "sinh", "cosh", "tanh")
GROWTH = "exp expm1 log log1p log2 log10 sqrt rsqrt reciprocal square sigmoid"
FUNCTIONS: dict[str, Callable[[Tensor], Any]] = {
    name: getattr(torch, name)
    for name in (*GROWTH.split(), *TURNS, *(f"a{name}" for name in TURNS))
}
FUNCTIONS["powers"] = lambda z: (z**2, z**3, z**-2, z**0, z**0.5, z**1.5, z ** (1 + 1j))
FUNCTIONS["powers of tensors"] = lambda z: (z**z, 2**z, z.abs() ** z)
REDUCTIONS: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "sum": lambda a, b: (a.sum(), a.sum(1), a.sum((0, -1), keepdim=True), a[0, 0, 0].sum()),
    "mean": lambda a, b: (a.mean(), a.mean(0), a.mean(-1, keepdim=True)),
    "cumsum": lambda a, b: (a.cumsum(1), a.cumsum(-1)),
    "variance": lambda a, b: (a.var(1), a.std(), *torch.var_mean(a, 0, keepdim=True)),
    "any": lambda a, b: (a.any(), (a * 0).any(1), a.any(0, keepdim=True), a.all(), a.all(-1)),
    "norm": lambda a, b: (a.norm(), torch.linalg.vector_norm(a, dim=1)),
    "matrices": lambda a, b: (a @ b, a[0] @ b[0], a[0, 0] @ b[0], a[0] @ b[0, :, 0]),
    "matrix and sum": lambda a, b: (
        torch.addmm(b[0, 0], a[0], b[0]),
        torch.addmm(b[0, 0], a[0], b[0], beta=2, alpha=0.5),
        torch.baddbmm(b[:, :1], a, b),
    ),
    "einsum": lambda a, b: torch.einsum("bij,bjk->bk", a, b),
    "convolution": lambda a, b: torch.nn.functional.conv1d(a, a[:, :, :2], stride=2),
    "moves": lambda a, b: (
        a.transpose(0, 1).contiguous(),
        a.reshape(2, -1)[:, 1::2],
        torch.cat([a, a * 2], -1),
        torch.stack([a, a]),
        a.roll(1, 0).flip(1),
        a.index_select(1, torch.tensor([0, 2])),
        a[a.abs() > 0],
        torch.nn.functional.pad(a, (1, 2)),
        aten.constant_pad_nd(a, (1, -1), 1 - 2j),
        a.expand(3, *a.shape)[1],
        a.unfold(2, 2, 1),
    ),
}


def test_arithmetic_equals_eager_torch() -> None:
    a, b = randn(3, 4), randn(4, 3).T.contiguous()
    assert_parity(All(ARITHMETIC), (a, b, randn(3, 4, dtype=torch.float32)))


def test_functions_equal_eager_torch() -> None:
    dtype = torch.complex128
    axes = torch.tensor([1, -1, 1j, -1j, 0.25, -4, 3 - 1e-3j, -3 + 1e-3j], dtype=dtype)
    assert_parity(All(FUNCTIONS), (torch.cat([randn(24, dtype=dtype), axes]),))


def test_functions_of_zero_and_of_large_numbers_equal_eager() -> None:
    functions: dict[str, Callable[[Tensor], Any]] = {
        "root": torch.sqrt,
        "powers": lambda z: (z**2, z**1.5, z**0),
        "sign": torch.sgn,
        "powers of zero": lambda z: (z ** (1 + 1j), z**0j, z**-0.5, 1**z, 0 ** (z[:2] + 0.5)),
        "powers of tensors": lambda z: torch.pow(z[:1], torch.tensor([0j, 1 + 1j, -1, 1j, 2])),
    }
    assert_parity(All(functions), (torch.tensor([0, 0.0, 1e15, -1e15j], dtype=torch.complex64),))
    assert_parity(All({"exp": torch.exp}), (torch.tensor([100 + 0j, -100 + 1j, math.nan + 0j]),))
    assert_parity(All({"tanh": torch.tanh}), (torch.tensor([80 + 1j, -90 - 2j, 0j]),))


# Names of functions that equal eager torch at infinite, NaN and zero parts.
ENDS = (
    "exp",
    "expm1",
    "log",
    "log2",
    "log10",
    "sqrt",
    "rsqrt",
    "reciprocal",
    "sigmoid",
    "angle",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "abs",
    "sinh",
    "cosh",
    "tanh",
    "asinh",
    "acosh",
    "atanh",
)


def at_the_ends(dtype: torch.dtype) -> Tensor:
    """Every pair of parts of which some are infinite, NaN or zero."""
    values = [0.0, -0.0, 1.0, -1.0, 2.5, -0.3, math.inf, -math.inf, math.nan]
    pairs = torch.tensor(list(itertools.product(values, values)), dtype=dtype.to_real())
    return torch.view_as_complex(pairs)


def same_parts(found: Tensor, wanted: Tensor) -> Tensor:
    """A mask of the parts that are equal, zeros by their sign."""
    a, b = (torch.view_as_real(x) if x.is_complex() else x for x in (found, wanted))
    alike = torch.isclose(a, b, *F32, equal_nan=True)
    return alike & ((b != 0) | (torch.signbit(a) == torch.signbit(b)))


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128], ids=str)
def test_functions_of_infinite_parts_nan_and_zeros_equal_eager(dtype: torch.dtype) -> None:
    functions: dict[str, Callable[..., Any]] = {name: getattr(torch, name) for name in ENDS}
    functions["1/z"] = lambda z: 1 / z
    functions["z/z'"] = lambda z: z / z.flip(0)
    functions["z·z'"] = lambda z: z * z.flip(0)
    z = at_the_ends(dtype)
    model = All(functions)
    program = to_edge(torch.export.export(model, (z,))).to_executorch()
    results = Runtime.get().load_program(program.buffer).load_method("forward").execute([z])
    for name, found, wanted in zip(functions, results, model(z), strict=True):
        alike = same_parts(found, wanted)
        if name == "acos" and dtype == torch.complex128:
            # Eager has +0i of ±0 + 0i and of 1 + 0i; annex G and eager's complex64 have -0i.
            real = z.imag == 0
            alike = alike | real[:, None]
            torch.testing.assert_close(found[real], wanted[real], equal_nan=True)
        assert alike.all(), (name, z[~alike.reshape(len(z), -1).all(1)])


def test_reductions_and_products_equal_eager_torch() -> None:
    assert_parity(All(REDUCTIONS), (randn(2, 3, 4), randn(2, 4, 5)))


def test_rotary_embeddings_as_models_write_them() -> None:
    class Rotary(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            turns = torch.outer(torch.arange(32.0), 1 / 10000 ** (torch.arange(4) / 4))
            self.register_buffer("turns", torch.polar(torch.ones_like(turns), turns))

        def forward(self, q: Tensor) -> Tensor:
            pairs = torch.view_as_complex(q.float().reshape(*q.shape[:-1], -1, 2))
            turned = pairs * self.turns[: q.shape[1], None]
            return torch.view_as_real(turned).flatten(-2).type_as(q)

    dims = {0: Dim("batch", min=1, max=4), 1: Dim("tokens", min=2, max=32)}
    q = randn(2, 7, 3, 8, dtype=torch.float32)
    report = assert_parity(Rotary(), (q,), dynamic_shapes=(dims,))
    assert len(report.comparisons) > 4


def test_complex_inputs_and_outputs_of_any_size() -> None:
    dims = {0: Dim("rows", min=1, max=9)}
    module = All({"product": lambda z, w: z @ w, "same": lambda z, w: z})
    x, w = randn(4, 3), randn(3, 5)
    with torch.no_grad():
        exported = torch.export.export(module, (x, w), dynamic_shapes=((dims, None),))
    for lower in (to_edge, to_edge_transform_and_lower):
        program = lower(exported).to_executorch()
        verify_program(program, module, x, w)
        method = Runtime.get().load_program(program.buffer).load_method("forward")
        product, same = method.execute([x.numpy(), w.numpy()])
        assert product.dtype == same.dtype == x.numpy().dtype
        assert (same == x.numpy()).all()


def test_complex_weights_need_no_work_at_run_time() -> None:
    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(randn(5, 4))

        def forward(self, x: Tensor) -> Tensor:
            return torch.nn.functional.linear(x, self.weight)

    model, x = Layer(), randn(3, 4)
    with torch.no_grad():
        program = to_edge(torch.export.export(model, (x,))).to_executorch()
    verify_program(program, model, x)
    names = [op.name for op in program.executorch_program.execution_plan[0].operators]
    assert sorted(names) == ["aten::mm", "aten::view_as_complex_copy", "aten::view_as_real_copy"]


def test_the_angle_of_real_numbers_is_zero_or_pi() -> None:
    x = torch.tensor([1.0, -2.0, 0.0, float("nan"), float("-inf")])
    report = assert_parity(All({"real": torch.angle}), (x,))
    assert report.max_abs_error == 0
    assert_parity(All({"whole": torch.angle}), (torch.tensor([1, -2, 0]),))


def test_what_has_no_complex_kernel_is_refused_by_name() -> None:
    with torch.no_grad():
        exported = torch.export.export(All({"": lambda z: z.prod(1)}), (randn(2, 3),))
    with pytest.raises(ExportError, match=r"aten::prod.int_out\(c64\): input dtype c64"):
        to_edge(exported).to_executorch()


def test_a_file_for_upstream_keeps_to_its_kernels() -> None:
    upstream = ExecutorchBackendConfig(target="executorch-1.5")
    unchecked = EdgeCompileConfig(_check_ir_validity=False)
    z = randn(2, 3)
    with torch.no_grad():
        runs = torch.export.export(All({"": lambda z: (z + z) * z}), (z,))
        joins = torch.export.export(All({"": lambda z: z.exp()}), (z,))
    to_edge(runs).to_executorch(upstream)
    with pytest.raises(ExportError, match="view_as_complex_copy"):
        to_edge(joins, compile_config=unchecked).to_executorch(upstream)
