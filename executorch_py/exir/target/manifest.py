"""check_against_kernels: a program that its runtime could not load or run is refused at export.

Every operator call of the lowered graphs is compared with the kernels of the target: the operator,
its dtypes, its rank and, for our kernels, its argument values. All calls without a kernel are
reported together, each with its node, the user's source line, and a remedy. Our kernels are
described by the built extension itself, upstream's by a table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from torch import fx
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from executorch_py.exir.error import ExportError, ExportErrorType
from executorch_py.exir.ir import memory_ops
from executorch_py.exir.ir.generated_out_variants import is_users_own
from executorch_py.exir.ir.graph import all_graph_modules, nodes_in, source_line
from executorch_py.exir.ir.op_traits import (
    is_delegate_call,
    op_key,
    op_overload,
    out_arguments,
)
from executorch_py.exir.ir.out_variants import kernel_arity
from executorch_py.exir.ir.runtime_kernels import kernel_advice
from executorch_py.exir.ir.scalar_type import short_name
from executorch_py.exir.ir.tensor_spec import TensorSpec
from executorch_py.exir.ir.warn import warn_caller
from executorch_py.exir.target.argument_rules import (
    argument_problem,
    argument_warning,
    training_only,
)

UPSTREAM_TARGET = "executorch-1.5"
Manifest = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Offence:
    """One operator call that the target has no kernel for."""

    operator: str
    dtypes: tuple[str, ...]
    problem: str
    method: str
    node: str
    where: str
    is_missing: bool = False  # no kernel at all, whatever dtype, rank or argument
    n_args: int = 0  # entries of a call, for the author of a kernel

    @property
    def headline(self) -> str:
        return f"{self.operator}({', '.join(self.dtypes)}): {self.problem}"

    @property
    def place(self) -> str:
        at = f", at {self.where}" if self.where else ""
        return f"method {self.method}, node {self.node}{at}"


class MissingKernelError(ExportError):
    """The target runtime lacks kernels for this program; `offences` lists every one of them."""

    def __init__(self, target: str, offences: list[Offence]) -> None:
        self.offences = offences
        places: dict[str, list[str]] = {}
        for offence in offences:
            places.setdefault(offence.headline, []).append(offence.place)
        shown = "\n".join(
            "\n    ".join([f"  {headline}", *_first(found)]) for headline, found in places.items()
        )
        super().__init__(
            ExportErrorType.NOT_SUPPORTED,
            f"the kernels of target {target!r} cannot run this program:\n{shown}\n"
            "Replace these operators in the model, cast their inputs to a dtype that is listed, or "
            "lower them to a backend that has them (to_edge_transform_and_lower(partitioner=...))."
            + _kernel_advice(target, offences),
        )


def _kernel_advice(target: str, offences: list[Offence]) -> str:
    """Advice on adding kernels for operators that have none, if that is possible."""
    missing = {o.operator: o for o in offences if o.is_missing}
    if target == UPSTREAM_TARGET or not missing:
        return ""
    own = sorted(name for name in missing if is_users_own(name))
    name = own[0] if own else sorted(missing)[0]
    return "\n" + kernel_advice(name, missing[name].n_args)


def _first(places: list[str], limit: int = 3) -> list[str]:
    """The first few places, and the number of the others."""
    more = len(places) - limit
    return places if more <= 0 else [*places[:limit], f"and {more} more"]


def check_against_kernels(programs: Mapping[str, ExportedProgram], target: str) -> None:
    """Raise MissingKernelError when a method calls a kernel that the target does not have."""
    manifest = kernel_manifest(target)
    if manifest is None:
        return
    offences: list[Offence] = []
    for name, program in sorted(programs.items()):
        for call in _operator_calls(program.graph_module):
            offences.extend(_offences_of(call, name, manifest, target))
    if offences:
        raise MissingKernelError(target, offences)


def kernel_manifest(target: str) -> Manifest | None:
    """Operator → dtypes and rank that the target's kernels take; None when it cannot be known."""
    if target == UPSTREAM_TARGET:
        from executorch_py.exir.target.upstream_kernels import UPSTREAM_KERNELS

        return UPSTREAM_KERNELS
    try:
        from executorch_py import _C
    except ImportError as error:
        warn_caller(
            "the program was not checked against our kernels, because the extension "
            f"executorch_py._C cannot be imported ({error}); build it with `pip install .`"
        )
        return None
    manifest: Manifest = _C.kernel_manifest()
    return manifest


