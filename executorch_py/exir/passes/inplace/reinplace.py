"""Reinplace: a functional operator becomes its in-place form if its first input is not read later.

The default is `index_put` on a mutable buffer: instead of filling a new tensor of the buffer's size
and copying it back, the few indexed elements are written into the buffer. This is safe if nothing
reads the old contents afterwards, views included, and the input is a mutable buffer or a temporary.
`slice_scatter`, if it is among `ops_to_inplace`, becomes an `index_put` of its rows. A
`slice_scatter` that puts back a slice that was itself updated in place disappears: the slice
becomes a view of the buffer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram
from torch.fx.experimental.symbolic_shapes import statically_known_true

from executorch_py.exir import memory
from executorch_py.exir.dialects.edge_ops import ops
from executorch_py.exir.ir.constants import add_constants
from executorch_py.exir.ir.graph import flat_outputs, mutation_targets, placeholders
from executorch_py.exir.ir.inplace_calls import inplace_variant, is_read_after, owner_of
from executorch_py.exir.ir.match import argument, is_call
from executorch_py.exir.ir.op_traits import RESHAPES, higher_order_name, op_key, op_overload
from executorch_py.exir.ir.runtime_kernels import has_kernel_named
from executorch_py.exir.ir.subview import cut_of, first_element
from executorch_py.exir.ir.tensor_spec import TensorSpec
from executorch_py.exir.passes.base import Contract, Fact, Pass, facts

DEFAULT_INPLACEABLE_OPS: frozenset[Any] = frozenset({ops.edge.aten.index_put.default})
SLICE_SCATTER = "aten::slice_scatter"


class Reinplace(Pass):
    """Replace functional operators by in-place ones whose first input is not read later.

    `ops_to_inplace` holds operators (edge or ATen) or their names. Slices of buffers become views
    if `view_alignment` is given, the alignment in bytes of planned tensors; None where buffers may
    have no planned memory. `may_return_buffers` allows updates of buffers that the method returns
    as well: the result is the memory of the buffer. `needs_kernel` leaves operators functional
    whose in-place form the runtime cannot call.
    """

    contract = Contract(ends=facts(Fact.FUNCTIONAL))

    def __init__(
        self,
        ops_to_inplace: Iterable[Any] | None = None,
        inplace_overrides: Mapping[Any, Any] | None = None,
        view_alignment: int | None = None,
        may_return_buffers: bool = False,
        needs_kernel: bool = True,
    ) -> None:
        self.wanted = _names(DEFAULT_INPLACEABLE_OPS if ops_to_inplace is None else ops_to_inplace)
        self.overrides = {op_key(k): v for k, v in (inplace_overrides or {}).items()}
        self.view_alignment = view_alignment
        self.may_return_buffers = may_return_buffers
        self.needs_kernel = needs_kernel

    def run(self, program: ExportedProgram) -> bool:
        return _Reinplace(program, self).run()


def reinplace_pass(
    ep: ExportedProgram,
    ops_to_inplace: Iterable[Any] | None = None,
    inplace_overrides: Mapping[Any, Any] | None = None,
    view_alignment: int | None = None,
) -> ExportedProgram:
    """Reinplace under upstream's name: changes the program in place, and returns it.

    Operators become in-place ones whether or not a runtime has kernels for them; `to_executorch`
    makes those functional again that have none.
    """
    Reinplace(ops_to_inplace, inplace_overrides, view_alignment, True, False).run(ep)
    return ep


def _names(ops: Iterable[Any]) -> set[str]:
    return {op if isinstance(op, str) else op_key(op) for op in ops}


class _Reinplace:
    def __init__(self, ep: ExportedProgram, settings: Reinplace) -> None:
        self.ep = ep
        self.view_alignment = settings.view_alignment
        self.wanted = settings.wanted | set(settings.overrides)
        self.overrides = settings.overrides
        self.may_return_buffers = settings.may_return_buffers
        self.needs_kernel = settings.needs_kernel
        self.graph = ep.graph_module.graph
        self.position = {node: i for i, node in enumerate(self.graph.nodes)}
        by_name = {node.name: node for node in placeholders(self.graph)}
        outputs = flat_outputs(self.graph)
        # Value that the signature writes back → the placeholder that it is written to.
        self.write_back = {outputs[i]: by_name[name] for i, name in mutation_targets(ep).items()}
        self.user_outputs = {
            value for i, value in enumerate(outputs) if i not in mutation_targets(ep)
        }

    def run(self) -> bool:
        changed = False
        for node in list(self.graph.nodes):
            if node.op != "call_function" or op_key(node.target) not in self.wanted:
                continue
            if op_key(node.target) == SLICE_SCATTER and SLICE_SCATTER not in self.overrides:
                changed |= self._update_slice(node)
                continue
            target = self._inplace_target(node)
            if target is None or not self._is_safe(node):
                continue
            if not self.needs_kernel or (self._has_kernel(target) and self._fit_values(node)):
                node.target = target
                changed = True
        return changed

    def _fit_values(self, node: fx.Node) -> bool:
        """Kernels for in-place `index_put` take one index vector and values of the full shape.

        Values that need broadcasting are expanded first; False where that form cannot be reached.
        """
        if op_key(node.target) != "aten::index_put":
            return True
        indices, values = argument(node, "indices"), argument(node, "values")
        given = [(dim, index) for dim, index in enumerate(indices) if index is not None]
        if len(given) != 1 or argument(node, "accumulate"):
            return False
        dim, index = given[0]
        vector, target = index.meta["val"], node.meta["val"]
        if vector.dim() != 1 or vector.dtype not in (torch.int32, torch.int64):
            return False
        shape = [*target.shape[:dim], vector.shape[0], *target.shape[dim + 1 :]]
        value = values.meta["val"]
        if list(value.shape) == shape:
            return True
        if not all(isinstance(size, int) for size in shape):
            return False
        with self.graph.inserting_before(node):
            expanded = self.graph.call_function(torch.ops.aten.expand_copy.default, (values, shape))
        expanded.meta["val"] = value.new_empty(shape)
        if "stack_trace" in node.meta:
            expanded.meta["stack_trace"] = node.meta["stack_trace"]
        node.update_arg(2, expanded)
        self.position[expanded] = self.position[node]
        return True

    # ---- slices

    def _update_slice(self, node: fx.Node) -> bool:
        """Write a slice into its tensor: without a copy if it is a view of it, else by rows."""
        part = argument(node, "src")
        if not self._is_safe(node) or not isinstance(part, fx.Node):
            return False
        if part.meta["val"].dtype != node.meta["val"].dtype:
            return False
        view = self._updated_view(node, part)
        if view is not None:
            taken, result, start = view
            shape, stride = taken.meta["val"].shape, taken.meta["val"].stride()
            taken.target, taken.kwargs = memory.view, {}
            taken.args = (node.args[0], list(shape), start, list(stride))
            node.target, node.args, node.kwargs = memory.patch, (node.args[0], result), {}
            return True
        rows = self._rows(node, part)
        if rows is not None:
            dim = argument(node, "dim") % node.meta["val"].dim()
            indices = [None] * dim + [rows]
            node.target, node.kwargs = torch.ops.aten.index_put_.default, {}
            node.args = (node.args[0], indices, part)
        return rows is not None

    def _rows(self, node: fx.Node, part: fx.Node) -> fx.Node | None:
        """The indices that a slice takes, as a tensor."""
        value = node.meta["val"]
        dim = argument(node, "dim") % value.dim()
        size, count, step = value.shape[dim], part.meta["val"].shape[dim], argument(node, "step")
        start, end = argument(node, "start"), argument(node, "end")
        start = 0 if start is None else start
        if isinstance(start, int) and isinstance(count, int):
            first = start + size if start < 0 else start
            if not isinstance(first, int) or not 0 <= first <= first + step * (count - 1):
                return None
            rows = torch.arange(first, first + step * count, step)
            meta = {k: node.meta[k] for k in ("stack_trace",) if k in node.meta}
            example = part.meta["val"].new_empty((count,), dtype=torch.int64)
            (made,) = add_constants(self.ep, [(f"{node.name}_rows", rows, example, meta)])
            self.position[made] = 0
            return made
        if step != 1 or not _within(start, end, size):
            return None
        with self.graph.inserting_before(node):
            made = self.graph.call_function(
                torch.ops.aten.arange.start_step, (start, end), {"dtype": torch.int64}
            )
        made.meta.update({k: v for k, v in node.meta.items() if k in ("stack_trace",)})
        made.meta["val"] = part.meta["val"].new_empty((count,), dtype=torch.int64)
        self.position[made] = self.position[node]
        return made

    def _updated_view(self, node: fx.Node, part: fx.Node) -> tuple[fx.Node, fx.Node, int] | None:
        """(slice of the buffer, the slice after its updates, its first element in the buffer).

        The result is None unless `node` puts the same slice back and nothing reads the buffer in
        between.
        """
        base = node.args[0]
        if self.view_alignment is None or not isinstance(base, fx.Node):
            return None
        if owner_of(base).op != "placeholder":
            return None
        while op_key(part.target) in RESHAPES and len(part.users) == 1:
            part = part.args[0]
        taken, first_update = part, None
        while is_call(taken, "aten::index_put_"):
            first_update, taken = taken, taken.args[0]
        start = _start_in(base, taken)
        if first_update is None or start is None or start != _start_of_update(node):
            return None
        if taken.meta["val"].numel() != argument(node, "src").meta["val"].numel():
            return None
        if start * base.meta["val"].element_size() % self.view_alignment:
            return None
        limit = self.position[first_update]
        seen = is_read_after(owner_of(base), limit, self.position, {taken, node})
        return None if seen else (taken, part, start)

    def _inplace_target(self, node: fx.Node) -> Any:
        key = op_key(node.target)
        if key in self.overrides:
            return self.overrides[key]
        op = op_overload(node.target)
        return inplace_variant(op) if op is not None else None

    def _has_kernel(self, target: Any) -> bool:
        key = op_key(target)
        return (
            key == "aten::index_put_" or target in self.overrides.values() or has_kernel_named(key)
        )

    def _is_safe(self, node: fx.Node) -> bool:
        written = node.args[0]
        if not isinstance(written, fx.Node) or not _same_type(written, node):
            return False
        owner = owner_of(written)
        if owner.op == "placeholder" and not self._ends_in(node, owner):
            return False
        if owner.op not in ("placeholder", "call_function") or _shares_unknown_memory(owner):
            return False
        others = [a for a in node.all_input_nodes if a is not written]
        if any(owner_of(other) is owner for other in others):
            return False
        return not self._read_later(owner, node)

    def _ends_in(self, node: fx.Node, placeholder: fx.Node) -> bool:
        """Whether the result, after further candidates, is the placeholder's final value."""
        while self.write_back.get(node) is not placeholder:
            if node in self.user_outputs:  # the last update would overwrite what is returned
                return False
            following = [
                user
                for user in node.users
                if op_key(user.target) in self.wanted and user.args and user.args[0] is node
            ]
            if len(following) != 1:
                return False
            node = following[0]
        return self.may_return_buffers or node not in self.user_outputs

    def _read_later(self, owner: fx.Node, node: fx.Node) -> bool:
        """Whether the old contents, or a view of them, are read after `node` or returned."""
        return is_read_after(owner, self.position[node], self.position, {node})


