"""SpecPropPass: every node gets the TensorSpec of its value, read from `meta["val"]`.

One storage has one spec object: results of in-place operators, and inputs of control-flow bodies
that are bound to existing tensors, share the specs of these. Nothing is re-traced, and nothing is
placed in memory.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram
from torch.fx.passes.infra.pass_base import PassBase, PassResult
from torch.utils import _pytree as pytree

from executorch_py.exir import memory
from executorch_py.exir.error import InternalError
from executorch_py.exir.ir.fake_values import contiguous_like, refresh_users
from executorch_py.exir.ir.graph import (
    all_graph_modules,
    body_modules,
    constant_tensors,
    flat_outputs,
    placeholders,
)
from executorch_py.exir.ir.op_traits import (
    aliased_argument_of_returns,
    higher_order_name,
    is_delegate_call,
    is_getitem,
    is_inplace,
    op_key,
    op_overload,
)
from executorch_py.exir.ir.scalar_type import element_bytes
from executorch_py.exir.ir.tensor_spec import TensorSpec
from executorch_py.exir.passes.base import Contract, Fact, FxPass, facts


def make_spec(value: Any) -> Any:
    """The spec of a tensor; a number, a string or None as it is."""
    return TensorSpec.from_tensor(value) if isinstance(value, torch.Tensor) else value


class SpecPropPass(PassBase):
    """Fill `meta["spec"]` of every node of the graph and of its control-flow bodies.

    `modified` is always True, as upstream's is: nodes get new spec objects, without the places in
    memory that former ones had.
    """

    def __call__(self, graph_module: fx.GraphModule) -> PassResult:
        res = self.call(graph_module)
        return res if res is not None else PassResult(graph_module, True)

    def call(self, graph_module: fx.GraphModule) -> PassResult:
        for module in all_graph_modules(graph_module):
            _make_nonzero_row_major(module)
        _Propagation(graph_module).run()
        return PassResult(graph_module, True)

    def update_placeholder_tensor_specs(
        self, exported_program: ExportedProgram, graph_module: fx.GraphModule
    ) -> None:
        """Mark parameters, buffers that no operator writes and lifted constants as constant."""
        mark_constants(exported_program, graph_module)


class PropagateSpecs(FxPass):
    """Give every node its spec, and mark those of constants."""

    def __init__(self) -> None:
        super().__init__(
            SpecPropPass(),
            Contract(requires=facts(Fact.NO_ASSERTIONS), ensures=facts(Fact.SPECS)),
        )

    def run(self, program: ExportedProgram) -> bool:
        changed = super().run(program)
        mark_constants(program, program.graph_module)
        return changed


def mark_constants(ep: ExportedProgram, gm: fx.GraphModule) -> None:
    """Set `spec.const` on the placeholders whose values are part of the program."""
    constants = constant_tensors(ep)
    for node in placeholders(gm.graph):
        spec = node.meta.get("spec")
        if node.name in constants and isinstance(spec, TensorSpec):
            spec.const = True


class _Propagation:
    def __init__(self, gm: fx.GraphModule, bound: list[Any] | None = None) -> None:
        self.gm = gm
        self.bound = bound or []

    def run(self) -> None:
        for i, node in enumerate(placeholders(self.gm.graph)):
            given = self.bound[i] if i < len(self.bound) else None
            node.meta["spec"] = make_spec(node.meta.get("val")) if given is None else given
        for node in self.gm.graph.nodes:
            if node.op == "call_function":
                node.meta["spec"] = self._spec_of_call(node)
            elif node.op == "output":
                node.meta["spec"] = _specs_of_arguments(node.args[0])
            elif node.op == "get_attr":
                value = getattr(self.gm, str(node.target), None)
                node.meta["spec"] = make_spec(value) if isinstance(value, torch.Tensor) else None

    def _spec_of_call(self, node: fx.Node) -> Any:
        if is_getitem(node.target):
            source, index = node.args
            assert isinstance(source, fx.Node) and isinstance(index, int)
            return source.meta["spec"][index]
        if is_delegate_call(node.target) and node.meta.get("spec") is not None:
            return node.meta["spec"]
        if is_inplace(node.target):
            return _aliased_specs(node)
        if node.target is memory.patch:
            return _specs_of_arguments(node.args[0])
        if node.target is memory.view:
            return _view_spec(node)
        if "val" not in node.meta:
            if op_key(node.target).startswith("aten::_assert") or not node.users:
                return None
            raise InternalError(f"node {node.name} ({node.target}): expected meta['val'], got none")
        value = node.meta["val"]
        spec = pytree.tree_map(make_spec, value)
        spec = tuple(spec) if isinstance(spec, list) else spec
        self._enter_bodies(node, spec)
        return spec

    def _enter_bodies(self, node: fx.Node, result: Any) -> None:
        kind = higher_order_name(node.target)
        if not kind or is_delegate_call(node.target):
            return
        for body in body_modules(self.gm, node):
            _Propagation(body, _bound_specs(kind, node, result)).run()


def _make_nonzero_row_major(gm: fx.GraphModule) -> None:
    """Record results of `nonzero` as row-major, the layout that kernels write.

    Eager torch stores columns. Values of nodes that depend on the result are corrected.
    """
    changed = []
    for node in gm.graph.nodes:
        value = node.meta.get("val") if op_key(node.target) == "aten::nonzero" else None
        if isinstance(value, torch.Tensor):
            node.meta["val"] = contiguous_like(value)
            changed.append(node)
    if changed:
        refresh_users(gm, changed)


def _aliased_specs(node: fx.Node) -> Any:
    op = op_overload(node.target)
    assert op is not None
    specs = []
    for position in aliased_argument_of_returns(op):
        source = node.args[position] if position is not None else None
        if not isinstance(source, fx.Node):
            return pytree.tree_map(make_spec, node.meta.get("val"))
        specs.append(source.meta["spec"])
    return specs[0] if len(specs) == 1 else tuple(specs) or None


def _view_spec(node: fx.Node) -> TensorSpec:
    """The spec of a part of another tensor's memory."""
    base, _, start, _ = node.args
    assert isinstance(base, fx.Node) and isinstance(start, int)
    spec: TensorSpec = make_spec(node.meta["val"])
    spec.storage_base = base.meta["spec"]
    spec.storage_base_offset = start * element_bytes(spec.dtype)
    spec.lifetime = base.meta["spec"].lifetime
    return spec


