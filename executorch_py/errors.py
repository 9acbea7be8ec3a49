"""The exceptions of the runtime, one per status; all are ExecutorchError, a RuntimeError.

A class derives from the matching builtin exception as well: `except ValueError` catches
InvalidArgument, `except KeyError` catches NotFound. `status` is the runtime's code (upstream's
numbers), `name` its name. The message says what was expected and what was given, and ends with the
name and the code.
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
