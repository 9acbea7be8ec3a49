"""Configurations for lowering, as in upstream's scripts; none of them is specific to XNNPACK."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from executorch_py.exir.program.config import EdgeCompileConfig, ExecutorchBackendConfig


def get_xnnpack_edge_compile_config(skip_dim_order: bool = False) -> EdgeCompileConfig:
    """Edge settings without the dialect check, which does not know quantized operators."""
    return EdgeCompileConfig(_check_ir_validity=False, _skip_dim_order=skip_dim_order)


def get_transform_passes(additional_passes: Sequence[Any] | None = None) -> list[Any]:
    """The given passes; upstream adds some that to_executorch has in its pipeline here."""
    return list(additional_passes or ())


def get_xnnpack_executorch_backend_config(
    additional_passes: Sequence[Any] | None = None,
) -> ExecutorchBackendConfig:
    """Settings of to_executorch with the given passes."""
    return ExecutorchBackendConfig(passes=list(additional_passes or ()))
