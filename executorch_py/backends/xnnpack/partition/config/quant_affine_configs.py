"""torchao's conversions to and from integers: one config each, with upstream's names."""

from executorch_py.backends.xnnpack.partition.config.xnnpack_config import (
    ConfigPrecisionType,
    XNNPartitionerConfig,
)

_DYNAMIC = (ConfigPrecisionType.DYNAMIC_QUANT,)


class QuantizeAffineConfig(XNNPartitionerConfig):
    target_name = "quantize_affine.default"
    precisions = _DYNAMIC
    original = "torchao.quantize_affine.default"


class DeQuantizeAffineConfig(XNNPartitionerConfig):
    target_name = "dequantize_affine.default"
    precisions = _DYNAMIC
    original = "torchao.dequantize_affine.default"


class ChooseQParamsAffineConfig(XNNPartitionerConfig):
    target_name = "choose_qparams_affine.default"
    precisions = _DYNAMIC
    original = "torchao.choose_qparams_affine.default"
