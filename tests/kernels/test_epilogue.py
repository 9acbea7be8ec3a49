"""Epilogues (chains of element-wise steps) give the bits of their separate steps, alone and after a
product or convolution.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from support.op_driver import (
    Const,
    Doubles,
    OpError,
    Out,
    Tensors,
    check_op,
    isa_limit,
    isas,
    loaded_op,
    run_op,
)
from support.op_values import Values

from executorch_py.exir.dialects import own_ops
from executorch_py.exir.dialects.own_ops import STEP_NAMES

own = torch.ops.executorch_py
HARDSWISH = ("add:_s clamp mul:x_ div:_s", [3.0, 0.0, 6.0, 6.0])


def values(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


def one(name: str, *args: Any, like: torch.Tensor) -> torch.Tensor:
    order = (0, 2, 3, 1) if like.dim() == 4 and not like.is_contiguous() else None
    return run_op(name, *args, out=[Out(torch.float32, like.shape, order)])[0]


# The operator of each step, and its arguments around the running value.
OPERATORS: dict[str, tuple[str, tuple[float, ...], tuple[Any, ...]]] = {
    **{
        name: (f"aten::{name}.out", (), ())
        for name in (
            "abs",
            "erf",
            "exp",
            "neg",
            "reciprocal",
            "relu",
            "rsqrt",
            "sigmoid",
            "sqrt",
            "tanh",
        )
    },
    "gelu": ("aten::gelu.out", (), ("none",)),
    "gelu_tanh": ("aten::gelu.out", (), ("tanh",)),
    "clamp": ("aten::clamp.out", (-0.5, 0.75), (-0.5, 0.75)),
    "leaky_relu": ("aten::leaky_relu.out", (0.1,), (0.1,)),
}
ALPHA = {"add": (1,), "sub": (1,)}
ODD = torch.tensor([-0.0, 0.0, math.nan, math.inf, -math.inf, 1e-40, -1e-40, 3e38])


HEADER = Path(__file__).parents[2] / "csrc" / "kernels" / "lib" / "epilogue.h"


def test_the_kernels_and_torch_have_the_same_steps_and_limits() -> None:
    text = HEADER.read_text()
    steps = {
        name: (kind, int(count))
        for kind, name, count in re.findall(r"X\((unary|binary), (\w+), (\d)\)", text)
    }
    numbers = {name: count for name, (count, _) in own_ops._WITH_NUMBERS.items()}
    assert steps == {
        name: ("binary" if name in own_ops._BINARY else "unary", numbers.get(name, 0))
        for name in STEP_NAMES
    }
    limits = dict(re.findall(r"ETI_EPILOGUE_(STEPS|TENSORS) = (\d)", text))
    assert limits == {"STEPS": str(own_ops.MAX_STEPS), "TENSORS": str(own_ops.MAX_TENSORS)}


@pytest.mark.parametrize("name", sorted(STEP_NAMES))
def test_a_step_is_its_operator(name: str) -> None:
    x, y = torch.cat([ODD, values(2100)]), torch.cat([values(2100), ODD.flip(0)])
    if name in OPERATORS:
        operator, numbers, arguments = OPERATORS[name]
        wanted = one(operator, x, *arguments, like=x)
        got = one("executorch_py::chain.out", x, name, Doubles(numbers), Tensors([]), like=x)
    else:
        wanted = one(f"aten::{name}.out", y, x, *ALPHA.get(name, ()), like=x)
        got = one("executorch_py::chain.out", x, f"{name}:0_", Doubles(), Tensors([y]), like=x)
    assert torch.equal(wanted.view(torch.int32), got.view(torch.int32))


CHAINS: list[tuple[str, list[float], int]] = [
    ("relu", [], 0),
    ("clamp", [0.0, 6.0], 0),
    (*HARDSWISH, 0),
    ("sigmoid mul:x_", [], 0),
    ("add:_0 relu", [], 1),
    ("mul:1_ add:0_ gelu", [], 2),
]


def by_steps(start: torch.Tensor, chain: str, numbers: list[float], tensors: Any) -> torch.Tensor:
    """One kernel call for each step."""
    running, left = start, list(numbers)
    for step in chain.split():
        name, _, operands = step.partition(":")
        mine = [left.pop(0) for _ in range({"clamp": 2}.get(name, operands.count("s")))]
        own_x = "x" in operands
        text = step.replace("x", "0") if own_x else step
        given = [start] if own_x else list(tensors)
        running = one(
            "executorch_py::chain.out", running, text, Doubles(mine), Tensors(given), like=running
        )
    return running


def check_all_ways(op: Any, plain: torch.Tensor, *args: Any) -> None:
    """Runs every epilogue after the operator, with each instruction set, and compares it with its
    steps."""
    for chain, numbers, n_tensors in CHAINS:
        tensors = [
            torch.empty_like(plain).copy_(values(*plain.shape) + i) for i in range(n_tensors)
        ]
        wanted = by_steps(plain, chain, numbers, tensors)
        (got,) = check_op(op, *args, chain, numbers, Tensors(tensors), scale=4)
        assert torch.equal(wanted, got), chain
        for isa in isas():
            with isa_limit(isa):
                name = f"executorch_py::{op._schema.name.split('::')[1]}.out"
                again = one(name, *args, chain, Doubles(numbers), Tensors(tensors), like=plain)
            assert torch.equal(wanted, again), (chain, isa)


@pytest.mark.parametrize("shape", [(), (0, 3), (7,), (3, 1031), (2, 3, 40, 41)], ids=str)
def test_chains_of_a_tensor_equal_their_steps(shape: tuple[int, ...]) -> None:
    x = values(*shape)
    check_all_ways(own.chain.out, x, x)


# Sizes, groups, stride, whether transposed: by pixel, by channel, depthwise, in phases.
CONVOLUTIONS = {
    "pointwise": ((1, 8, 20, 21), (24, 8, 1, 1), 1, 1, False),
    "three by three": ((2, 5, 17, 19), (20, 5, 3, 3), 1, 1, False),
    "few pixels": ((1, 24, 5, 5), (32, 24, 1, 1), 1, 1, False),
    "grouped": ((1, 8, 18, 18), (12, 4, 3, 3), 2, 2, False),
    "depthwise": ((1, 9, 40, 70), (9, 1, 3, 3), 9, 1, False),
    "depthwise, many channels": ((1, 600, 5, 7), (600, 1, 3, 3), 600, 1, False),
    "depthwise, narrow": ((2, 9, 14, 14), (18, 1, 3, 3), 9, 2, False),
    "depthwise, five by five": ((1, 4, 21, 23), (4, 1, 5, 5), 4, 2, False),
    "small groups": ((1, 12, 14, 15), (10, 6, 3, 3), 2, 1, False),
    "depthwise, transposed": ((1, 6, 9, 11), (6, 1, 3, 3), 6, 2, True),
    "transposed": ((1, 6, 9, 9), (6, 4, 3, 3), 1, 2, True),
}


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("case", CONVOLUTIONS)
def test_chains_after_a_convolution_equal_their_steps(case: str, channels_last: bool) -> None:
    size, weight_size, groups, stride, transposed = CONVOLUTIONS[case]
    x, w = values(*size), values(*weight_size)
    if channels_last:
        x = x.to(memory_format=torch.channels_last)
    channels = weight_size[1] * groups if transposed else weight_size[0]
    two = [1, 1]
    args = (
        x,
        Const(w),
        Const(values(channels)),
        [stride] * 2,
        two,
        two,
        transposed,
        [0, 0],
        groups,
    )
    if weight_size[2] == 1:
        args = (*args[:4], [0, 0], *args[5:])
    like = torch.ops.aten.convolution.default(x, w, values(channels), *args[3:])
    check_all_ways(own.convolution.out, one("aten::convolution.out", *args, like=like), *args)


@pytest.mark.parametrize("sizes", [(1, 40, 1000), (128, 64, 96), (50, 7, 1), (3, 0, 5)], ids=str)
def test_chains_after_a_product_equal_their_steps(sizes: tuple[int, int, int]) -> None:
    m, k, n = sizes
    a, b, bias = values(m, k), values(k, n), values(n)
    like = a @ b
    check_all_ways(own.mm.out, one("aten::mm.out", a, Const(b), like=like), a, Const(b))
    for beta, alpha in ((1, 1), (2, 0.5)):
        args = (bias, a, Const(b), beta, alpha)
        check_all_ways(own.addmm.out, one("aten::addmm.out", *args, like=like), *args)


@pytest.mark.parametrize(
    ("chain", "numbers", "tensors", "message"),
    [
        ("swish", [], [], "there is no step 'swish'"),
        ("add", [], [], "step 'add': expected two operands, as in 'add:_0', got 'add'"),
        ("add:_0\n", [], [], "step 'add': expected two operands, .*, got 'add:_0.'"),
        ("relu:_x", [], [], "step 'relu': expected no operands, got 'relu:_x'"),
        ("add:_0", [], [], "expected operand _, x, s or the number of one of 0 tensors, got '0'"),
        ("clamp", [0.0], [], "expected more numbers for its steps, got 1"),
        ("relu", [0.0], [], "expected 0 numbers for 1 steps, got 1"),
        ("", [], [], "at least 1 step, got 0 steps"),
        ("relu " * 9, [], [], "expected at most 8 steps, got more"),
        ("add:_0", [], [(3, 2)], "tensor 0: expected f32 of 12 elements, got f32 of 6"),
        (
            "add:_0",
            [],
            [torch.zeros(4, 3).t()],
            "tensor 0 and the result have different memory layouts",
        ),
        (
            "relu",
            [],
            [(3, 4)] * 5,
            "expected a text and a list of at most 4 tensors, got a text and 5 tensors",
        ),
    ],
)
def test_a_wrong_chain_is_refused(
    chain: str, numbers: list[float], tensors: list[Any], message: str
) -> None:
    x = values(3, 4)
    given = [torch.zeros(t) if isinstance(t, tuple) else t for t in tensors]
    with pytest.raises(OpError, match=message.replace("_", ".")):
        run_op(
            "executorch_py::chain.out",
            x,
            chain,
            Doubles(numbers),
            Tensors(given),
            out=[Out(torch.float32, (3, 4))],
        )


@pytest.mark.parametrize(
    ("is_prepared", "message"),
    [(True, "expected 1 tensors, as prepared, got 2"), (False, "that are prepared, got none")],
)
def test_a_run_that_its_preparation_does_not_fit_is_refused(
    is_prepared: bool, message: str
) -> None:
    """A file cannot change a list of tensors or skip the preparation; C code can."""
    ahead, real = Values(True), Values(False)

    def call(values: Values, n_tensors: int) -> Any:
        x = torch.zeros(3, 4)
        args = (x, "relu", Doubles([]), Tensors([x] * n_tensors))
        return values.call(args, [Out(torch.float32, (3, 4))], False)

    planned, values = call(ahead, 1)
    with loaded_op(
        "executorch_py::chain.out", len(values), planned if is_prepared else None, 1
    ) as run:
        if is_prepared:
            run(call(real, 1)[0])
        with pytest.raises(OpError, match=f"epilogue: .*{message}"):
            run(call(real, 2)[0])
