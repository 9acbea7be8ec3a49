"""Operators that passes rewrite before they are written: one config each, upstream's names."""

from executorch_py.backends.xnnpack.partition.config.xnnpack_config import (
    XNNPartitionerConfig,
)


class BatchNormConfig(XNNPartitionerConfig):
    target_name = "_native_batch_norm_legit_no_training.default"


class MaxDimConfig(XNNPartitionerConfig):
    target_name = "max.dim"


class PreluConfig(XNNPartitionerConfig):
    target_name = "prelu.default"
    original = "aten.prelu.default"
