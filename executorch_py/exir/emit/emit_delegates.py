"""Delegate calls: one entry per call site, payloads shared by content over the whole program."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from torch import fx

from executorch_py.exir import schema
from executorch_py.exir.emit.emit_operators import emit_argument

if TYPE_CHECKING:
    from executorch_py.exir.emit.emitter import MethodEmitter


@dataclass
class PayloadStore:
    """Payload bytes of all delegates of a program."""

    payloads: list[schema.BackendDelegateInlineData] = field(default_factory=list)
    _known: dict[str, int] = field(default_factory=dict)

    def add(self, data: bytes) -> int:
        """Index of the payload."""
        digest = hashlib.sha256(data).hexdigest()
        index = self._known.get(digest)
        if index is None:
            index = self._known[digest] = len(self.payloads)
            self.payloads.append(schema.BackendDelegateInlineData(data))
        return index


def emit_delegate(em: MethodEmitter, node: fx.Node) -> Any:
    """Emit a delegate call: inputs in order, then outputs in order."""
    lowered, *args = em.resolve(node.args)
    inputs = [emit_argument(em, arg, None) for arg in args]
    result = em.emit_results(node)
    place = schema.BackendDelegateDataReference(
        schema.DataLocation.INLINE, em.program.payloads.add(lowered.processed_bytes)
    )
    em.delegates.append(
        schema.BackendDelegate(lowered.backend_id, place, list(lowered.compile_specs))
    )
    values = [ref.id for ref in (*inputs, *em.flat_refs(result))]
    index = em.code.add(schema.DelegateCall(len(em.delegates) - 1, values))
    _note(em, lowered, index)
    return result


def _note(em: MethodEmitter, lowered: Any, index: int) -> None:
    """Record which nodes the delegate replaced, and the backend's own map of them."""
    graph = lowered.original_module.graph
    em.debug_handle_map[index] = [
        node.meta["debug_handle"]
        for node in graph.nodes
        if node.op == "call_function" and node.meta.get("debug_handle") is not None
    ]
    outputs = graph.output_node().args[0]
    many = isinstance(outputs, (list, tuple))
    em.instruction_id_to_num_outs_map[index] = len(outputs) if many else 1
    delegate_map = (lowered.meta or {}).get("debug_handle_map") or {}
    em.delegate_map[index] = {"name": lowered.backend_id, "delegate_map": delegate_map}
