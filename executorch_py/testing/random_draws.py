"""Random numbers that a program or a model draws: then their results differ, and nothing is wrong.

The numbers of the C runtime are its own, the same on every machine; torch's are others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.nn.modules.dropout import _DropoutNd
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from executorch_py.exir.ir.graph_modules import graph_modules
from executorch_py.exir.ir.op_traits import is_random, op_key, op_overload
from executorch_py.testing.reference import as_exported


def draws_of_program(exported: ExportedProgram) -> str:
    """A sentence about the random operators of a lowered program; empty if it has none."""
    found = {
        op_key(node.target)
        for module in graph_modules(exported.graph_module)
        for node in module.graph.nodes
        if node.op == "call_function"
        and (op := op_overload(node.target)) is not None
        and is_random(op)
    }
    if not found:
        return ""
    return (
        f"The program draws random numbers ({', '.join(sorted(found))}), which differ from those "
        "of eager torch. To compare, pass them as an input, or export in eval mode."
    )


class _Draws(TorchDispatchMode):
    """Records the random operators that run."""

    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if is_random(func) and not _is_without_dropout(func, args, kwargs or {}):
            self.found.add(op_key(func))
        return func(*args, **(kwargs or {}))


def _is_without_dropout(func: Any, args: Any, kwargs: Mapping[str, Any]) -> bool:
    """Whether an operator with dropout, as attention is, has a probability of 0."""
    for i, argument in enumerate(func._schema.arguments):
        if argument.name == "dropout_p":
            value = args[i] if i < len(args) else kwargs.get(argument.name, argument.default_value)
            return not value
    return False


def draws_of_model(
    model: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> str:
    """A sentence about the random operators of a model in eager torch; empty if it has none."""
    copies = pytree.tree_map_only(torch.Tensor, torch.clone, (tuple(args), dict(kwargs)))
    with _Draws() as draws:
        as_exported(model, *copies)  # which may write to its inputs
    if not draws.found:
        return ""
    modules = model.named_modules() if isinstance(model, torch.nn.Module) else ()
    dropouts = [n for n, m in modules if isinstance(m, _DropoutNd) and m.training and m.p > 0]
    names = ", ".join(map(repr, dropouts[:4])) + (", …" if dropouts[4:] else "")
    training = f"; dropout in training mode: {names}" if dropouts else ""
    return (
        f"The model draws random numbers in eager torch ({', '.join(sorted(draws.found))}"
        f"{training}), and the program draws none. To compare, call model.eval() before the export "
        "and before verify."
    )
