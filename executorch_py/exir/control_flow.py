"""Control flow that torch.export captures, under the names that exporter scripts use.

`cond` and `map` are torch's; `while_loop` takes its operands as upstream's does (one structure),
`shape` is the size of a tensor. All work in eager mode and under torch.export.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._higher_order_ops.map import map
from torch._higher_order_ops.while_loop import while_loop as _while_loop
from torch.utils import _pytree as pytree

from executorch_py.exir.error import ExportError, ExportErrorType

cond = torch.cond

__all__ = ["cond", "map", "shape", "while_loop"]


def shape(x: torch.Tensor) -> torch.Size:
    """The sizes of `x`, symbolic where export made them so."""
    return x.shape


def while_loop(
    cond_fn: Callable[..., torch.Tensor],
    body_fn: Callable[..., Any],
    init_val: Sequence[Any],
) -> Any:
    """Run body_fn on the carried values as long as cond_fn of them is true; return the last."""
    if not all(isinstance(leaf, torch.Tensor) for leaf in pytree.tree_leaves(init_val)):
        raise ExportError(
            ExportErrorType.INVALID_INPUT_TYPE,
            "control_flow.while_loop() carries tensors only; got "
            f"{[type(leaf).__name__ for leaf in pytree.tree_leaves(init_val)]}. Wrap numbers with "
            "torch.tensor().",
        )
    return _while_loop(cond_fn, body_fn, tuple(init_val))
