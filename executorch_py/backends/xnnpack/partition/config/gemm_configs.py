"""Products with weights: one config each, with upstream's names."""

from executorch_py.backends.xnnpack.partition.config.xnnpack_config import (
    ConfigPrecisionType,
    XNNPartitionerConfig,
)

_ALL = tuple(ConfigPrecisionType)


class AddmmConfig(XNNPartitionerConfig):
    target_name = "addmm.default"
    precisions = _ALL


class ConvolutionConfig(XNNPartitionerConfig):
    target_name = "convolution.default"
    precisions = _ALL


class LinearConfig(XNNPartitionerConfig):
    target_name = "linear.default"
    precisions = _ALL
    original = "aten.linear.default"


class MMConfig(XNNPartitionerConfig):
    target_name = "mm.default"
    precisions = _ALL
