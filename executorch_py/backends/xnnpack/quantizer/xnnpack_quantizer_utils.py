"""Upstream's path to the settings of a quantizer; they are torchao's."""

from torchao.testing.pt2e._xnnpack_quantizer_utils import (
    OperatorConfig,
    OperatorPatternType,
    QuantizationConfig,
)

__all__ = ["OperatorConfig", "OperatorPatternType", "QuantizationConfig"]
