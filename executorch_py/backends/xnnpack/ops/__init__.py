"""Visitors: what each operator of the edge dialect becomes, one file per family.

`VISITORS` maps operator keys (`aten::relu`) to functions of the builder and the node.
"""

from __future__ import annotations

from executorch_py.backends.xnnpack.builder import Visitor
from executorch_py.backends.xnnpack.ops import (
    activation,
    attention,
    convolution,
    elementwise,
    extremes,
    linear,
    norm,
    pool,
    quantize,
    reduce,
    resize,
    shape,
)

_FAMILIES = (
    *(activation, attention, convolution, elementwise, extremes, linear, norm, pool),
    *(quantize, reduce, resize, shape),
)

VISITORS: dict[str, Visitor] = {
    key: visitor for family in _FAMILIES for key, visitor in family.VISITORS.items()
}
