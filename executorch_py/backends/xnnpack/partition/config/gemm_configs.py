"""Configs of products with weights; names are upstream's."""

from functools import partial

from executorch_py.backends.xnnpack.partition.config.xnnpack_config import (
    ConfigPrecisionType,
    XNNPartitionerConfig,
    operator_config,
)


class GEMMConfig(XNNPartitionerConfig):
    """A product with weights; the schema of its operator has the positions of operands."""

    precisions = tuple(ConfigPrecisionType)


_named = partial(operator_config, __name__, GEMMConfig)
AddmmConfig = _named("AddmmConfig", "addmm.default")
ConvolutionConfig = _named("ConvolutionConfig", "convolution.default")
LinearConfig = _named("LinearConfig", "linear.default", whole="aten")
MMConfig = _named("MMConfig", "mm.default")
