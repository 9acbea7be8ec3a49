"""Registration of `llama` and `preprocess` operators: a functional and an out overload of each.

Relies on torch.library. Operators that another package registered before are kept, since their
schemas are the same. Knows no operator: the modules beside this one have schemas and functions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch.library import Library, register_fake


@dataclass(frozen=True)
class Operator:
    """One operator: `run` computes on the CPU, `shape` checks arguments and makes empty results.

    `arguments` is the schema's argument list without the out arguments; the functional and the out
    overload share it. Alias letters in it mark tensors that are updated in place. `outs` is the
    comma-separated list of out arguments, one for each result. `apart` is a pair of an out argument
    and an argument whose memory must not overlap.
    """

    name: str
    arguments: str
    outs: str
    run: Callable[..., Any]
    shape: Callable[..., Any]
    namespace: str = "llama"
    apart: tuple[str, str] | None = None


@cache
def _library(namespace: str) -> Library:
    """The library of a namespace, cached because torch drops operators with their library."""
    return Library(namespace, "FRAGMENT")


def _results(operator: Operator, kwargs: dict[str, Any]) -> tuple[torch.Tensor, ...]:
    return tuple(kwargs.pop(out) for out in operator.outs.split(", "))


def _check_apart(
    operator: Operator, names: tuple[str, str], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    out, other = names
    arguments = [argument.split()[-1] for argument in operator.arguments.split(", ")]
    operands = {**dict(zip(arguments, args, strict=False)), **kwargs}
    (begin, end), (first, last) = _addresses(operands[out]), _addresses(operands[other])
    torch._check(
        end <= first or last <= begin,
        lambda: (
            f"{operator.name}: {out}: expected memory apart from {other}, got memory that "
            "overlaps it"
        ),
    )


def _addresses(tensor: torch.Tensor) -> tuple[int, int]:
    """The addresses of a tensor's first byte and of the first byte behind it."""
    begin, size = tensor.data_ptr(), tensor.element_size()
    if tensor.numel() == 0:
        return begin, begin
    steps = zip(tensor.shape, tensor.stride(), strict=True)
    return begin, begin + size * (1 + sum((n - 1) * step for n, step in steps))


def _out_variant(operator: Operator) -> Callable[..., Any]:
    def run_out(*args: Any, **kwargs: Any) -> Any:
        if operator.apart is not None:
            _check_apart(operator, operator.apart, args, kwargs)
        given = _results(operator, kwargs)
        results = operator.run(*args, **kwargs)
        for out, result in zip(given, [results] if len(given) == 1 else results, strict=True):
            out.resize_(result.shape).copy_(result)
        return given[0] if len(given) == 1 else given

    return run_out


def _out_shape(operator: Operator) -> Callable[..., Any]:
    def shape(*args: Any, **kwargs: Any) -> Any:
        given = _results(operator, kwargs)
        return given[0] if len(given) == 1 else given

    return shape


def register(operator: Operator) -> None:
    """Defines torch.ops.<namespace>.<name> and its out overload, unless they exist already."""
    name, arguments = operator.name, operator.arguments
    qualified = f"{operator.namespace}::{name}"
    if torch._C._jit_get_schemas_for_operator(qualified):
        return
    library = _library(operator.namespace)
    outs = operator.outs.split(", ")
    types = [f"Tensor({letter}!)" for letter in "zyx"[: len(outs)]]
    out_arguments = ", ".join(f"{kind} {out}" for kind, out in zip(types, outs, strict=True))
    several = len(outs) > 1
    functional = f"({', '.join('Tensor' for _ in outs)})" if several else "Tensor"
    library.define(f"{name}({arguments}) -> {functional}")
    returned = f"({', '.join(types)})" if several else types[0]
    library.define(f"{name}.out({arguments}, *, {out_arguments}) -> {returned}")
    library.impl(name, operator.run, "CPU")
    library.impl(f"{name}.out", _out_variant(operator), "CPU")
    register_fake(qualified, operator.shape, lib=library)
    register_fake(f"{qualified}.out", _out_shape(operator), lib=library)
