"""cond, map, scan and while_loop as jumps, moves and primitive operators in the method's one list
of instructions.

Bodies are emitted in place. A branch's result that was not planned in the memory of the operator's
own result is copied there, because the memory of branches is used again by later branches. Loop
counters are set when a loop starts, so that an aborted run does not affect the next one. A loop
over slices tests its counter after each round, and before the first where there may be none at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from executorch_py.exir import schema
from executorch_py.exir.emit.emit_signature import lower_bound
from executorch_py.exir.emit.emit_values import Ref
from executorch_py.exir.error import InternalError
from executorch_py.exir.ir.op_traits import higher_order_name

if TYPE_CHECKING:
    from executorch_py.exir.emit.emitter import MethodEmitter

_PRIM = "executorch_prim::"


def copy_value(em: MethodEmitter, source: Ref, target: Ref) -> None:
    """Make `target` equal to `source`: tensors by content, everything else by moving the value."""
    if source == target:
        return
    to = em.values.tensor(target)
    if to is None:
        em.code.move(source, target)
        return
    false = em.values.literal(False)
    em.require_tensor(source)
    if to.shape_dynamism is schema.TensorShapeDynamism.STATIC:
        em.code.kernel("aten::copy_", "", [target, source, false, target])
    else:  # copy.out also gives the target the source's sizes
        em.code.kernel("aten::copy", "out", [source, source, false, target, target])


def copy_values(em: MethodEmitter, sources: Sequence[Ref], targets: Sequence[Ref]) -> None:
    """Emits copies as if at once: numbers that a copy overwrites too early are saved first."""
    sources = list(sources)
    for i, source in enumerate(sources):
        if source in targets[:i]:
            if em.values.tensor(source) is not None:
                raise InternalError(
                    f"loop body: expected carried tensor {i} at its own position, got it at "
                    f"{targets.index(source)}"
                )
            saved = em.values.fresh(em.values.values[source.id].val)
            em.code.move(source, saved)
            sources[i] = saved
    for source, target in zip(sources, targets, strict=True):
        copy_value(em, source, target)


# ---- cond


def emit_cond(em: MethodEmitter, node: fx.Node) -> Any:
    """JumpFalse to the else part; then part; jump over the else part; else part."""
    predicate, then_body, else_body, *rest = em.resolve(node.args)
    operands = [em.value(arg) for arg in (rest[0] if rest else ())]
    result = em.emit_results(node)
    targets = em.flat_refs(result)
    to_else = em.code.jump_if_false(em.value(predicate))
    _emit_branch(em, then_body, operands, targets)
    to_end = em.code.jump_if_false(em.values.literal(False))
    em.code.aim(to_else)
    _emit_branch(em, else_body, operands, targets)
    em.code.aim(to_end)
    return result


def _emit_branch(
    em: MethodEmitter, body: fx.GraphModule, operands: list[Ref], targets: list[Ref]
) -> None:
    outputs, _ = em.run_body(body, operands)
    if len(outputs) != len(targets):
        raise InternalError(f"branch of cond: expected {len(targets)} results, got {len(outputs)}")
    for source, target in zip(outputs, targets, strict=True):
        copy_value(em, source, target)


# ---- map and scan


class _CountedLoop:
    """A loop over the leading dimension of a tensor: begin, body, end."""

    def __init__(self, em: MethodEmitter, over: Ref) -> None:
        self.em = em
        self.index = em.values.fresh(schema.Int(0))
        self.count = self._count(over)
        self.leave: int | None = None

    def begin(self, may_be_empty: bool) -> None:
        """Set the counter; leave at once if there are no slices."""
        em = self.em
        zero = em.values.literal(0)
        em.code.move(zero, self.index)
        if may_be_empty:
            some = em.values.fresh(schema.Bool(False))
            em.code.kernel(_PRIM + "gt", "Scalar", [self.count, zero, some])
            self.leave = em.code.jump_if_false(some)
        self.start = em.code.next_index

    def _count(self, over: Ref) -> Ref:
        em, tensor = self.em, self.em.require_tensor_value(over)
        if tensor.shape_dynamism is schema.TensorShapeDynamism.STATIC:
            return em.values.literal(tensor.sizes[0])
        count = em.values.fresh(schema.Int(0))
        em.code.kernel("aten::sym_size", "int", [over, em.values.literal(0), count])
        return count

    def slice_into(self, source: Ref, target: Ref) -> None:
        """target := source[index]"""
        zero = self.em.values.literal(0)
        args = [source, zero, self.index, target, target]
        self.em.code.kernel("aten::select_copy", "int_out", args)

    def append_to(self, target: Ref, source: Ref) -> None:
        """target[index] := source; the target's leading size becomes index + 1."""
        args = [target, source, self.index]
        self.em.code.kernel(_PRIM + "et_copy_index", "tensor", args)

    def end(self) -> None:
        em, done = self.em, self.em.values.fresh(schema.Bool(False))
        em.code.kernel(_PRIM + "add", "Scalar", [self.index, em.values.literal(1), self.index])
        em.code.kernel(_PRIM + "eq", "Scalar", [self.index, self.count, done])
        em.code.jump_if_false(done, self.start)
        if self.leave is not None:
            em.code.aim(self.leave)


