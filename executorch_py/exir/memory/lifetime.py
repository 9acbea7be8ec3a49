"""Lifetimes: the interval of instructions in which a tensor's memory is in use, control-flow bodies
included.

The graph and its bodies share one timeline. The branches of `cond` have the same interval, so they
may share memory; operands and results of a control-flow node live through its whole interval. A
view keeps the storage of its base alive. Knows nothing of offsets.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from torch import fx
from torch.export.graph_signature import ExportGraphSignature

from executorch_py.exir.ir.graph import body_modules, placeholders, trained_parameters
from executorch_py.exir.ir.op_traits import higher_order_name, is_delegate_call
from executorch_py.exir.ir.tensor_spec import TensorSpec


@dataclass
class Lifetimes:
    """First and last instruction of each storage, in order of first appearance, and the time of
    each node.
    """

    spans: dict[TensorSpec, list[int]] = field(default_factory=dict)
    time_of: dict[fx.Node, int] = field(default_factory=dict)
    end: int = 0

    def touch(self, spec: TensorSpec, time: int) -> None:
        span = self.spans.setdefault(spec.storage_root(), [time, time])
        span[0] = min(span[0], time)
        span[1] = max(span[1], time)


def specs_in(value: Any) -> Iterable[TensorSpec]:
    """The tensor specs inside a spec structure."""
    if isinstance(value, TensorSpec):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from specs_in(item)


def node_specs(node: fx.Node) -> Iterable[TensorSpec]:
    """The tensor specs of a node's result."""
    return specs_in(node.meta.get("spec"))


def compute_lifetimes(gm: fx.GraphModule, signature: ExportGraphSignature | None) -> Lifetimes:
    """Lifetimes of all storages of a method; spec.lifetime is set as well."""
    lifetimes = Lifetimes()
    lifetimes.end = _walk(gm, 0, lifetimes) - 1
    mutable = mutable_placeholders(signature)
    for node in placeholders(gm.graph):
        for spec in node_specs(node):
            lifetimes.touch(spec, 0)
            if node.name in mutable:
                lifetimes.touch(spec, lifetimes.end)
    for spec, span in lifetimes.spans.items():
        spec.lifetime[:] = span
    return lifetimes


def mutable_placeholders(signature: ExportGraphSignature | None) -> set[str]:
    """Names of the placeholders whose memory holds state between runs: buffers that the method
    writes, and weights that an optimiser updates.
    """
    if signature is None:
        return set()
    written, trained = set(signature.buffers_to_mutate.values()), trained_parameters(signature)
    buffers = {name for name, fqn in signature.inputs_to_buffers.items() if fqn in written}
    return buffers | {n for n, fqn in signature.inputs_to_parameters.items() if fqn in trained}


def _walk(gm: fx.GraphModule, time: int, lifetimes: Lifetimes) -> int:
    """Put one module on the timeline from `time` on; returns the first time after it."""
    for node in gm.graph.nodes:
        touched = list(node_specs(node))
        for source in node.all_input_nodes:
            touched.extend(node_specs(source))
        lifetimes.time_of[node] = time
        for spec in touched:
            lifetimes.touch(spec, time)
        time += 1
        bodies = _bodies(gm, node)
        if bodies:
            time = max(_walk(body, time, lifetimes) for body in bodies)
            for spec in touched:
                lifetimes.touch(spec, time)
            time += 1
    return time


def _bodies(gm: fx.GraphModule, node: fx.Node) -> list[fx.GraphModule]:
    if node.op != "call_function" or not higher_order_name(node.target):
        return []
    return [] if is_delegate_call(node.target) else body_modules(gm, node)
