"""Operators that torch's table of core decompositions leaves over and that have another way to run.

Torch knows how to decompose many operators that its core table does not name (`tril_indices`,
`bucketize`). They are decomposed here, before the edge dialect refuses what is not core. Operators
that the user, a partitioner or a kernel of the runtime wants whole are left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cache
from typing import Any

import torch
from torch.export import ExportedProgram

from executorch_py.exir.dialects.verifier import is_core_aten
from executorch_py.exir.graph_module import graph_modules
from executorch_py.exir.program.decompositions import decompose, decomposition_table

_aten = torch.ops.aten
# Those of torch's other decompositions that end in core operators; the rest end in primitives that
# no runtime has.
_DECOMPOSED_BY_TORCH = frozenset(
    {
        _aten.bucketize.Tensor,
        _aten.ldexp.Tensor,
        _aten.tril_indices.default,
        _aten.triu_indices.default,
    }
)
# Python's shifts, which torch traces under names of their own.
_RENAMED: dict[Any, Callable[..., Any]] = {
    _aten.__lshift__.Scalar: _aten.bitwise_left_shift.Tensor_Scalar,
    _aten.__lshift__.Tensor: _aten.bitwise_left_shift.Tensor,
    _aten.__rshift__.Scalar: _aten.bitwise_right_shift.Tensor_Scalar,
    _aten.__rshift__.Tensor: _aten.bitwise_right_shift.Tensor,
}


@cache
def _decompositions() -> dict[Any, Callable[..., Any]]:
    from torch._decomp import get_decompositions

    return {**get_decompositions(list(_DECOMPOSED_BY_TORCH)), **_RENAMED}


def decompose_uncommon(
    program: ExportedProgram, allowed: Collection[Any], preserved: Collection[Any]
) -> ExportedProgram:
    """The decomposed program, less the operators outside the core that have a way into it.

    `allowed` and `preserved` operators stay as they are; the program was decomposed without the
    latter.
    """
    wanted = {
        node.target
        for gm in graph_modules(program.graph_module)
        for node in gm.graph.nodes
        if node.op == "call_function" and not is_core_aten(node.target)
    } - {*allowed, *preserved}
    extra = {op: how for op, how in _decompositions().items() if op in wanted}
    if not extra:
        return program
    return decompose(program, {**decomposition_table(preserved), **extra})
