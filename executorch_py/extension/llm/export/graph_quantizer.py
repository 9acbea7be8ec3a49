"""The quantizers of captured graphs (PT2E) that export_llm's configuration names.

    xnnpack_dynamic      linear layers with weights of 8 bits, a scale for each row
    xnnpack_dynamic_qc4  with weights of 4 bits

Rows of activations are quantized to 8 bits when they come, as by quantization.qmode=8da4w.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.export import ExportedProgram
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

from executorch_py.backends.xnnpack.quantizer.xnnpack_quantizer import (
    XNNPACKQuantizer,
    get_symmetric_quantization_config,
)
from executorch_py.extension.llm.export.config.llm_config import Pt2eQuantize

_RANGES = {
    Pt2eQuantize.xnnpack_dynamic: (-127, 127),
    Pt2eQuantize.xnnpack_dynamic_qc4: (-8, 7),
}

Capture = Callable[[torch.nn.Module], ExportedProgram]


def quantize_graph(
    exported: ExportedProgram, chosen: Pt2eQuantize, example: Sequence[Any], capture: Capture
) -> ExportedProgram:
    """The graph with quantized linear layers, captured again as it was the first time."""
    low, high = _RANGES[chosen]
    numbers = get_symmetric_quantization_config(
        is_per_channel=True, is_dynamic=True, weight_qmin=low, weight_qmax=high
    )
    prepared = prepare_pt2e(exported.module(), XNNPACKQuantizer().set_global(numbers))
    prepared(*example)  # observers of weights see them; activations have no range to find
    return capture(convert_pt2e(prepared))