def _may_be_empty(em: MethodEmitter, node: fx.Node) -> bool:
    """Whether the tensors that a loop runs over can have no rows when the program runs."""
    scanned: Any = node.args[1 if higher_order_name(node.target) == "map_impl" else 2]
    size = scanned[0].meta["val"].shape[0]
    return int(size if isinstance(size, int) else lower_bound(size, em.ep.range_constraints)) == 0


def _rows_vary(node: fx.Node, first_stacked: int) -> bool:
    """Whether rows of stacked results have dynamic sizes. (Upstream compares the first row, too,
    with the size that the result has before, or with its upper bound.)
    """
    values = node.meta["val"][first_stacked:]
    return any(not isinstance(size, int) for value in values for size in value.shape[1:])


def _empty(em: MethodEmitter, node: fx.Node, first_stacked: int, stacked: list[Ref]) -> None:
    """Give stacked results no rows yet, but those rows' size."""
    values = node.meta["val"][first_stacked:]
    for value, ref in zip(values, stacked, strict=True):
        bounds = em.require_tensor_value(ref).sizes
        sizes = [_inner_size(em, node, d, bounds[i]) for i, d in enumerate(value.shape) if i > 0]
        shape = em.values.shared(schema.IntList([em.value(s).id for s in (0, *sizes)]))
        em.code.kernel("aten::full", "out", [shape, em.value(0), ref, ref])


def _inner_size(em: MethodEmitter, node: fx.Node, size: Any, bound: int) -> Any:
    """A size as a value: itself, read from an operand that has it, or else its bound."""
    if isinstance(size, int):
        return size
    for operand in node.all_input_nodes:
        value = operand.meta.get("val")
        for dim, extent in enumerate(value.shape if isinstance(value, torch.Tensor) else ()):
            if not isinstance(extent, int) and extent.node.expr == size.node.expr:
                result = em.values.fresh(schema.Int(0))
                tensor = em.require_tensor(em.resolve(operand))
                em.code.kernel("aten::sym_size", "int", [tensor, em.value(dim), result])
                return result
    return bound


def _emit_loop(
    em: MethodEmitter,
    node: fx.Node,
    body: fx.GraphModule,
    carried: list[Ref],
    scanned: list[Ref],
    others: list[Ref],
    stacked: list[Ref],
) -> None:
    """Run `body(carried, slices of scanned, others)` per slice; append its further results."""
    if not scanned:
        raise InternalError("loop: expected a tensor to iterate over, got none")
    loop = _CountedLoop(em, scanned[0])
    may_be_empty = _may_be_empty(em, node)
    if may_be_empty or _rows_vary(node, len(carried)):
        _empty(em, node, len(carried), stacked)
    loop.begin(may_be_empty)
    slices = em.body_inputs(body)[len(carried) : len(carried) + len(scanned)]
    for source, target in zip(scanned, slices, strict=True):
        loop.slice_into(source, target)
    outputs, _ = em.run_body(body, [*carried, *slices, *others])
    if len(outputs) != len(carried) + len(stacked):
        raise InternalError(
            f"loop body: expected {len(carried) + len(stacked)} results, got {len(outputs)}"
        )
    for target, source in zip(stacked, outputs[len(carried) :], strict=True):
        loop.append_to(target, em.require_tensor(source))
    copy_values(em, outputs[: len(carried)], carried)
    loop.end()


def emit_map(em: MethodEmitter, node: fx.Node) -> Any:
    """map_impl(body, [mapped tensors], [other operands])."""
    body, mapped, others = em.resolve(node.args)
    result = em.emit_results(node, growing_from=0)
    _emit_loop(em, node, body, [], list(mapped), _operands(em, others), em.flat_refs(result))
    return result


def emit_scan(em: MethodEmitter, node: fx.Node) -> Any:
    """scan(body, [initial carries], [scanned tensors], [other operands])."""
    body, initial, scanned, others = em.resolve(node.args)
    result = em.emit_results(node, growing_from=len(initial))
    refs = em.flat_refs(result)
    carried, stacked = refs[: len(initial)], refs[len(initial) :]
    copy_values(em, _operands(em, initial), carried)
    _emit_loop(em, node, body, carried, list(scanned), _operands(em, others), stacked)
    return result


# ---- while_loop


def emit_while_loop(em: MethodEmitter, node: fx.Node) -> Any:
    """while_loop(condition, body, (initial carries), (other operands))."""
    condition, body, initial, *rest = em.resolve(node.args)
    result = em.emit_results(node)
    carried = em.flat_refs(result)
    others = _operands(em, rest[0] if rest else ())
    copy_values(em, _operands(em, initial), carried)
    start = em.code.next_index
    (test,), _ = em.run_body(condition, [*carried, *others])
    leave = em.code.jump_if_false(test)
    outputs, _ = em.run_body(body, [*carried, *others])
    copy_values(em, outputs, carried)
    em.code.jump_if_false(em.values.literal(False), start)
    em.code.aim(leave)
    return result


def _operands(em: MethodEmitter, args: Sequence[Any]) -> list[Ref]:
    return [em.value(arg) for arg in args]


CONTROL_FLOW = {
    torch.ops.higher_order.cond: emit_cond,
    torch.ops.higher_order.map_impl: emit_map,
    torch.ops.higher_order.scan: emit_scan,
    torch.ops.higher_order.while_loop: emit_while_loop,
}
