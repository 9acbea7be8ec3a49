"""Configs of operators without weights; names are upstream's."""

from functools import partial

from executorch_py.backends.xnnpack.partition.config.xnnpack_config import (
    ConfigPrecisionType,
    XNNPartitionerConfig,
    operator_config,
)

_FLOAT_OR_STATIC = (ConfigPrecisionType.FP32, ConfigPrecisionType.STATIC_QUANT)
_STATIC = (ConfigPrecisionType.STATIC_QUANT,)


class GenericNodePartitionerConfig(XNNPartitionerConfig):
    """An operator without weights; passes over the payload fuse nodes with it."""


_named = partial(operator_config, __name__, GenericNodePartitionerConfig)
AbsConfig = _named("AbsConfig", "abs.default")
AddConfig = _named("AddConfig", "add.Tensor", _FLOAT_OR_STATIC)
AvgPoolingConfig = _named("AvgPoolingConfig", "avg_pool2d.default")
BMMConfig = _named("BMMConfig", "bmm.default")
CatConfig = _named("CatConfig", "cat.default", _FLOAT_OR_STATIC)
CeilConfig = _named("CeilConfig", "ceil.default")
CloneConfig = _named("CloneConfig", "clone.default")
CloneDimOrderConfig = _named("CloneDimOrderConfig", "_clone_dim_order.default")
ConstantPadConfig = _named("ConstantPadConfig", "constant_pad_nd.default")
ClampConfig = _named("ClampConfig", "clamp.default", _FLOAT_OR_STATIC)
DivConfig = _named("DivConfig", "div.Tensor")
EluConfig = _named("EluConfig", "elu.default", _FLOAT_OR_STATIC, whole="aten")
ExpConfig = _named("ExpConfig", "exp.default")
FloorConfig = _named("FloorConfig", "floor.default")
GeluConfig = _named("GeluConfig", "gelu.default")
HardtanhConfig = _named("HardtanhConfig", "hardtanh.default", _FLOAT_OR_STATIC)
HardswishConfig = _named("HardswishConfig", "hardswish.default", whole="aten")
LeakyReLUConfig = _named("LeakyReLUConfig", "leaky_relu.default")
LogConfig = _named("LogConfig", "log.default")
MaximumConfig = _named("MaximumConfig", "maximum.default")
MaxPool2dConfig = _named("MaxPool2dConfig", "max_pool2d.default", _FLOAT_OR_STATIC, whole="aten")
MeanDimConfig = _named("MeanDimConfig", "mean.dim", _FLOAT_OR_STATIC)
MinimumConfig = _named("MinimumConfig", "minimum.default")
MulConfig = _named("MulConfig", "mul.Tensor", _FLOAT_OR_STATIC)
NegConfig = _named("NegConfig", "neg.default")
PermuteConfig = _named("PermuteConfig", "permute_copy.default", _FLOAT_OR_STATIC)
PowConfig = _named("PowConfig", "pow.Tensor_Scalar")
ReciprocalSquareRootConfig = _named("ReciprocalSquareRootConfig", "rsqrt.default")
ReLUConfig = _named("ReLUConfig", "relu.default", _FLOAT_OR_STATIC)
TanhConfig = _named("TanhConfig", "tanh.default")
ToDimOrderCopyConfig = _named(
    "ToDimOrderCopyConfig", "_to_dim_order_copy.default", _FLOAT_OR_STATIC
)
SigmoidConfig = _named("SigmoidConfig", "sigmoid.default")
SinConfig = _named("SinConfig", "sin.default")
CosConfig = _named("CosConfig", "cos.default")
SliceCopyConfig = _named("SliceCopyConfig", "slice_copy.Tensor", _FLOAT_OR_STATIC)
SoftmaxConfig = _named("SoftmaxConfig", "_softmax.default")
SquareRootConfig = _named("SquareRootConfig", "sqrt.default")
SubConfig = _named("SubConfig", "sub.Tensor", _FLOAT_OR_STATIC)
UnsqueezeCopyConfig = _named("UnsqueezeCopyConfig", "unsqueeze_copy.default", _FLOAT_OR_STATIC)
UpsampleBilinear2dConfig = _named(
    "UpsampleBilinear2dConfig", "upsample_bilinear2d.vec", whole="aten"
)
ViewCopyConfig = _named("ViewCopyConfig", "view_copy.default", _FLOAT_OR_STATIC)
QuantizedPerTensorConfig = _named(
    "QuantizedPerTensorConfig", "quantize_per_tensor.default", _STATIC
)
DeQuantizedPerTensorConfig = _named(
    "DeQuantizedPerTensorConfig", "dequantize_per_tensor.default", _STATIC
)
