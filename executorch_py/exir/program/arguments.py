"""Arguments of an exported program, in the structure that its model takes.

Callers pass the arguments of the model, or the one tuple that they passed to torch.export, and
keyword arguments in any order. Other arguments are refused by a message that shows the program's
inputs beside them. Relies on torch's pytrees; knows nothing of running.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.utils._pytree import TreeSpec, tree_structure

Arguments = tuple[tuple[Any, ...], dict[str, Any]]


def model_arguments(
    spec: TreeSpec | None,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    wanted: Callable[[], str],
) -> Arguments:
    """Positional and keyword arguments in the structure `spec`, which `wanted` describes."""
    if spec is None:
        return tuple(args), dict(kwargs)
    named = _in_order(kwargs, spec.child(1).context)
    candidates = [tuple(args)]
    if len(args) == 1 and isinstance(args[0], (tuple, list)):
        candidates.append(tuple(args[0]))
    for candidate in candidates:
        if tree_structure((candidate, named)) == spec:
            return candidate, named
    given = [_described(value) for value in args]
    given += [f"{name}={_described(value)}" for name, value in kwargs.items()]
    raise ValueError(f"expected arguments of {wanted()}, got ({', '.join(given)})")


def _in_order(kwargs: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    known = [name for name in names if name in kwargs]
    return {name: kwargs[name] for name in [*known, *(k for k in kwargs if k not in known)]}


def _described(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key!r}: {_described(v)}" for key, v in value.items()) + "}"
    if type(value) in (tuple, list):
        inside = ", ".join(map(_described, value))
        if type(value) is list:
            return f"[{inside}]"
        return f"({inside},)" if len(value) == 1 else f"({inside})"
    return repr(value) if isinstance(value, (int, float, str, type(None))) else type(value).__name__
