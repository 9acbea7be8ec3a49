"""Registers operators of the libraries `llama` and `preprocess`: a functional and an out overload.

Relies on torch.library. Operators that another package registered before are left alone: their
schemas are the same. Knows no operator: the modules beside it bring schemas and bodies.
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
    """One operator: run computes on the CPU, shape makes an empty result and checks arguments.

    arguments is the schema's inside up to the out arguments, in which the out overload and the
    functional one agree; letters of aliases there are for tensors that are updated in place. outs
    names the out arguments, with commas between; there are as many results.
    """

    name: str
    arguments: str
    outs: str
    run: Callable[..., Any]
    shape: Callable[..., Any]
    namespace: str = "llama"


@cache
def _library(namespace: str) -> Library:
    """Lives as long as its operators: torch drops them with the object."""
    return Library(namespace, "FRAGMENT")


def _results(operator: Operator, kwargs: dict[str, Any]) -> tuple[torch.Tensor, ...]:
    return tuple(kwargs.pop(out) for out in operator.outs.split(", "))


def _out_form(operator: Operator) -> Callable[..., Any]:
    def run_out(*args: Any, **kwargs: Any) -> Any:
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
    """Makes torch.ops.<namespace>.<name> and its out overload, unless they are there already."""
    name, arguments = operator.name, operator.arguments
    qualified = f"{operator.namespace}::{name}"
    if torch._C._jit_get_schemas_for_operator(qualified):
        return
    library = _library(operator.namespace)
    outs = operator.outs.split(", ")
    kinds = [f"Tensor({letter}!)" for letter in "zyx"[: len(outs)]]
    written = ", ".join(f"{kind} {out}" for kind, out in zip(kinds, outs, strict=True))
    several = len(outs) > 1
    plain = f"({', '.join('Tensor' for _ in outs)})" if several else "Tensor"
    library.define(f"{name}({arguments}) -> {plain}")
    returned = f"({', '.join(kinds)})" if several else kinds[0]
    library.define(f"{name}.out({arguments}, *, {written}) -> {returned}")
    library.impl(name, operator.run, "CPU")
    library.impl(f"{name}.out", _out_form(operator), "CPU")
    register_fake(qualified, operator.shape, lib=library)
    register_fake(f"{qualified}.out", _out_shape(operator), lib=library)
