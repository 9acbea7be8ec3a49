"""The exceptions of the runtime, one per status; all are ExecutorchError, a RuntimeError.

A class derives from the matching builtin exception as well: `except ValueError` catches
InvalidArgument, `except KeyError` catches NotFound. `status` is the runtime's code (upstream's
numbers), `name` its name; the text says what was found and what was needed, and ends with both.
"""

from executorch_py._C import (
    AccessFailed,
    AlreadyLoaded,
    DelegateInvalidCompatibility,
    DelegateInvalidHandle,
    DelegateMemoryAllocationFailed,
    EndOfMethod,
    ExecutorchError,
    Internal,
    Interrupted,
    InvalidArgument,
    InvalidExternalData,
    InvalidProgram,
    InvalidState,
    InvalidType,
    MemoryAllocationFailed,
    NotFound,
    NotImplemented,
    NotSupported,
    OperatorMissing,
    OutOfResources,
)

OutOfMemory = MemoryAllocationFailed

__all__ = [
    "AccessFailed",
    "AlreadyLoaded",
    "DelegateInvalidCompatibility",
    "DelegateInvalidHandle",
    "DelegateMemoryAllocationFailed",
    "EndOfMethod",
    "ExecutorchError",
    "Internal",
    "Interrupted",
    "InvalidArgument",
    "InvalidExternalData",
    "InvalidProgram",
    "InvalidState",
    "InvalidType",
    "MemoryAllocationFailed",
    "NotFound",
    "NotImplemented",
    "NotSupported",
    "OperatorMissing",
    "OutOfMemory",
    "OutOfResources",
]
