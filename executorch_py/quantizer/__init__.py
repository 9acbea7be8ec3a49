"""PT2E quantization: annotation, observers, calibration, QAT, GPTQ, mixed precision, reports.

    quantizer = XNNPACKQuantizer().set_global(get_symmetric_quantization_config())
    prepared = prepare_pt2e(torch.export.export(model, inputs).module(), quantizer)
    calibrate(prepared, data)
    quantized = convert_pt2e(prepared)

Prepare and convert are torchao's, with checks around them: a scale without data, a setting that
matches nothing or an annotation that the target cannot compute raises an error or a warning.

A custom quantizer writes annotations. `patterns.PATTERNS` has quantizable operators with their
fused followers, and `annotate` has the functions that annotate nodes. This quantizer selects linear
layers by the endings of their module names and gives them uint8 activations:

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

`ComposableQuantizer([mine, XNNPACKQuantizer()…])` lets several quantizers annotate one model; the
first that annotates a node decides about it. XNNPACKQuantizer's `validate` raises an error for
annotations that XNNPACK cannot compute, whichever quantizer wrote them. XNNPACK has no uint8, so
the quantizer above is used without it, and its model runs on the portable kernels.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from torchao.quantization.pt2e.quantizer import Quantizer

from executorch_py.quantizer.annotate import AnnotationError, AnnotationWarning
from executorch_py.quantizer.calibrate import calibrate
from executorch_py.quantizer.composable_quantizer import ComposableQuantizer
from executorch_py.quantizer.groupwise import (
    get_groupwise_quantization_config,
    get_weight_only_quantization_config,
)
from executorch_py.quantizer.mixed_precision import quantize, sensitivities, set_quantizer
from executorch_py.quantizer.observer_report import report
from executorch_py.quantizer.observers import CalibrationError, CalibrationWarning
from executorch_py.quantizer.patterns import NodeFilter
from executorch_py.quantizer.prepare import prepare_pt2e
from executorch_py.quantizer.qat import (
    TrainingModeError,
    convert_pt2e,
    move_exported_model_to_eval,
    move_exported_model_to_train,
    prepare_qat_pt2e,
)
from executorch_py.quantizer.quantize_io import QuantizedIO, quantize_io
from executorch_py.quantizer.spec import QuantizationConfig, get_symmetric_quantization_config
from executorch_py.quantizer.sqnr import compare

if TYPE_CHECKING:
    from executorch_py.backends.xnnpack.quantizer.validate import left_float
    from executorch_py.backends.xnnpack.quantizer.xnnpack_quantizer import XNNPACKQuantizer

# Names of the XNNPACK target, which is built on this package: resolved when they are first used.
# No other module of this package names a target.
_XNNPACK = "executorch_py.backends.xnnpack.quantizer"
_HOME = {
    "XNNPACKQuantizer": f"{_XNNPACK}.xnnpack_quantizer",
    "left_float": f"{_XNNPACK}.validate",
}

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


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def _xnnpack_quantizer(config: QuantizationConfig, is_wanted: NodeFilter) -> Quantizer:
    return __getattr__("XNNPACKQuantizer")().set_global(config).set_filter_function(is_wanted)


set_quantizer(_xnnpack_quantizer)

# Functions whose names are former paths of modules, too. Python sets an attribute of the package
# when such a path is first imported, and never again: here, so that the name stays the function.
for _name in ("compare", "report"):
    _function = globals()[_name]
    importlib.import_module(f"{__name__}.{_name}")
    globals()[_name] = _function
