"""Operators without weights: one config each, with upstream's names."""

from executorch_py.backends.xnnpack.partition.config.xnnpack_config import (
    ConfigPrecisionType,
    XNNPartitionerConfig,
)

_FLOAT_OR_STATIC = (ConfigPrecisionType.FP32, ConfigPrecisionType.STATIC_QUANT)
_STATIC = (ConfigPrecisionType.STATIC_QUANT,)


class AbsConfig(XNNPartitionerConfig):
    target_name = "abs.default"


class AddConfig(XNNPartitionerConfig):
    target_name = "add.Tensor"
    precisions = _FLOAT_OR_STATIC


class AvgPoolingConfig(XNNPartitionerConfig):
    target_name = "avg_pool2d.default"


class BMMConfig(XNNPartitionerConfig):
    target_name = "bmm.default"


class CatConfig(XNNPartitionerConfig):
    target_name = "cat.default"
    precisions = _FLOAT_OR_STATIC


class CeilConfig(XNNPartitionerConfig):
    target_name = "ceil.default"


class CloneConfig(XNNPartitionerConfig):
    target_name = "clone.default"


class CloneDimOrderConfig(XNNPartitionerConfig):
    target_name = "_clone_dim_order.default"


class ConstantPadConfig(XNNPartitionerConfig):
    target_name = "constant_pad_nd.default"


class ClampConfig(XNNPartitionerConfig):
    target_name = "clamp.default"
    precisions = _FLOAT_OR_STATIC


class DivConfig(XNNPartitionerConfig):
    target_name = "div.Tensor"


class ExpConfig(XNNPartitionerConfig):
    target_name = "exp.default"


class FloorConfig(XNNPartitionerConfig):
    target_name = "floor.default"


class GeluConfig(XNNPartitionerConfig):
    target_name = "gelu.default"


class HardtanhConfig(XNNPartitionerConfig):
    target_name = "hardtanh.default"
    precisions = _FLOAT_OR_STATIC


class HardswishConfig(XNNPartitionerConfig):
    target_name = "hardswish.default"
    original = "aten.hardswish.default"


class LeakyReLUConfig(XNNPartitionerConfig):
    target_name = "leaky_relu.default"


class LogConfig(XNNPartitionerConfig):
    target_name = "log.default"


class MaximumConfig(XNNPartitionerConfig):
    target_name = "maximum.default"


class MaxPool2dConfig(XNNPartitionerConfig):
    target_name = "max_pool2d.default"
    precisions = _FLOAT_OR_STATIC
    original = "aten.max_pool2d.default"


class MeanDimConfig(XNNPartitionerConfig):
    target_name = "mean.dim"
    precisions = _FLOAT_OR_STATIC


class MinimumConfig(XNNPartitionerConfig):
    target_name = "minimum.default"


class MulConfig(XNNPartitionerConfig):
    target_name = "mul.Tensor"
    precisions = _FLOAT_OR_STATIC


class NegConfig(XNNPartitionerConfig):
    target_name = "neg.default"


class PermuteConfig(XNNPartitionerConfig):
    target_name = "permute_copy.default"
    precisions = _FLOAT_OR_STATIC


class PowConfig(XNNPartitionerConfig):
    target_name = "pow.Tensor_Scalar"


class ReciprocalSquareRootConfig(XNNPartitionerConfig):
    target_name = "rsqrt.default"


class ReLUConfig(XNNPartitionerConfig):
    target_name = "relu.default"
    precisions = _FLOAT_OR_STATIC


class TanhConfig(XNNPartitionerConfig):
    target_name = "tanh.default"


class ToDimOrderCopyConfig(XNNPartitionerConfig):
    target_name = "_to_dim_order_copy.default"
    precisions = _FLOAT_OR_STATIC


class SigmoidConfig(XNNPartitionerConfig):
    target_name = "sigmoid.default"


class SinConfig(XNNPartitionerConfig):
    target_name = "sin.default"


class CosConfig(XNNPartitionerConfig):
    target_name = "cos.default"


class SliceCopyConfig(XNNPartitionerConfig):
    target_name = "slice_copy.Tensor"
    precisions = _FLOAT_OR_STATIC


class SoftmaxConfig(XNNPartitionerConfig):
    target_name = "_softmax.default"


class SquareRootConfig(XNNPartitionerConfig):
    target_name = "sqrt.default"


class SubConfig(XNNPartitionerConfig):
    target_name = "sub.Tensor"
    precisions = _FLOAT_OR_STATIC


class UnsqueezeCopyConfig(XNNPartitionerConfig):
    target_name = "unsqueeze_copy.default"
    precisions = _FLOAT_OR_STATIC


class UpsampleBilinear2dConfig(XNNPartitionerConfig):
    target_name = "upsample_bilinear2d.vec"
    original = "aten.upsample_bilinear2d.vec"


class ViewCopyConfig(XNNPartitionerConfig):
    target_name = "view_copy.default"
    precisions = _FLOAT_OR_STATIC


class QuantizedPerTensorConfig(XNNPartitionerConfig):
    target_name = "quantize_per_tensor.default"
    precisions = _STATIC


class DeQuantizedPerTensorConfig(XNNPartitionerConfig):
    target_name = "dequantize_per_tensor.default"
    precisions = _STATIC
