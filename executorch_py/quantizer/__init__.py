"""Quantization that is right, or says why not: PT2E with torchao's prepare and convert.

    quantizer = XNNPACKQuantizer().set_global(get_symmetric_quantization_config())
    prepared = prepare_pt2e(torch.export.export(model, inputs).module(), quantizer)
    calibrate(prepared, data)
    quantized = convert_pt2e(prepared)

The names of torchao's that this takes are importable from here.

A quantizer of one's own writes annotations: `patterns.PATTERNS` has operators with what follows
them, `annotate` the words that are written on nodes. This one takes linear layers by the endings
of their modules' names, with activations of uint8:

    import torch
    from dataclasses import replace
    from executorch_py.quantizer import QuantizationConfig, Quantizer
    from executorch_py.quantizer import get_symmetric_quantization_config
    from executorch_py.quantizer.annotate import is_annotated
    from executorch_py.quantizer.observers import module_path
    from executorch_py.quantizer.patterns import PATTERNS, annotate_match, find

    class LinearsNamed(Quantizer):
        def __init__(self, ending):
            super().__init__()
            self.ending = ending
            usual = get_symmetric_quantization_config(is_per_channel=True)
            activation = replace(
                usual.input_activation, dtype=torch.uint8, quant_min=0, quant_max=255)
            self.config = QuantizationConfig(activation, activation, usual.weight, None)

        def annotate(self, model):
            (linear,) = [p for p in PATTERNS if p.name == "linear"]
            for match in find(model, linear):
                if is_annotated(*match.nodes):
                    continue  # another quantizer's
                if module_path(match.anchor).endswith(self.ending):
                    annotate_match(match, self.config)
            return model

        def validate(self, model):
            pass

    quantizer = LinearsNamed("_u8")

`ComposableQuantizer([mine, XNNPACKQuantizer()…])` lets several annotate one model, the first of
which counts. XNNPACKQuantizer's `validate` refuses all that XNNPACK cannot compute, the others'
annotations too; uint8 is among that, so the one above goes without it: its model runs on the
kernels that are not delegated.
"""

from torchao.quantization.pt2e.quantizer import Quantizer

from executorch_py.quantizer.calibrate import calibrate
from executorch_py.quantizer.compare import compare
from executorch_py.quantizer.compose import ComposableQuantizer
from executorch_py.quantizer.groups import (
    get_groupwise_quantization_config,
    get_weight_only_quantization_config,
)
from executorch_py.quantizer.observers import CalibrationError, CalibrationWarning
from executorch_py.quantizer.prepare import prepare_pt2e
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
from executorch_py.quantizer.validate import AnnotationError, AnnotationWarning, left_float
from executorch_py.quantizer.xnnpack import XNNPACKQuantizer

__all__ = [
    "AnnotationError",
    "AnnotationWarning",
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
    "left_float",
    "move_exported_model_to_eval",
    "move_exported_model_to_train",
    "prepare_pt2e",
    "prepare_qat_pt2e",
    "quantize",
    "quantize_io",
    "report",
    "sensitivities",
]
