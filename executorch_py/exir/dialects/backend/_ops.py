"""Upstream's path to the backend operator classes; see dialects/edge_ops.py."""

from executorch_py.exir.dialects.edge_ops import BackendOpOverload, BackendOpOverloadPacket

__all__ = ["BackendOpOverload", "BackendOpOverloadPacket"]
