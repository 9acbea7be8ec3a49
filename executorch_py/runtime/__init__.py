"""Run .pte programs. Needs NumPy only; names and behaviour follow upstream's `executorch.runtime`.

from executorch_py.runtime import Runtime
method = Runtime.get().load_program("model.pte").load_method("forward")
outputs = method.execute([array])            # flat, as upstream
result = method(array, mask=other)           # in the model's own structure

`load_ops("my_op.so")` adds custom operators.
"""

from typing import TYPE_CHECKING, Any

from executorch_py.runtime.backend_options import WorkspaceSharing
from executorch_py.runtime.metadata import MethodMeta, TensorInfo
from executorch_py.runtime.method import Method
from executorch_py.runtime.program import Program
from executorch_py.runtime.runtime import (
    BackendRegistry,
    OperatorRegistry,
    Runtime,
    Verification,
    load_ops,
    loaded_ops,
)

if TYPE_CHECKING:
    from executorch_py.runtime.pack import pack_weights
    from executorch_py.runtime.profile import InstructionProfile, NodeProfile
    from executorch_py.runtime.signature import Argument, Signature

__all__ = [
    "Argument",
    "BackendRegistry",
    "InstructionProfile",
    "Method",
    "MethodMeta",
    "NodeProfile",
    "OperatorRegistry",
    "Program",
    "Runtime",
    "Signature",
    "TensorInfo",
    "Verification",
    "WorkspaceSharing",
    "load_ops",
    "loaded_ops",
    "pack_weights",
]


def __getattr__(name: str) -> Any:
    """Types that running a program does not need, imported on first use: most of the imports."""
    if name in ("Argument", "Signature"):
        from executorch_py.runtime import signature

        return getattr(signature, name)
    if name == "pack_weights":
        from executorch_py.runtime import pack

        return pack.pack_weights
    if name in ("InstructionProfile", "NodeProfile"):
        from executorch_py.runtime import profile

        return getattr(profile, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
