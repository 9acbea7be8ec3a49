"""Upstream's path to the classes that users' passes derive from; see passes/base.py."""

from torch.fx.passes.infra.pass_base import PassBase, PassResult

from executorch_py.exir.passes.base import (
    ArgSchema,
    Argument,
    ExportedProgramPassBase,
    ExportedProgramPassResult,
    ExportPass,
    ExportPassBaseError,
    Fn,
    NodeMetadata,
    NodeMetadataValue,
    PassType,
    ProxyValue,
    Value,
    map_args,
)

__all__ = [
    "ArgSchema",
    "Argument",
    "ExportPass",
    "ExportPassBaseError",
    "ExportedProgramPassBase",
    "ExportedProgramPassResult",
    "Fn",
    "NodeMetadata",
    "NodeMetadataValue",
    "PassBase",
    "PassResult",
    "PassType",
    "ProxyValue",
    "Value",
    "map_args",
]
