"""Settings of a quantizer at upstream's path; executorch_py.quantizer and torchao have them."""

from torchao.quantization.pt2e.quantizer import (
    OperatorConfig,
    OperatorPatternType,
    get_bias_qspec,
    get_input_act_qspec,
    get_output_act_qspec,
    get_weight_qspec,
)

from executorch_py.quantizer.spec import QuantizationConfig, QuantizationSpec

__all__ = [
    "OperatorConfig",
    "OperatorPatternType",
    "QuantizationConfig",
    "QuantizationSpec",
    "get_bias_qspec",
    "get_input_act_qspec",
    "get_output_act_qspec",
    "get_weight_qspec",
]
