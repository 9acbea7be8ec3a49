"""The passes of the XNNPACK delegate in order, as data.

First over the partition in the edge dialect, where the exporter's own passes do the work, then over
the graph of XNNPACK's nodes.
"""

from __future__ import annotations

from collections.abc import Callable

from torch.export import ExportedProgram

from executorch_py.backends.xnnpack.passes.choose_layouts import choose_layouts
from executorch_py.backends.xnnpack.passes.float_constants import float_constants
from executorch_py.backends.xnnpack.passes.fold_quantization import fold_quantization
from executorch_py.backends.xnnpack.passes.fuse_activation import fuse_activation
from executorch_py.backends.xnnpack.passes.fuse_transposed_operand import fuse_transposed_operand
from executorch_py.backends.xnnpack.passes.hoist_slices import hoist_slices
from executorch_py.backends.xnnpack.passes.merge_moves import merge_moves
from executorch_py.backends.xnnpack.passes.move_reshapes import move_reshapes
from executorch_py.backends.xnnpack.passes.share_equal_nodes import share_equal_nodes
from executorch_py.backends.xnnpack.passes.sink_dequantize import sink_dequantize
from executorch_py.backends.xnnpack.passes.swap_moves import swap_moves
from executorch_py.backends.xnnpack.passes.transpose_to_reshape import still_transposes
from executorch_py.backends.xnnpack.payload.graph import Graph
from executorch_py.exir.passes.fuse.fuse_batch_norm import fuse_batch_norm
from executorch_py.exir.passes.simplify.fold_constants import fold_constants

PROGRAM_PASSES: tuple[Callable[[ExportedProgram], bool], ...] = (
    fold_constants,
    fuse_batch_norm,
)

GRAPH_PASSES: tuple[Callable[[Graph], bool], ...] = (
    share_equal_nodes,
    # Moves of quantized elements first, so that conversions meet the nodes they fold into.
    sink_dequantize,
    # A clamp between a product and its quantization is part of the product by then.
    fuse_activation,
    fold_quantization,
    # Quantized results are clamped by conversions of their own until now.
    fuse_activation,
    # What is still a quantized constant was taken by no node as such.
    float_constants,
    hoist_slices,
    fuse_transposed_operand,
    merge_moves,
    # Permutations go where images are, which may have the order already.
    swap_moves,
    merge_moves,
    choose_layouts,
    # Layouts brought transpositions, some of which move nothing or meet another.
    still_transposes,
    merge_moves,
    move_reshapes,
    merge_moves,
)


def run_program_passes(program: ExportedProgram) -> None:
    """Rewrite the partition, whose graph is the backend's own copy."""
    for rewrite in PROGRAM_PASSES:
        rewrite(program)


def run_graph_passes(graph: Graph) -> None:
    """Rewrite the graph; dead nodes go after each pass."""
    for rewrite in GRAPH_PASSES:
        if rewrite(graph):
            graph.drop_dead()
