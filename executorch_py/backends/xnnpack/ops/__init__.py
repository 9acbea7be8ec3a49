"""Visitors, which translate edge operators to XNNPACK nodes; one file per family of operators.

`VISITORS` maps operator keys (`aten::relu`) to functions of the builder and the node.
"""

from __future__ import annotations

from executorch_py.backends.xnnpack.ops import (
    activation,
    attention,
    convolution,
    elementwise,
    linear,
    max_min,
    norm,
    pool,
    quantize,
    reduce,
    resize,
    shape,
)
from executorch_py.backends.xnnpack.payload.graph_builder import Visitor

_FAMILIES = (
    activation,
    attention,
    convolution,
    elementwise,
    max_min,
    linear,
    norm,
    pool,
    quantize,
    reduce,
    resize,
    shape,
)

VISITORS: dict[str, Visitor] = {
    key: visitor for family in _FAMILIES for key, visitor in family.VISITORS.items()
}
