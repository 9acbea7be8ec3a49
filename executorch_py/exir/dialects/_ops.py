"""Upstream's path to the dialect operators; see edge_ops.py."""

from executorch_py.exir.dialects.edge_ops import bind_pattern_to_op, ops

__all__ = ["bind_pattern_to_op", "ops"]
