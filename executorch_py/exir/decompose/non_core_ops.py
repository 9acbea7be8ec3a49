"""Decompositions of operators outside the core set that torch's core table does not list.

Torch has rules for many of them (`tril_indices`, `ldexp`), and the modules beside this one have
more. They are applied before the edge dialect refuses operators outside the core set. Operators
that the user or a partitioner keeps whole are left alone; an operator with a kernel has no rule.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cache
from typing import Any

import torch
from torch.export import ExportedProgram

from executorch_py.exir.decompose.arithmetic import (
    arithmetic_decompositions,
    library_decompositions,
)
from executorch_py.exir.decompose.complex import (
    complex_decompositions,
    holds_complex,
)
from executorch_py.exir.decompose.core import decompose, decomposition_table
from executorch_py.exir.decompose.half import half_ldexp
from executorch_py.exir.decompose.index import index_decompositions
from executorch_py.exir.decompose.linalg import linalg_decompositions
from executorch_py.exir.decompose.sort import sort_decompositions
from executorch_py.exir.decompose.torchao_linear import integer_decompositions
from executorch_py.exir.ir.graph_modules import graph_modules

_aten = torch.ops.aten
# Torch's other decompositions that end in core operators; the rest end in primitives that no
# runtime has.
_DECOMPOSED_BY_TORCH = frozenset(
    {
        _aten.ldexp.Tensor,
        _aten.tril_indices.default,
        _aten.triu_indices.default,
    }
)
# Operators that have the same meaning as another: Python's shifts, and views whose copies have
# kernels.
_RENAMED: dict[Any, Callable[..., Any]] = {
    _aten.__lshift__.Scalar: _aten.bitwise_left_shift.Tensor_Scalar,
    _aten.__lshift__.Tensor: _aten.bitwise_left_shift.Tensor,
    _aten.__rshift__.Scalar: _aten.bitwise_right_shift.Tensor_Scalar,
    _aten.__rshift__.Tensor: _aten.bitwise_right_shift.Tensor,
    _aten._conj.default: _aten._conj_physical.default,
    _aten._neg_view.default: _aten.neg.default,
    _aten.unfold.default: _aten.unfold_copy.default,
    _aten.view.dtype: _aten.view_copy.dtype,
    _aten.view_as_complex.default: _aten.view_as_complex_copy.default,
    _aten.view_as_real.default: _aten.view_as_real_copy.default,
}


@cache
def non_core_decompositions() -> dict[Any, Callable[..., Any]]:
    """Operator → rule, for every operator that is decomposed here."""
    from torch._decomp import get_decompositions

    by_torch = get_decompositions(list(_DECOMPOSED_BY_TORCH))
    return {
        **by_torch,
        _aten.ldexp.Tensor: half_ldexp(by_torch[_aten.ldexp.Tensor]),
        **arithmetic_decompositions(),
        **index_decompositions(),
        **integer_decompositions(),
        **linalg_decompositions(),
        **sort_decompositions(),
        **_RENAMED,
    }


def rules_for(
    program: ExportedProgram, allowed: Collection[Any], preserved: Collection[Any]
) -> dict[Any, Callable[..., Any]]:
    """Operator → rule, without the operators that stay as they are."""
    rules = {**non_core_decompositions(), **library_decompositions()}
    if holds_complex(program):
        rules = {**rules, **complex_decompositions()}
    kept = {*allowed, *preserved}
    return {op: rule for op, rule in rules.items() if op not in kept}


def core_table(preserved: Collection[Any]) -> dict[Any, Any]:
    """Torch's core decompositions, but those that would turn copies of views back into views."""
    return decomposition_table([*preserved, *_RENAMED.values()])


def decompose_all(
    program: ExportedProgram, allowed: Collection[Any], preserved: Collection[Any]
) -> ExportedProgram:
    """The program in core operators and those that have kernels, in one pass over it.

    `allowed` operators outside the core and `preserved` ones stay as they are.
    """
    rules = rules_for(program, allowed, preserved)
    return decompose(program, {**rules, **core_table(preserved)})


def decompose_non_core(
    program: ExportedProgram, allowed: Collection[Any], preserved: Collection[Any]
) -> ExportedProgram:
    """The program in such operators, from one in core operators except `preserved` ones."""
    rules = rules_for(program, allowed, preserved)
    called = {
        node.target
        for gm in graph_modules(program.graph_module)
        for node in gm.graph.nodes
        if node.op == "call_function"
    }
    if called.isdisjoint(rules):
        return program
    return decompose(program, {**core_table(preserved), **rules})