def _specs_of_arguments(value: Any) -> Any:
    if isinstance(value, fx.Node):
        return value.meta.get("spec")
    if isinstance(value, (list, tuple)):
        return tuple(_specs_of_arguments(item) for item in value)
    return value


def _bound_specs(kind: str, node: fx.Node, result: Any) -> list[Any]:
    """Specs that a body's placeholders share with tensors outside; None for a spec of their own.

    Branches of `cond` read their operands where they are. Loops keep carried values in the storage
    of the loop's results, and see one slice of each mapped tensor in storage of their own.
    """
    results = list(result) if isinstance(result, tuple) else [result]
    if kind == "cond":
        return [_specs_of_arguments(a) for a in _sequence(node, 3)]
    if kind == "map_impl":
        return [None] * len(_sequence(node, 1)) + [
            _specs_of_arguments(a) for a in _sequence(node, 2)
        ]
    if kind == "scan":
        n_carried, n_mapped = len(_sequence(node, 1)), len(_sequence(node, 2))
        extra = [_specs_of_arguments(a) for a in _sequence(node, 3)]
        return [*results[:n_carried], *[None] * n_mapped, *extra]
    if kind == "while_loop":
        extra = [_specs_of_arguments(a) for a in _sequence(node, 3)]
        return [*results[: len(_sequence(node, 2))], *extra]
    return []


def _sequence(node: fx.Node, position: int) -> list[Any]:
    value = node.args[position] if position < len(node.args) else ()
    return list(value) if isinstance(value, (list, tuple)) else []


def output_specs(gm: fx.GraphModule) -> list[Any]:
    """Specs of the graph's outputs, flattened."""
    return [_specs_of_arguments(leaf) for leaf in flat_outputs(gm.graph)]
