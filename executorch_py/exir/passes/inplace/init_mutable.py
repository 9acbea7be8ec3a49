"""Initial values of mutable buffers: which are stored in the file.

By default all are, except large ones that are zero throughout: every runtime hands out zeroed
memory for state, and a cache of zeros would only make the file longer.
InitializedMutableBufferPass, upstream's way of asking, marks buffers by name and is obeyed whatever
their contents.
"""

from __future__ import annotations

import torch
from torch import fx
from torch.export import ExportedProgram
from torch.fx.passes.infra.pass_base import PassBase, PassResult

from executorch_py.exir.ir.graph import lookup_tensor, placeholders

# Smaller buffers are stored even when zero; it costs next to nothing and assumes nothing of a
# runtime.
_LARGE_BYTES = 64 * 1024


class InitializedMutableBufferPass(PassBase):
    """Ask for the initial values of all buffers whose name contains one of `patterns`."""

    def __init__(self, patterns: list[str]) -> None:
        super().__init__()
        self.patterns = patterns

    def call(self, graph_module: fx.GraphModule) -> PassResult:
        changed = False
        for node in placeholders(graph_module.graph):
            name = str(node.target)
            if any(pattern in name for pattern in self.patterns):
                node.meta["et_init_buffer"] = True
                changed = True
        return PassResult(graph_module, changed)


def skip_large_zero_states(ep: ExportedProgram) -> None:
    """Mark the mutable buffers whose initial values need no bytes in the file."""
    buffers = ep.graph_signature.inputs_to_buffers
    mutated = set(ep.graph_signature.buffers_to_mutate.values())
    for node in placeholders(ep.graph_module.graph):
        fqn = buffers.get(node.name)
        if fqn is None or fqn not in mutated or "et_init_buffer" in node.meta:
            continue
        value = lookup_tensor(ep, fqn)
        if value is not None and _is_large_zero(value):
            node.meta["et_init_buffer"] = False


def _is_large_zero(value: torch.Tensor) -> bool:
    if value.numel() * value.element_size() < _LARGE_BYTES:
        return False
    return value.device.type == "meta" or not bool(value.any())
