"""Operators that a partitioner keeps from decomposition.

Decomposition works by operator, a partitioner's check by node. Accepted nodes are therefore
retargeted to clones of their operators in another library, which no decomposition table lists,
while rejected nodes of the same operators decompose. Knows nothing of the edge dialect.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

import torch
from torch.export import ExportedProgram
from torch.fx import Node
from torch.library import Library

from executorch_py.exir.decompose.core import (
    decompose,
    decomposition_table,
    quantization_primitives,
)
from executorch_py.exir.decompose.non_core_ops import core_table
from executorch_py.exir.dialects.edge_ops import EdgeOpOverload, edge_op
from executorch_py.exir.ir.graph import source_line
from executorch_py.exir.ir.graph_modules import contains_any_call_fn_target_op, graph_modules

if TYPE_CHECKING:
    from executorch_py.exir.backend.partitioner import Partitioner

logger = logging.getLogger(__name__)

Check = Callable[[Node], bool]
CLONE_NAMESPACE = "EDGE_DO_NOT_DECOMP"

_aten = torch.ops.aten
# Operators that cannot be kept, or need not: casts recurse, arithmetic needs tensors for its
# scalars, the others would leave views or data-dependent values.
_NEVER_KEPT = frozenset(
    {
        _aten._to_copy.default,
        _aten.add.Tensor,
        _aten.sub.Tensor,
        _aten.mul.Tensor,
        _aten.div.Tensor,
        _aten.item.default,
        _aten._local_scalar_dense.default,
        _aten.unbind.int,
        _aten.split_with_sizes.default,
    }
)


@cache
def _refusal(op: Any) -> str | None:
    """The reason why `op` cannot be kept, or None; warns once per operator."""
    schema = op._schema
    if schema.name == "torchao::choose_qparams_affine":
        return None
    if op in _NEVER_KEPT:
        reason = "it always decomposes"
    elif schema.is_mutable:
        reason = "it is mutable"
    elif any(ret.alias_info is not None for ret in schema.returns):
        reason = "its result aliases its input"
    else:
        return None
    logger.warning("a partitioner cannot keep %s from decomposition: %s", op, reason)
    return reason


def keepable(ops: Iterable[Any]) -> list[Any]:
    """The operators that can be kept from decomposition."""
    return [op for op in ops if isinstance(op, torch._ops.OpOverload) and _refusal(op) is None]


@lru_cache(maxsize=1)
def _library() -> Library:
    return Library(CLONE_NAMESPACE, "FRAGMENT")


@cache
def _clone_of(op: torch._ops.OpOverload) -> torch._ops.OpOverload:
    """An operator with the schema and meaning of `op` that no decomposition table lists."""
    schema = op._schema
    name = schema.name.split("::")[1]
    qualified = f"{name}.{schema.overload_name}" if schema.overload_name else name
    library = _library()
    if qualified not in _defined():
        library.define(str(schema).split("::", 1)[1])
        library.impl(qualified, op, "CompositeExplicitAutograd")
        _defined().add(qualified)
    clone: torch._ops.OpOverload = getattr(
        getattr(getattr(torch.ops, CLONE_NAMESPACE), name), schema.overload_name or "default"
    )
    return clone


@lru_cache(maxsize=1)
def _defined() -> set[str]:
    return set()


def _calls(program: ExportedProgram, ops: Iterable[Any]) -> Iterator[Node]:
    wanted = frozenset(ops)
    for gm in graph_modules(program.graph_module):
        for node in gm.graph.nodes:
            if node.op == "call_function" and node.target in wanted:
                yield node


def _keep_by_name(
    program: ExportedProgram, ops: Iterable[Any], also: Iterable[Any]
) -> tuple[ExportedProgram, set[Any]]:
    """Decompose all but `ops`, for partitioners without a check."""
    table = decomposition_table(also)
    kept = {op for op in ops if table.pop(op, None) is not None}
    if contains_any_call_fn_target_op(program.graph_module, table):
        program = decompose(program, table)
    return program, kept


def _keep_by_check(
    program: ExportedProgram,
    partitioner: Partitioner,
    ops: Iterable[Any],
    check: Check | None,
    also: Iterable[Any],
    rules: Mapping[Any, Any],
) -> tuple[ExportedProgram, set[Any]]:
    """Decompose all but the nodes of `ops` that the partitioner's check accepts."""
    ops, also = keepable(ops), list(also)
    remaining = {op: rule for op, rule in rules.items() if op not in ops}
    program = decompose(program, {**remaining, **core_table([*ops, *also])})
    if not _asks_functional_graph(partitioner):
        check = partitioner.ops_to_not_decompose(program)[1]  # constants have names only now
    assert check is not None
    calls = list(_calls(program, ops))
    accepted = [node for node in calls if check(node)]
    kept = {node.target for node in accepted}
    full = {**remaining, **core_table(also)}
    if all(node.target not in full for node in set(calls) - set(accepted)):
        return program, kept
    originals = {_clone_of(op): op for op in kept}
    for node in accepted:
        node.target = _clone_of(node.target)
    program = decompose(program, full)
    for node in _calls(program, originals):
        node.target = originals[node.target]
    return program, kept


def _asks_functional_graph(partitioner: Partitioner) -> bool:
    return bool(getattr(partitioner, "asks_functional_graph", True))


def decompose_for(
    partitioners: Iterable[Partitioner],
    program: ExportedProgram,
    also: Iterable[Any],
    rules: Mapping[Any, Any] | None = None,
) -> tuple[ExportedProgram, list[Any]]:
    """Decompose for the partitioners, in order; return the program and the operators kept.

    `also` are operators that the user keeps, in addition to those of partitioners. `rules`, further
    decompositions, may be applied on the way, which saves a trace of the graph later.
    """
    partitioners, also = list(partitioners), list(also)
    # Operators that a second partitioner keeps are known only after the first one's turn.
    rules = rules if rules is not None and len(partitioners) == 1 else {}
    for partitioner in partitioners:
        transform = getattr(partitioner, "transform_for_pre_decomposition", None)
        program = program if transform is None else transform(program)
    if any(map(_asks_functional_graph, partitioners)):
        program = decompose(program, {})
    kept: set[Any] = set()
    for partitioner in partitioners:
        ops, check = partitioner.ops_to_not_decompose(program)
        if check is None:
            program, new = _keep_by_name(program, ops, also)
        else:
            program, new = _keep_by_check(program, partitioner, ops, check, also, rules)
        kept |= new
    return program, sorted(kept, key=str)


def check_none_survived(
    method: str, program: ExportedProgram, partitioner: Partitioner, ops: Iterable[Any], check: Any
) -> None:
    """Refuse a graph that still holds an operator kept for `partitioner` that it accepts."""
    primitives = set(quantization_primitives())
    wanted = {op for op in ops if isinstance(op, torch._ops.OpOverload)} - primitives
    for node in _calls(program, wanted | set(map(edge_op, wanted))):
        if check is not None and not check(node):
            continue
        op = node.target._op if isinstance(node.target, EdgeOpOverload) else node.target
        line = source_line(node)
        raise RuntimeError(
            f"Node {node.name} with op {op} in method '{method}' was not decomposed or delegated, "
            f"although the partitioner {type(partitioner).__name__} asked to keep it from "
            "decomposition." + (f" It comes from {line}." if line else "") + " Let the partitioner "
            "tag this node, or reject it in the check that ops_to_not_decompose returns."
        )
