"""Upstream's path to the dim-order operators; see dialects/dim_order.py."""

from executorch_py.exir.dialects.dim_order import DimOrderOpsMap, MemoryFormatOpsMap

__all__ = ["DimOrderOpsMap", "MemoryFormatOpsMap"]
