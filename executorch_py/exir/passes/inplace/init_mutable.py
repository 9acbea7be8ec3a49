"""Initial values of mutable buffers that are stored in the file.

All values are stored by default, except large buffers of zeros: every runtime zeroes the memory of
buffers, and a cache of zeros would only make the file longer. InitializedMutableBufferPass, which
upstream's scripts use, marks buffers by name; these are stored whatever their contents.
"""

from __future__ import annotations

import torch
from torch import fx
from torch.export import ExportedProgram

from executorch_py.exir.ir.graph import lookup_tensor, placeholders
from executorch_py.exir.passes.base import Contract, GraphPass, Pass

# Smaller buffers are stored even when zero: the file is hardly longer, and no runtime is relied on.
_LARGE_BYTES = 64 * 1024


class InitializedMutableBufferPass(GraphPass):
    """Store the initial values of all buffers whose name contains one of `patterns`."""

    contract = Contract()

    def __init__(self, patterns: list[str]) -> None:
        super().__init__()
        self.patterns = patterns

    def apply(self, gm: fx.GraphModule) -> bool:
        changed = False
        for node in placeholders(gm.graph):
            name = str(node.target)
            if any(pattern in name for pattern in self.patterns):
                changed |= node.meta.get("et_init_buffer") is not True
                node.meta["et_init_buffer"] = True
        return changed


class SkipLargeZeroStates(Pass):
    """Mark the mutable buffers whose initial values need no bytes in the file."""

    contract = Contract()

    def run(self, program: ExportedProgram) -> bool:
        buffers = program.graph_signature.inputs_to_buffers
        mutated = set(program.graph_signature.buffers_to_mutate.values())
        changed = False
        for node in placeholders(program.graph_module.graph):
            fqn = buffers.get(node.name)
            if fqn is None or fqn not in mutated or "et_init_buffer" in node.meta:
                continue
            value = lookup_tensor(program, fqn)
            if value is not None and _is_large_zero(value):
                node.meta["et_init_buffer"] = False
                changed = True
        return changed


def _is_large_zero(value: torch.Tensor) -> bool:
    if value.numel() * value.element_size() < _LARGE_BYTES:
        return False
    return value.device.type == "meta" or not bool(value.any())
