"""Registers operators of the `llama` torch library: a functional and an out overload of each.

Relies on torch.library. Operators that another package registered before are left alone: their
schemas are the same. Knows no operator: `custom_ops` and `op_fallback` bring schemas and bodies.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.library import Library, register_fake

NAMESPACE = "llama"
# Lives as long as its operators: torch drops them with the object.
_LIBRARY = Library(NAMESPACE, "FRAGMENT")


@dataclass(frozen=True)
class Operator:
    """One operator: run computes on the CPU, shape makes an empty result and checks arguments.

    arguments is the schema's inside up to the out argument, in which the out overload and the
    functional one agree; letters of aliases there are for tensors that are updated in place.
    """

    name: str
    arguments: str
    out: str
    run: Callable[..., torch.Tensor]
    shape: Callable[..., torch.Tensor]


def _is_registered(name: str) -> bool:
    return bool(torch._C._jit_get_schemas_for_operator(f"{NAMESPACE}::{name}"))


def _out_form(function: Callable[..., torch.Tensor], out_name: str) -> Callable[..., torch.Tensor]:
    def run_out(*args: Any, **kwargs: Any) -> torch.Tensor:
        out: torch.Tensor = kwargs.pop(out_name)
        result = function(*args, **kwargs)
        out.resize_(result.shape).copy_(result)
        return out

    return run_out


def _out_shape(out_name: str) -> Callable[..., torch.Tensor]:
    def shape(*args: Any, **kwargs: Any) -> torch.Tensor:
        out: torch.Tensor = kwargs[out_name]
        return out

    return shape


def register(operator: Operator) -> None:
    """Makes torch.ops.llama.<name> and its out overload, unless they are there already."""
    if _is_registered(operator.name):
        return
    name, out, letter = operator.name, operator.out, "z"
    _LIBRARY.define(f"{name}({operator.arguments}) -> Tensor")
    _LIBRARY.define(
        f"{name}.out({operator.arguments}, *, Tensor({letter}!) {out}) -> Tensor({letter}!)"
    )
    _LIBRARY.impl(name, operator.run, "CPU")
    _LIBRARY.impl(f"{name}.out", _out_form(operator.run, out), "CPU")
    register_fake(f"{NAMESPACE}::{name}", operator.shape, lib=_LIBRARY)
    register_fake(f"{NAMESPACE}::{name}.out", _out_shape(out), lib=_LIBRARY)
