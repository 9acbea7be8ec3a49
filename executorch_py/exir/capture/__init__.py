"""The names of upstream's first capture path, which torch.export replaced.

The configurations exist so that old scripts import; capture() raises an error with a remedy. The
configurations of today's path are here as well, where upstream keeps them.
"""

from __future__ import annotations

import sys
import types
from dataclasses import dataclass, field
from typing import Any, NamedTuple, NoReturn

from executorch_py.exir.error import ExportError, ExportErrorType
from executorch_py.exir.program.config import EdgeCompileConfig, ExecutorchBackendConfig

__all__ = [
    "CallSpec",
    "CaptureConfig",
    "EdgeCompileConfig",
    "ExecutorchBackendConfig",
    "ExirDynamoConfig",
    "capture",
]


class CallSpec(NamedTuple):
    """The structure of a program's arguments and of its results."""

    in_spec: Any
    out_spec: Any


@dataclass
class ExirDynamoConfig:
    """Settings of the first capture path; without effect."""

    allow_rnn: bool = True
    verbose: bool = True
    assume_static_by_default: bool = False


@dataclass
class CaptureConfig:
    """Settings of the first capture path; without effect."""

    pt2_mode: bool = True
    enable_functionalization: bool = True
    enable_dynamic_shape: bool = False
    enable_aot: bool = False
    _dynamo_config: ExirDynamoConfig = field(default_factory=ExirDynamoConfig)
    _unlift: bool = False
    _use_old_decomp_table: bool = False


def capture(*args: Any, **kwargs: Any) -> NoReturn:
    """Raise an error: torch.export replaced this function."""
    raise ExportError(
        ExportErrorType.NOT_SUPPORTED,
        "exir.capture() is gone: call torch.export.export(model, args) and give the result to "
        "exir.to_edge() or exir.to_edge_transform_and_lower()",
    )


class _Callable(types.ModuleType):
    """Class of this package, so that `exir.capture(…)` raises the same error."""

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        capture(*args, **kwargs)


sys.modules[__name__].__class__ = _Callable
