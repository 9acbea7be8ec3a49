"""Upstream's path to what is defined in memory_format_ops.py."""

from executorch_py.exir.passes.memory_format_ops import DimOrderOpsRevertPass, MemoryFormatOpsPass

__all__ = ["DimOrderOpsRevertPass", "MemoryFormatOpsPass"]
