"""The higher-order operator that calls a lowered module from a graph, and how to recognise its
argument.

torch owns the operator (its tracing rules name it); this is upstream's import path of it.
"""

from torch._higher_order_ops.executorch_call_delegate import (
    executorch_call_delegate,
    get_lowered_module_name,
    is_lowered_module,
)

__all__ = ["executorch_call_delegate", "get_lowered_module_name", "is_lowered_module"]
