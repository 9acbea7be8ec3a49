"""What a partitioner is asked for: kinds of arithmetic, and operators one by one.

Names and values are upstream's. A config names an operator; what can be delegated of it stands in
support.py.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram

from executorch_py.backends.xnnpack.site import known_tensors
from executorch_py.backends.xnnpack.support import reason
from executorch_py.exir.backend.canonical_partitioners.config_partitioner import (
    PartitionerConfig,
    format_target_name,
)


class ConfigPrecisionType(Enum):
    """Kinds of arithmetic."""

    FP32 = 1
    STATIC_QUANT = 2
    DYNAMIC_QUANT = 3


class XNNPartitionerConfig(PartitionerConfig):
    """One operator that a partitioner may delegate."""

    precisions: tuple[ConfigPrecisionType, ...] = (ConfigPrecisionType.FP32,)
    original: str = ""
    """The operator that must not be decomposed before, as in `torch.ops`: `aten.linear.default`."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__()
        asked = kwargs.get("enabled_precision_types")
        self.enabled_precision_types = [p for p in self.precisions if asked is None or p in asked]

    def supported_precision_types(self) -> list[ConfigPrecisionType]:
        """The kinds of arithmetic that the operator has."""
        return list(self.precisions)

    def get_original_aten(self) -> torch._ops.OpOverload | None:
        if not self.original:
            return None
        found: Any = torch.ops
        for part in self.original.split("."):
            found = getattr(found, part)
        op: torch._ops.OpOverload = found
        return op

    def check_constraints(self, node: fx.Node, ep: ExportedProgram) -> bool:
        return reason(node, known_tensors(ep)) is None

    def get_partition(self, node: fx.Node, ep: ExportedProgram) -> list[fx.Node]:
        return [node]


def config_key(target_name: str) -> str:
    """How configs call an operator that the dialect calls `aten::add.Tensor`, or `aten::relu`."""
    name = target_name.split("::")[-1]
    return name if "." in name else f"{name}.default"


__all__ = ["ConfigPrecisionType", "XNNPartitionerConfig", "config_key", "format_target_name"]
