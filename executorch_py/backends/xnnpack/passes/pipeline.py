"""The passes of the XNNPACK delegate in order, as data.

The first list runs over the partition in the edge dialect and consists of the exporter's passes.
The second runs over the graph of XNNPACK nodes. Both are checked pass by pass where the exporter's
pipelines are (exir/passes/runner.py); checks.py has the checks of the second.
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
from executorch_py.backends.xnnpack.passes.transpose_to_reshape import transpose_to_reshape
from executorch_py.backends.xnnpack.payload.graph import Graph
from executorch_py.exir.passes.base import Fact, facts
from executorch_py.exir.passes.fuse.fuse_batch_norm import FuseBatchNorm
from executorch_py.exir.passes.runner import Step, is_checked, run_pipeline
from executorch_py.exir.passes.simplify.fold_constants import FoldConstants

# Facts of a partition: writes to buffers are refused before.
GIVEN = facts(Fact.FUNCTIONAL)

PROGRAM_PASSES: tuple[Step, ...] = (
    Step(FoldConstants),
    Step(FuseBatchNorm),
)

# Rewrites of a well-formed graph that leave it well-formed. Each returns True exactly if it changed
# the graph, also where only a layout or an attribute did.
GRAPH_PASSES: tuple[Callable[[Graph], bool], ...] = (
    share_equal_nodes,
    # Moves are made on integers first, so that conversions are next to the nodes they fold into.
    sink_dequantize,
    # A clamp between a product and its quantization has to be fused before quantization is folded.
    fuse_activation,
    fold_quantization,
    # Clamps of quantized results, which were between conversions until now.
    fuse_activation,
    # Constants that are still quantized, and that no quantized node reads.
    float_constants,
    hoist_slices,
    fuse_transposed_operand,
    merge_moves,
    # Permutations move next to images, whose layout may make them redundant.
    swap_moves,
    merge_moves,
    choose_layouts,
    # Transpositions that the layouts added, some of which move nothing or follow each other.
    transpose_to_reshape,
    merge_moves,
    move_reshapes,
    merge_moves,
)


def run_program_passes(program: ExportedProgram) -> None:
    """Rewrite the partition, whose graph is the backend's own copy."""
    run_pipeline(PROGRAM_PASSES, program, None, GIVEN)


def run_graph_passes(graph: Graph) -> None:
    """Rewrite the graph; dead nodes are removed after each pass that changed it."""
    if is_checked():
        from executorch_py.backends.xnnpack.passes.checks import run_checked

        run_checked(GRAPH_PASSES, graph)
        return
    for rewrite in GRAPH_PASSES:
        if rewrite(graph):
            graph.drop_dead()
