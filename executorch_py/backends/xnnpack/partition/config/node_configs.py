"""Configs of operators that passes rewrite before serialization; names are upstream's."""

from functools import partial

from executorch_py.backends.xnnpack.partition.config.xnnpack_config import (
    XNNPartitionerConfig,
    operator_config,
)

_named = partial(operator_config, __name__, XNNPartitionerConfig)
BatchNormConfig = _named("BatchNormConfig", "_native_batch_norm_legit_no_training.default")
MaxDimConfig = _named("MaxDimConfig", "max.dim")
PreluConfig = _named("PreluConfig", "prelu.default", whole="aten")
