"""Aliasing: the writers of the memory behind a tensor, and its last reader. Passes check both
before two tensors may share bytes.

Results hold for one graph and for the present specs. A pass that lets specs share storage makes a
new StorageUses, or queries storage roots only. Knows nothing of offsets.
"""

from __future__ import annotations

from collections.abc import Iterator

from torch import fx
from torch.utils import _pytree as pytree

from executorch_py.exir.ir import memory_ops
from executorch_py.exir.ir.graph import flat_outputs, nodes_in
from executorch_py.exir.ir.match import is_call
from executorch_py.exir.ir.op_traits import mutated_positions, op_overload
from executorch_py.exir.ir.tensor_spec import TensorSpec


def specs_of(node: fx.Node) -> list[TensorSpec]:
    """The tensor specs of a node's result, flattened."""
    return [s for s in pytree.tree_leaves(node.meta.get("spec")) if isinstance(s, TensorSpec)]


class StorageUses:
    """Positions, in-place writes, inputs and outputs of one graph."""

    def __init__(self, graph: fx.Graph) -> None:
        self.graph = graph
        self.position = {node: i for i, node in enumerate(graph.nodes)}
        self.outputs = {leaf for leaf in flat_outputs(graph) if isinstance(leaf, fx.Node)}
        self.inputs = {s for n in graph.nodes if n.op == "placeholder" for s in specs_of(n)}
        self._written = [(i, s) for node, i in self.position.items() for s in _written_by(node)]

    def writes(self, storage: TensorSpec) -> list[int]:
        """Positions of the in-place operators that update a storage (named by its root)."""
        return [i for i, spec in self._written if spec.storage_root() is storage]

    def is_updated(self, spec: TensorSpec) -> bool:
        """Whether an in-place operator writes to this very tensor."""
        return any(spec is written for _, written in self._written)

    def written_while_read(self, node: fx.Node, storage: TensorSpec) -> bool:
        """Whether `storage` is updated after `node` and before the last use of its result."""
        writes = self.writes(storage)
        if not writes:
            return False
        first, last = self.position[node], self.last_use(node)
        return any(first < write <= last for write in writes)

    def last_use(self, node: fx.Node) -> int:
        """Position of the last node that reads a result or a view of it."""
        last = self.position[node]
        for user in node.users:
            forwards = user.target is memory_ops.view or is_call(user, "aten::view_copy")
            last = max(last, self.last_use(user) if forwards else self.position[user])
        return last


def _written_by(node: fx.Node) -> Iterator[TensorSpec]:
    op = op_overload(node.target) if node.op == "call_function" else None
    for index in mutated_positions(op) if op is not None else ():
        for written in nodes_in(node.args[index] if index < len(node.args) else None):
            yield from specs_of(written)
