"""Configs of torchao's conversions to and from integers; names are upstream's."""

from functools import partial

from executorch_py.backends.xnnpack.partition.config.xnnpack_config import (
    ConfigPrecisionType,
    XNNPartitionerConfig,
    operator_config,
)


class QDQAffineConfigs(XNNPartitionerConfig):
    """A conversion that is delegated with the product that reads it."""

    precisions = (ConfigPrecisionType.DYNAMIC_QUANT,)


_named = partial(operator_config, __name__, QDQAffineConfigs)
QuantizeAffineConfig = _named("QuantizeAffineConfig", "quantize_affine.default", whole="torchao")
DeQuantizeAffineConfig = _named(
    "DeQuantizeAffineConfig", "dequantize_affine.default", whole="torchao"
)
ChooseQParamsAffineConfig = _named(
    "ChooseQParamsAffineConfig", "choose_qparams_affine.default", whole="torchao"
)
