"""Eager torch as an oracle: the results of the exported graph, and the same in float64.

`as_exported` runs a model the way torch.export traced it. `in_float64` runs it with every floating
value widened, which separates the rounding error of a float32 result from a wrong result. Knows
neither programs nor tolerances.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from executorch_py.exir.ir.graph import deep_copy

WIDE = {
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.float32: torch.float64,
    torch.complex32: torch.complex128,
    torch.complex64: torch.complex128,
}


def first_line(error: BaseException) -> str:
    """The message of an error without what follows its first line, such as torch's tracebacks."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if lines and "traceback" in lines[0].lower():  # the message is at its end
        lines = lines[-1:]
    return lines[0] if lines else type(error).__name__


def named_error(error: BaseException) -> str:
    """The type of an error and the first line of its message."""
    return f"{type(error).__name__}: {first_line(error)}"


class NotComparable(Exception):
    """The nodes of a model or of a file cannot be run one by one; the message gives the reason."""


class NoReference(Exception):
    """The model cannot be run in float64; the message gives the reason."""


@contextmanager
def without_fast_paths() -> Iterator[None]:
    """Fast paths of torch's transformer layers are disabled within this context.

    In inference they skip padded rows and merge operators. torch.export records the layers without
    them, and then padded rows have values.
    """
    enabled = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(enabled)


def as_exported(
    model: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> list[Any]:
    """The flat outputs of a copy of the model, computed as the exported graph computes them.

    The model may write to the inputs.
    """
    with torch.no_grad(), without_fast_paths():
        return list(pytree.tree_leaves(deep_copy(model)(*args, **kwargs)))


def _widened(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.to(WIDE[value.dtype]) if value.dtype in WIDE else value
    return WIDE.get(value, value) if isinstance(value, torch.dtype) else value


class _Float64(TorchDispatchMode):
    """Widens tensors that a model makes or casts to, and constants that are not buffers."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func._schema.is_mutable:
            self._check_writes(func, args, kwargs)
        args, kwargs = pytree.tree_map(_widened, (args, dict(kwargs)))
        return func(*args, **kwargs)

    @staticmethod
    def _check_writes(func: Any, args: Any, kwargs: Mapping[str, Any]) -> None:
        for i, argument in enumerate(func._schema.arguments):
            if argument.alias_info is None or not argument.alias_info.is_write:
                continue
            written = args[i] if i < len(args) else kwargs.get(argument.name)
            for leaf in pytree.tree_leaves(written):
                if isinstance(leaf, torch.Tensor) and leaf.dtype in WIDE:
                    raise NoReference(
                        f"{func}: expected a parameter, a buffer or an input to write to, got "
                        f"a {leaf.dtype} tensor that is none of these"
                    )


def _wide_copy(model: Callable[..., Any]) -> Callable[..., Any]:
    wide = deep_copy(model)
    # A bound method (`model.encode`) is copied together with its module.
    module = wide if isinstance(wide, torch.nn.Module) else getattr(wide, "__self__", None)
    if isinstance(module, torch.nn.Module):
        module._apply(_widened)
    return wide


def in_float64(
    model: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> list[Any]:
    """The flat outputs of a copy of the model with every floating value in double precision.

    NoReference when the model does not run in float64 (it reads bits, or requires a dtype).
    """
    default = torch.get_default_dtype()
    try:
        call_args, call_kwargs = pytree.tree_map(_widened, (tuple(args), dict(kwargs)))
        wide = _wide_copy(model)
        # Quotients of integers and new tensors have the default dtype.
        torch.set_default_dtype(torch.float64)
        # Graph modules print a traceback of their own when they fail.
        quiet = contextlib.redirect_stderr(io.StringIO())
        with quiet, torch.no_grad(), without_fast_paths(), _Float64():
            return list(pytree.tree_leaves(wide(*call_args, **call_kwargs)))
    except NoReference:
        raise
    except Exception as error:
        raise NoReference(named_error(error)) from error
    finally:
        torch.set_default_dtype(default)
