"""Upstream's path to the edge operator classes; see dialects/edge_ops.py."""

from executorch_py.exir.dialects.edge_ops import (
    EdgeDialectArgument,
    EdgeDialectFunctionSchema,
    EdgeOpOverload,
    EdgeOpOverloadPacket,
)

__all__ = [
    "EdgeDialectArgument",
    "EdgeDialectFunctionSchema",
    "EdgeOpOverload",
    "EdgeOpOverloadPacket",
]
