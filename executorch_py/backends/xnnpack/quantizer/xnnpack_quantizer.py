"""The quantizer for XNNPACK at upstream's path; executorch_py.quantizer has it."""

from executorch_py.quantizer.spec import get_symmetric_quantization_config
from executorch_py.quantizer.xnnpack import XNNPACKQuantizer

__all__ = ["XNNPACKQuantizer", "get_symmetric_quantization_config"]
