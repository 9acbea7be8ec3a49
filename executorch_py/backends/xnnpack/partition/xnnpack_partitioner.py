"""Partitioners with upstream's names and arguments that take nothing, and say so when used.

A model lowered with them is complete: every operator stays with the project's own kernels.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from torch.export import ExportedProgram

from executorch_py.backends.xnnpack.partition.config.xnnpack_config import ConfigPrecisionType
from executorch_py.exir.backend.partitioner import Partitioner, PartitionResult


class XnnpackWarning(UserWarning):
    """A script asked for XNNPACK, which is not here."""


class XnnpackPartitioner(Partitioner):
    """Accepts what upstream's takes and delegates nothing."""

    def __init__(
        self,
        configs: Sequence[Any] | None = None,
        config_precisions: ConfigPrecisionType | Sequence[ConfigPrecisionType] | None = None,
        per_op_mode: bool = False,
        verbose: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        self.config_precisions = config_precisions
        self.per_op_mode = per_op_mode

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        warnings.warn(
            f"{type(self).__name__} delegates nothing: there is no XNNPACK delegate here. The "
            "program is complete and runs on this package's own kernels; leave the partitioner "
            "out to silence this, or export with upstream's package for its delegate",
            XnnpackWarning,
            stacklevel=2,
        )
        return PartitionResult(exported_program, {})


class XnnpackDynamicallyQuantizedPartitioner(XnnpackPartitioner):
    """As XnnpackPartitioner, asked for dynamically quantized operators only."""

    def __init__(self, **kwargs: Any) -> None:
        if "config_precisions" in kwargs:
            raise ValueError(
                "config_precisions given to XnnpackDynamicallyQuantizedPartitioner, which is "
                "DYNAMIC_QUANT by definition; leave it out, or use XnnpackPartitioner"
            )
        super().__init__(config_precisions=ConfigPrecisionType.DYNAMIC_QUANT, **kwargs)


class XnnpackFloatingPointPartitioner(XnnpackPartitioner):
    """As XnnpackPartitioner, asked for floating-point operators only."""

    def __init__(self) -> None:
        super().__init__(config_precisions=ConfigPrecisionType.FP32)


class XnnpackQuantizedPartitioner(XnnpackPartitioner):
    """As XnnpackPartitioner, asked for statically quantized operators only."""

    def __init__(self) -> None:
        super().__init__(config_precisions=ConfigPrecisionType.STATIC_QUANT)


__all__ = [
    "XnnpackDynamicallyQuantizedPartitioner",
    "XnnpackFloatingPointPartitioner",
    "XnnpackPartitioner",
    "XnnpackQuantizedPartitioner",
    "XnnpackWarning",
]