def _start_in(base: fx.Node, part: fx.Node) -> int | None:
    """The first element of `part` in `base`, if slices and views make it a contiguous part."""
    start = 0
    while part is not base:
        source = part.args[0] if part.op == "call_function" and part.args else None
        if not isinstance(source, fx.Node) or not _is_dense(source) or not _is_dense(part):
            return None
        if op_key(part.target) not in RESHAPES:
            cut = cut_of(part)
            whole, piece = source.meta["val"], part.meta["val"]
            specs = TensorSpec.from_tensor(whole), TensorSpec.from_tensor(piece)
            first = None if cut is None else first_element(specs[0], cut, specs[1])
            if first is None:
                return None
            start += first
        part = source
    return start


def _start_of_update(node: fx.Node) -> int | None:
    """The first element that a `slice_scatter` replaces, if its elements are contiguous."""
    cut, source = cut_of(node), argument(node, "src").meta["val"]
    whole = TensorSpec.from_tensor(node.meta["val"])
    return None if cut is None else first_element(whole, cut, TensorSpec.from_tensor(source))


def _is_dense(node: fx.Node) -> bool:
    """Whether a node is a contiguous tensor of static sizes."""
    value = node.meta.get("val")
    return (
        isinstance(value, torch.Tensor)
        and all(isinstance(size, int) for size in value.shape)
        and value.is_contiguous()
    )


def _within(start: Any, end: Any, size: Any) -> bool:
    """Whether 0 <= start and end <= size in every run of the program."""
    first = start if isinstance(start, int) else start.meta["val"]
    last = end.meta["val"] if isinstance(end, fx.Node) else end
    if last is None:
        return False
    return bool(statically_known_true(first >= 0) and statically_known_true(last <= size))


def _same_type(a: fx.Node, b: fx.Node) -> bool:
    x, y = a.meta.get("val"), b.meta.get("val")
    if not isinstance(x, torch.Tensor) or not isinstance(y, torch.Tensor):
        return False
    return x.dtype is y.dtype and x.shape == y.shape and x.stride() == y.stride()


def _shares_unknown_memory(owner: fx.Node) -> bool:
    return bool(higher_order_name(owner.target))
