"""Empty operands of `cat` are dropped; a `cat` of empty operands only becomes `full`.

An empty 1-d tensor may be concatenated with tensors of any rank, by an old rule of torch. Kernels
need no special case for it when such operands are gone.
"""

from __future__ import annotations

import torch
from torch.fx import GraphModule, Node
from torch.fx.experimental.symbolic_shapes import guard_or_true

from executorch_py.exir.passes.base import Contract, GraphPass

_aten = torch.ops.aten


class PruneEmptyTensorsPass(GraphPass):
    """Remove operands of `cat` that have no elements."""

    contract = Contract()

    def rewrite(self, gm: GraphModule) -> bool:
        cats = gm.graph.find_nodes(op="call_function", target=_aten.cat.default)
        return any([_prune(gm, node) for node in cats])


def _prune(gm: GraphModule, cat: Node) -> bool:
    operands = list(cat.args[0])
    kept = [node for node in operands if guard_or_true(node.meta["val"].numel() != 0)]
    if len(kept) == len(operands):
        return False
    result = cat.meta["val"]
    if kept:
        cat.args = (kept, *cat.args[1:])
        return True
    if not all(isinstance(size, int) for size in result.shape):
        return False
    with gm.graph.inserting_after(cat):
        full = gm.graph.call_function(
            _aten.full.default, (list(result.shape), 0), {"dtype": result.dtype}
        )
    full.meta = dict(cat.meta)
    cat.replace_all_uses_with(full)
    gm.graph.erase_node(cat)
    return True
