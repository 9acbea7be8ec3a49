"""Operators of the library `executorch_py`: products, convolutions, `chain`, with epilogues.

An epilogue is a list of element-wise steps on the result, computed while it is in the cache;
csrc/kernels/lib/epilogue.h describes its text. `winograd_convolution` computes the same sums by
fewer products, rounded in other places. Operators named `packed_…` read weights in panels
(packed_weights.py). No steps are an empty text for these. Only this project's runtime has these
operators. Importing this module defines them in torch, where the steps are computed one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.library import Library

from executorch_py.exir.dialects.packed_weights import unpacked_kernel, unpacked_linear_weight

LIBRARY = "executorch_py"
# Limits of csrc/kernels/lib/epilogue.h.
MAX_STEPS = 8
MAX_TENSORS = 4

# Arguments of an epilogue, the last ones of every operator that has one.
CHAIN = "str chain, float[] numbers, Tensor[] tensors"
_CONVOLUTION = (
    "Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, "
    "SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups"
)
_ADDMM = "Tensor self, Tensor mat1, Tensor mat2, Scalar beta, Scalar alpha"

_UNARY: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "abs": torch.abs,
    "erf": torch.erf,
    "exp": torch.exp,
    "gelu": torch.nn.functional.gelu,
    "gelu_tanh": lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
    "neg": torch.neg,
    "reciprocal": torch.reciprocal,
    "relu": torch.relu,
    "rsqrt": torch.rsqrt,
    "sigmoid": torch.sigmoid,
    "sqrt": torch.sqrt,
    "tanh": torch.tanh,
}
_WITH_NUMBERS: dict[str, tuple[int, Callable[..., torch.Tensor]]] = {
    "clamp": (2, torch.clamp),
    "leaky_relu": (1, torch.nn.functional.leaky_relu),
}
_BINARY: dict[str, Callable[..., torch.Tensor]] = {
    "add": torch.add,
    "div": torch.div,
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "mul": torch.mul,
    "sub": torch.sub,
}
STEP_NAMES = frozenset({*_UNARY, *_WITH_NUMBERS, *_BINARY})


def apply_epilogue(
    start: torch.Tensor, epilogue: str, numbers: Sequence[float], tensors: Sequence[torch.Tensor]
) -> torch.Tensor:
    """Compute the steps of an epilogue one by one, in eager torch."""
    running, left = start, list(numbers)
    sources = {str(i): t.reshape(start.shape) for i, t in enumerate(tensors)}
    for step in epilogue.split():
        name, _, operands = step.partition(":")
        if name in _BINARY:
            known = {**sources, "_": running, "x": start}
            a, b = (left.pop(0) if o == "s" else known[o] for o in operands)
            running = _BINARY[name](a, b)
        elif name in _WITH_NUMBERS:
            count, function = _WITH_NUMBERS[name]
            running = function(running, *(left.pop(0) for _ in range(count)))
        else:
            running = _UNARY[name](running)
    return running


def _packed_convolution(
    input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, *rest: Any
) -> torch.Tensor:
    *geometry, shape = rest
    kernel = unpacked_kernel(weight, shape, geometry[-1])
    return torch.ops.aten.convolution.default(input, kernel, bias, *geometry)


def _packed_linear(
    input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, channels: int
) -> torch.Tensor:
    return torch.nn.functional.linear(input, unpacked_linear_weight(weight, channels), bias)


_DEFINITIONS: tuple[tuple[str, str, Callable[..., torch.Tensor]], ...] = (
    ("convolution", _CONVOLUTION, torch.ops.aten.convolution.default),
    (
        "winograd_convolution",
        f"{_CONVOLUTION}, int tile",
        lambda *args: torch.ops.aten.convolution.default(*args[:-1]),
    ),
    ("addmm", _ADDMM, lambda c, a, b, beta, alpha: torch.addmm(c, a, b, beta=beta, alpha=alpha)),
    ("mm", "Tensor self, Tensor mat2", torch.ops.aten.mm.default),
    ("chain", "Tensor self", lambda x: x),
    ("packed_convolution", f"{_CONVOLUTION}, SymInt[] weight_shape", _packed_convolution),
    (
        "packed_linear",
        "Tensor input, Tensor weight, Tensor? bias, SymInt channels",
        _packed_linear,
    ),
)


def chained(producer: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """An operator's implementation: the producer of its other arguments, then the epilogue."""

    def implementation(*args: Any, out: torch.Tensor | None = None) -> torch.Tensor:
        result = apply_epilogue(producer(*args[:-3]), *args[-3:])
        return result if out is None else out.resize_(result.shape).copy_(result)

    return implementation


def _define() -> Library:
    library = Library(LIBRARY, "FRAGMENT")
    for name, arguments, producer in _DEFINITIONS:
        library.define(f"{name}({arguments}, {CHAIN}) -> Tensor")
        library.define(f"{name}.out({arguments}, {CHAIN}, *, Tensor(a!) out) -> Tensor(a!)")
        for overload in (name, f"{name}.out"):
            library.impl(overload, chained(producer), "CompositeExplicitAutograd")
    return library


_LIBRARY = _define()
