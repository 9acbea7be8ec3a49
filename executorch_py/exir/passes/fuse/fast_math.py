"""FastMath: 3 × 3 convolutions become Winograd convolutions, which need fewer products.

The results differ from those of convolution by rounding, a few times that of a plain sum;
docs/numerics.md has the bound. The size of the tiles is chosen here and stands in the file, so that
every machine computes the same bits. Weights must be constants, and height and width static.
Relies on `meta["val"]`; runs after FuseEpilogues, whose operator has the same arguments.
"""

from __future__ import annotations

import math
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
# Figures of tests/bench/bench_winograd.py on Zen 5. Fewer channels fill no vectors, fewer pixels no
# tiles. Tiles of 6 have four times the error of tiles of 4, so they must save some products.
_LEAST_CHANNELS = 16
_LEAST_PIXELS = 4
_LEAST_GAIN = {2: 0.8, 4: 0.8, 6: 0.85}
# Reading a weight from memory takes the time of as many products; fewer weights are in a cache.
_PRODUCTS_PER_WEIGHT = 12
_PRODUCTS_PER_CACHED_WEIGHT = 4
_CACHED_WEIGHTS = 1 << 19


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
    batch, _, height, width = node.meta["val"].shape
    n_images = batch if isinstance(batch, int) else 1
    if min(c_in, c_out) < _LEAST_CHANNELS or min(height, width) < _LEAST_PIXELS:
        return None
    best, least = None, _cost(9, n_images * height * width, c_in * c_out)
    for tile, gain in _LEAST_GAIN.items():
        n_tiles = n_images * math.ceil(height / tile) * math.ceil(width / tile)
        cost = _cost((tile + 2) ** 2, n_tiles, c_in * c_out)
        if cost <= gain * least:
            best, least = tile, cost
    return best


def _cost(n_weights: int, n_uses: int, channels: int) -> int:
    """Time in products for each pair of channels, with n_weights that are used n_uses times."""
    is_cached = n_weights * channels <= _CACHED_WEIGHTS
    return n_weights * max(
        n_uses, _PRODUCTS_PER_CACHED_WEIGHT if is_cached else _PRODUCTS_PER_WEIGHT
    )


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
