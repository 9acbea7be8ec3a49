"""Torch's run_decompositions, without its cost for composite operators that nobody calls.

A composite operator has a kernel that calls other operators (CompositeImplicitAutograd). For each
one of about 500, torch replaces a dozen kernels while it traces, and it searches all namespaces for
them, on every call. Small programs spend most of their lowering there. Here the search is cached,
and kernels are replaced only where tracing would otherwise do something else: for operators that
the program calls, that have a rule other than their own kernel, or that are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import torch
from torch.export import ExportedProgram, default_decompositions

from executorch_py.exir.decompose.backward import is_joint
from executorch_py.exir.ir.graph_modules import graph_modules

Rules = dict[Any, Callable[..., Any]]
_COMPOSITE = "CompositeImplicitAutograd"


def composite_registrations() -> tuple[str, ...]:
    """Names of the composite operators that are registered now: a key for what depends on them."""
    return tuple(torch._C._dispatch_get_registrations_for_dispatch_key(_COMPOSITE))


@lru_cache(maxsize=1)
def _functional_composites(registrations: tuple[str, ...]) -> frozenset[Any]:
    """The composite operators that may stay whole: their results do not alias their arguments."""
    from torch._export.utils import (
        _collect_all_valid_cia_ops_for_aten_namespace,
        _is_preservable_cia_op,
        _materialize_cpp_cia_ops,
    )

    _materialize_cpp_cia_ops()  # torch's own search does it for each namespace anew
    libraries = [getattr(torch.ops, name) for name in list(torch.ops._dir) if name != "aten"]
    return frozenset(_collect_all_valid_cia_ops_for_aten_namespace()) | {
        op
        for library in libraries
        if isinstance(library, torch._ops._OpNamespace)
        for packet in [getattr(library, name) for name in library]
        for op in packet.op_overloads()
        if _is_preservable_cia_op(op)
    }


def default_rules(registrations: tuple[str, ...]) -> Rules:
    """Torch's table for the core operators, with the composite operators of all libraries."""
    from torch._export.utils import _get_decomp_for_cia

    rules: Rules = dict(default_decompositions().decomp_table)
    for op in _functional_composites(registrations):
        if op.namespace != "aten":
            rules.setdefault(op, _get_decomp_for_cia(op))
    return rules


def _is_own_kernel(op: Any, rule: Any) -> bool:
    """Whether torch made the rule of the composite kernel that `op` has in C++."""
    return (getattr(rule, "keywords", None) or {}).get("kernel") is op


def _called_operators(program: ExportedProgram) -> set[Any]:
    return {
        node.target
        for gm in graph_modules(program.graph_module)
        for node in gm.graph.nodes
        if isinstance(node.target, torch._ops.OpOverload)
    }


def _split(table: Mapping[Any, Any], called: set[Any]) -> tuple[Rules, Rules]:
    """The rules of composite operators that tracing needs, and those of all other operators."""
    from torch._export.utils import _is_preservable_cia_op, _special_op_to_preserve_cia

    composites = _functional_composites(composite_registrations())
    composites |= {op for op in called if _is_preservable_cia_op(op)}
    rules = {op: table.get(op, _special_op_to_preserve_cia) for op in composites}
    wanted = {
        op: rule for op, rule in rules.items() if op in called or not _is_own_kernel(op, rule)
    }
    return wanted, {op: rule for op, rule in table.items() if op not in composites}


def run_decompositions(program: ExportedProgram, table: Mapping[Any, Any]) -> ExportedProgram:
    """The result of `program.run_decompositions(table)`, with the same names."""
    if is_joint(program):  # torch traces these in another way
        return program.run_decompositions(dict(table))
    from torch.export.exported_program import (
        _decompose_exported_program,
        _disable_prexisiting_fake_mode,
    )

    composite, other = _split(table, _called_operators(program))
    run = _disable_prexisiting_fake_mode(_decompose_exported_program)
    result: ExportedProgram = run(
        program,
        cia_to_decomp=composite,
        python_decomp_table=other,
        joint_loss_index=None,
        decompose_custom_triton_ops=False,
    )
    return result
