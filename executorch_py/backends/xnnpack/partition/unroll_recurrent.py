"""Unrolls recurrent layers before partitioning, since a delegate has no loops.

A layer of known length is unrolled unless the program would have too many cells, each of which is
14 nodes and 1.6 kB of payload. A loop has its body once and is some 8 % faster on our runtime. But
the weights of its product are operands, so that the product stays outside the delegate, where
upstream's kernel takes three times as long in float32 and more in float16.
"""

from __future__ import annotations

import math

from torch import fx
from torch.export import ExportedProgram

from executorch_py.backends.xnnpack.support.node_facts import FLOATS
from executorch_py.exir.decompose.core import decompose
from executorch_py.exir.decompose.recurrent import recurrent_decompositions
from executorch_py.exir.ir.match import argument

MAX_CELLS = 128  # steps times layers times directions, over all recurrent layers of a method


def unroll_recurrent(program: ExportedProgram) -> ExportedProgram:
    """The program, or a copy of it without recurrent layers."""
    table = recurrent_decompositions(unrolled=True)
    layers = [n for n in program.graph.nodes if n.op == "call_function" and n.target in table]
    if not layers or sum(map(cells_of, layers)) > MAX_CELLS:
        return program
    return decompose(program, table)


def cells_of(layer: fx.Node) -> float:
    """The number of cells of an unrolled layer; infinity if it is known at run time only."""
    x = argument(layer, "input").meta["val"]
    steps = x.shape[1 if argument(layer, "batch_first") else 0]
    if not isinstance(steps, int) or x.dtype not in FLOATS:
        return math.inf
    directions = 2 if argument(layer, "bidirectional") else 1
    return float(steps * argument(layer, "num_layers") * directions)
