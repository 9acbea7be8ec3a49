"""Settings of the exporter's stages, as dataclasses with upstream's names and defaults."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch


@dataclass
class EdgeCompileConfig:
    """How a program is brought to the edge dialect."""

    _check_ir_validity: bool = True
    _skip_dim_order: bool = False
    _core_aten_ops_exception_list: list[torch._ops.OpOverload] = field(default_factory=list)
    preserve_ops: list[torch._ops.OpOverload] = field(default_factory=list)
