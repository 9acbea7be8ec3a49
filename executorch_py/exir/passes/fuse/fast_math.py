"""FastMath: 3 × 3 convolutions become Winograd convolutions, which need fewer products.

The results differ from those of convolution by rounding, a few times that of a plain sum;
docs/numerics.md has the bound. The size of the tiles is chosen here and stands in the file, so that
every machine computes the same bits. Weights must be constants, and height and width static.
Relies on `meta["val"]`; runs after FuseEpilogues, whose operator has the same arguments.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram

from executorch_py.exir.dialects.edge_ops import edge_op
from executorch_py.exir.ir.graph import constant_tensors, graphs_with_constants
from executorch_py.exir.ir.match import argument, is_call
from executorch_py.exir.passes.base import Contract, Fact, Pass, facts

_CONVOLUTIONS = ("aten::convolution", "executorch_py::convolution")
_PLAIN = tuple(a.name for a in torch.ops.aten.convolution.default._schema.arguments)
_EPILOGUE = ("chain", "numbers", "tensors")
_MOST_PADDING = 2
# Limits of a convolution that gains, measured with tests/bench/bench_winograd.py.
_FEW_CHANNELS = 24
_SMALL_IMAGE = 8
_FEW_WEIGHTS = 256 * 256


class FastMath(Pass):
    """Compute 3 x 3 convolutions by Winograd's method where that is faster."""

    contract = Contract(requires=facts(Fact.FUNCTIONAL))

    def run(self, program: ExportedProgram) -> bool:
        changed = False
        for graph, known in graphs_with_constants(program, constant_tensors(program)):
            for node in graph.nodes:
                if is_call(node, *_CONVOLUTIONS) and argument(node, "weight").name in known:
                    changed |= _rewrite(node)
        return changed


def _rewrite(node: fx.Node) -> bool:
    tile = tile_of(node)
    if tile is None:
        return False
    plain = [argument(node, name) for name in _PLAIN]
    fused = is_call(node, "executorch_py::convolution")
    epilogue: list[Any] = [argument(node, n) for n in _EPILOGUE] if fused else ["", [], []]
    node.target = edge_op(torch.ops.executorch_py.winograd_convolution.default)
    node.args, node.kwargs = (*plain, tile, *epilogue), {}
    return True


def tile_of(node: fx.Node) -> int | None:
    """Outputs along each side of a tile for a convolution; None where it stays as it is."""
    if not _is_eligible(node):
        return None
    c_out, c_in = argument(node, "weight").meta["val"].shape[:2]
    height, width = node.meta["val"].shape[2:]
    if min(c_in, c_out) < _FEW_CHANNELS or min(height, width) < 4:
        return None
    if min(height, width) < _SMALL_IMAGE and c_in * c_out > _FEW_WEIGHTS:
        return None  # reading the transformed weights would take longer
    return 4


def _is_eligible(node: fx.Node) -> bool:
    """Whether the kernel has the convolution: 3 x 3 taps, f32, no strides and no groups."""
    image, result = argument(node, "input").meta["val"], node.meta["val"]
    weight = argument(node, "weight").meta["val"]
    return (
        image.dtype == weight.dtype == result.dtype == torch.float32
        and image.dim() == 4
        and all(isinstance(size, int) for size in (*result.shape[1:], *weight.shape))
        and weight.shape[2:] == (3, 3)
        and not argument(node, "transposed")
        and argument(node, "groups") == 1
        and _all(argument(node, "stride"), 1, 1)
        and _all(argument(node, "dilation"), 1, 1)
        and _all(argument(node, "padding"), 0, _MOST_PADDING)
    )


def _all(sizes: Any, least: int, most: int) -> bool:
    return all(isinstance(size, int) and least <= size <= most for size in sizes)
