"""Quantization that is right, or says why not: PT2E with torchao's prepare and convert.

    quantizer = XNNPACKQuantizer().set_global(get_symmetric_quantization_config())
    prepared = prepare_pt2e(torch.export.export(model, inputs).module(), quantizer)
    calibrate(prepared, data)
    quantized = convert_pt2e(prepared)

The names of torchao's that this takes are importable from here.
"""

from torchao.quantization.pt2e.quantize_pt2e import prepare_pt2e
from torchao.quantization.pt2e.quantizer import Quantizer

from executorch_py.quantizer.calibrate import calibrate
from executorch_py.quantizer.compare import compare
from executorch_py.quantizer.compose import ComposableQuantizer
from executorch_py.quantizer.groups import (
    get_groupwise_quantization_config,
    get_weight_only_quantization_config,
)
from executorch_py.quantizer.observers import CalibrationError, CalibrationWarning
from executorch_py.quantizer.program_io import QuantizedIO, quantize_io
from executorch_py.quantizer.report import report
from executorch_py.quantizer.search import quantize, sensitivities
from executorch_py.quantizer.spec import QuantizationConfig, get_symmetric_quantization_config
from executorch_py.quantizer.training import (
    TrainingModeError,
    convert_pt2e,
    move_exported_model_to_eval,
    move_exported_model_to_train,
    prepare_qat_pt2e,
)
from executorch_py.quantizer.xnnpack import XNNPACKQuantizer

__all__ = [
    "CalibrationError",
    "CalibrationWarning",
    "ComposableQuantizer",
    "QuantizationConfig",
    "QuantizedIO",
    "Quantizer",
    "TrainingModeError",
    "XNNPACKQuantizer",
    "calibrate",
    "compare",
    "convert_pt2e",
    "get_groupwise_quantization_config",
    "get_symmetric_quantization_config",
    "get_weight_only_quantization_config",
    "move_exported_model_to_eval",
    "move_exported_model_to_train",
    "prepare_pt2e",
    "prepare_qat_pt2e",
    "quantize",
    "quantize_io",
    "report",
    "sensitivities",
]
