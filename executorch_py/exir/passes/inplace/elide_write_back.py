"""ElideWriteBack: an operator that computes a buffer's new value writes into the buffer itself.

A `copy_(buffer, value)` is dropped if an out variant computes `value` into memory of its own; the
buffer becomes its out argument. The old contents must not be read after that operator, nor by it,
unless its kernels may overwrite their operands.
"""

from __future__ import annotations

from torch import fx

from executorch_py.exir import memory
from executorch_py.exir.ir.graph import flat_outputs, output_node
from executorch_py.exir.ir.inplace_rules import may_overwrite
from executorch_py.exir.ir.match import is_call, only_user
from executorch_py.exir.ir.op_traits import is_out_variant, op_key
from executorch_py.exir.ir.tensor_spec import TensorSpec
from executorch_py.exir.passes.base import Contract, Fact, GraphPass, facts


class ElideWriteBack(GraphPass):
    """Remove write-back copies from the method's own graph."""

    contract = Contract(requires=facts(Fact.SPECS))

    def apply(self, gm: fx.GraphModule) -> bool:
        changed = False
        for copy in list(gm.graph.nodes):
            if is_call(copy, "aten::copy_") and _elide(gm.graph, copy):
                changed = True
        return changed


def _elide(graph: fx.Graph, copy: fx.Node) -> bool:
    buffer, value = copy.args[0], copy.args[1]
    if not isinstance(buffer, fx.Node) or not isinstance(value, fx.Node):
        return False
    if buffer.op != "placeholder" or not is_out_variant(value.target):
        return False
    alloc = value.kwargs.get("out")
    if (
        not isinstance(alloc, fx.Node)
        or alloc.target is not memory.alloc
        or only_user(alloc) is None
    ):
        return False
    if not _interchangeable(buffer.meta["spec"], value.meta["spec"]):
        return False
    outputs = flat_outputs(graph)
    if value in outputs or outputs.count(copy) != 1 or not _old_value_dead(graph, value, copy):
        return False
    _write_into(graph, copy, buffer, value, alloc)
    return True


def _interchangeable(a: object, b: object) -> bool:
    return (
        isinstance(a, TensorSpec)
        and isinstance(b, TensorSpec)
        and a.is_static_shape_tensor
        and b.is_static_shape_tensor
        and a.dtype is b.dtype
        and a.shape == b.shape
        and a.dim_order == b.dim_order
        and a.storage_base is None
        and b.storage_base is None
    )


def _old_value_dead(graph: fx.Graph, value: fx.Node, copy: fx.Node) -> bool:
    """Whether from `value` on, only the final copy touches the buffer's memory."""
    buffer = copy.args[0]
    assert isinstance(buffer, fx.Node)
    storage, new_storage = buffer.meta["spec"], value.meta["spec"]
    reached = False
    for node in graph.nodes:
        if node is value:
            reached = True
            if not _may_overwrite_inputs(node, storage):
                return False
        elif node is copy:
            continue
        elif (reached and storage in _storages(node)) or (
            node.op == "output" and _returns(node, (storage, new_storage), copy)
        ):
            return False
    return reached


def _storages(node: fx.Node) -> list[TensorSpec]:
    return [
        spec.storage_root()
        for source in (node, *node.all_input_nodes)
        for spec in [source.meta.get("spec")]
        if isinstance(spec, TensorSpec) and node.op != "output"
    ]


def _returns(output: fx.Node, storages: tuple[TensorSpec, ...], copy: fx.Node) -> bool:
    for node in output.all_input_nodes:
        spec = node.meta.get("spec")
        if node is not copy and isinstance(spec, TensorSpec) and spec.storage_root() in storages:
            return True
    return False


def _may_overwrite_inputs(node: fx.Node, storage: TensorSpec) -> bool:
    """Whether an operator reads a storage as whole operands only, and may overwrite each."""
    reading = [n for n in node.all_input_nodes if _root(n) is storage]
    own = [n for n in (*node.args, *node.kwargs.values()) if isinstance(n, fx.Node)]
    if not all(n in own and n.meta.get("spec") is storage for n in reading):
        return False
    key = op_key(node.target)
    return all(
        may_overwrite(key, position, storage, node.meta["spec"])
        for position, n in enumerate(node.args)
        if n in reading
    )


def _root(node: fx.Node) -> TensorSpec | None:
    spec = node.meta.get("spec")
    return spec.storage_root() if isinstance(spec, TensorSpec) else None


def _write_into(
    graph: fx.Graph, copy: fx.Node, buffer: fx.Node, value: fx.Node, alloc: fx.Node
) -> None:
    old, new = value.meta["spec"], buffer.meta["spec"]
    value.kwargs = {**value.kwargs, "out": buffer}
    value.meta["spec"] = new
    for node in graph.nodes:
        spec = node.meta.get("spec")
        if isinstance(spec, TensorSpec) and spec.storage_base is old:
            spec.storage_base, spec.lifetime = new, new.lifetime
    output = output_node(graph)
    copy.replace_all_uses_with(value)
    graph.erase_node(copy)
    graph.erase_node(alloc)
    output.meta["spec"] = _renamed(output.meta.get("spec"), old, new)


def _renamed(spec: object, old: TensorSpec, new: TensorSpec) -> object:
    if isinstance(spec, (list, tuple)):
        return tuple(_renamed(item, old, new) for item in spec)
    return new if spec is old else spec