def _operator_calls(gm: fx.GraphModule) -> Iterator[fx.Node]:
    for module in all_graph_modules(gm):
        for node in module.graph.nodes:
            if node.op != "call_function" or is_delegate_call(node.target):
                continue
            if op_overload(node.target) is not None or (
                node.target is memory_ops.view and not _is_static(node)
            ):
                yield node


def _is_static(view: fx.Node) -> bool:
    spec = view.meta["spec"]
    return isinstance(spec, TensorSpec) and spec.is_static_shape_tensor


def _offences_of(node: fx.Node, method: str, manifest: Manifest, target: str) -> Iterator[Offence]:
    operator = "executorch_prim::et_view.default" if node.target is memory_ops.view else _key(node)
    inputs, outputs = _tensors(node)
    facts = manifest.get(operator)

    def offence(problem: str, specs: list[TensorSpec]) -> Offence:
        types = tuple(short_name(spec.dtype) for spec in specs)
        op = op_overload(node.target)
        return Offence(
            operator,
            types,
            problem,
            method,
            node.name,
            source_line(node),
            is_missing=facts is None,
            n_args=0 if op is None else kernel_arity(op),
        )

    if facts is None:
        reason = training_only(op_overload(node.target))
        problem = "there is no kernel for this operator" + (f", and {reason}" if reason else "")
        yield offence(problem, [*inputs, *outputs])
        return
    for role, specs in (("inputs", inputs), ("outputs", outputs)):
        allowed = facts.get(role) or ()
        wrong = sorted({short_name(s.dtype) for s in specs} - set(allowed)) if allowed else []
        if wrong:
            problem = f"{role[:-1]} dtype {', '.join(wrong)}; the kernel takes {', '.join(allowed)}"
            yield offence(problem, specs)
    if target != UPSTREAM_TARGET:
        problem = argument_problem(operator, node, op_overload(node.target))
        if problem:
            yield offence(problem, inputs)
        warning = argument_warning(operator, node, op_overload(node.target))
        if warning:
            line = source_line(node)
            place = f"method '{method}', node '{node.name}'" + (f", from {line}" if line else "")
            warn_caller(f"{place}: {warning}")
    limit = facts.get("max_rank")
    rank = max((len(s.shape) for s in [*inputs, *outputs]), default=0)
    if limit is not None and rank > limit:
        yield offence(f"rank {rank}; the kernel takes at most {limit}", [*inputs, *outputs])


def _key(node: fx.Node) -> str:
    return op_key(node.target)


def _tensors(node: fx.Node) -> tuple[list[TensorSpec], list[TensorSpec]]:
    op = op_overload(node.target)
    written = out_arguments(op) if op is not None else ()
    inputs = [n for n in nodes_in(node.args)]
    inputs += [n for k, v in node.kwargs.items() if k not in written for n in nodes_in(v)]
    outputs = [n for k, v in node.kwargs.items() if k in written for n in nodes_in(v)]
    own = [] if outputs else [node]
    return _specs(inputs), _specs([*outputs, *own])


def _specs(nodes: list[fx.Node]) -> list[TensorSpec]:
    leaves = [leaf for node in nodes for leaf in pytree.tree_leaves(node.meta.get("spec"))]
    return [leaf for leaf in leaves if isinstance(leaf, TensorSpec)]
