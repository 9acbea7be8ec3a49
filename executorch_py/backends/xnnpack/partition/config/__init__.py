"""Partitioner configs, one per operator; names are upstream's."""

from types import ModuleType

from executorch_py.backends.xnnpack.partition.config import (
    gemm_configs,
    generic_node_configs,
    node_configs,
    quant_affine_configs,
)
from executorch_py.backends.xnnpack.partition.config.gemm_configs import *  # noqa: F403
from executorch_py.backends.xnnpack.partition.config.generic_node_configs import *  # noqa: F403
from executorch_py.backends.xnnpack.partition.config.node_configs import *  # noqa: F403
from executorch_py.backends.xnnpack.partition.config.quant_affine_configs import *  # noqa: F403
from executorch_py.backends.xnnpack.partition.config.xnnpack_config import XNNPartitionerConfig


def _operators(module: ModuleType) -> list[type[XNNPartitionerConfig]]:
    configs = [c for c in vars(module).values() if isinstance(c, type)]
    return [c for c in configs if issubclass(c, XNNPartitionerConfig) and c.target_name]


# Upstream's list has no EluConfig either; a partitioner without configs delegates elu.
ALL_PARTITIONER_CONFIGS: list[type[XNNPartitionerConfig]] = [
    config
    for module in (gemm_configs, generic_node_configs, node_configs, quant_affine_configs)
    for config in _operators(module)
    if config is not generic_node_configs.EluConfig
]
