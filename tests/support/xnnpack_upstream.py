"""The upstream process of test_upstream_payloads.py, run by .venv-upstream's Python.

  python xnnpack_upstream.py FOLDER [NAME…]

Exports the cases with upstream's partitioner to FOLDER/NAME.pte, with the first delegate's payload
(some of which are tests/golden/xnnpack). NAME.pt is a list with an entry per set of inputs: results
of eager torch and of upstream's runtime. A case that upstream cannot export leaves its reason in
NAME.txt.
"""

from __future__ import annotations

import logging
import struct
import sys
import traceback
import warnings
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
from executorch.backends.xnnpack.partition.config.xnnpack_config import ConfigPrecisionType
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
    XNNPACKQuantizer,
    get_symmetric_quantization_config,
)
from executorch.exir import to_edge_transform_and_lower
from executorch.extension.pybindings.portable_lib import _load_for_executorch_from_buffer
from torch.utils import _pytree as pytree
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

from support.xnnpack_payload_cases import CASES, Case, Inputs

warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)


def quantized(case: Case, model: Any, inputs: Inputs, shapes: Any) -> Any:
    if case.quantize.startswith("int4"):
        from torchao.quantization import Int8DynamicActivationIntxWeightConfig, quantize_
        from torchao.quantization.granularity import PerAxis, PerGroup

        granularity = PerGroup(32) if case.quantize == "int4 group" else PerAxis(0)
        quantize_(
            model,
            Int8DynamicActivationIntxWeightConfig(
                weight_dtype=torch.int4, weight_granularity=granularity
            ),
        )
        return model
    if case.quantize:
        config = get_symmetric_quantization_config(
            is_per_channel=case.quantize != "tensor", is_dynamic=case.quantize == "dynamic"
        )
        traced = torch.export.export(model, inputs, dynamic_shapes=shapes, strict=True).module()
        prepared = prepare_pt2e(traced, XNNPACKQuantizer().set_global(config))
        prepared(*inputs)
        return convert_pt2e(prepared)
    return model


def partitioners(case: Case) -> list[Any]:
    if case.dtype == torch.bfloat16:
        return [XnnpackPartitioner(enable_bf16=True)]
    if case.quantize == "dynamic" or case.quantize.startswith("int4"):
        dynamic = ConfigPrecisionType.DYNAMIC_QUANT
        return [
            XnnpackPartitioner(config_precisions=dynamic, per_op_mode=True),
            XnnpackPartitioner(),
        ]
    return [XnnpackPartitioner()]


def payloads(program: bytes) -> list[bytes]:
    """The delegate payloads of a program, found by their headers."""
    found, at = [], program.find(b"XH00") - 4
    while at >= 0:
        data_at, data_bytes = struct.unpack_from("<IQ", program, at + 18)
        found.append(program[at : at + data_at + data_bytes])
        at = program.find(b"XH00", at + data_at) - 4
    return found


def dynamic_shapes(case: Case) -> Any:
    if not case.dynamic:
        return None
    sizes = {
        d: torch.export.Dim(f"d{d}", min=1, max=largest) for d, largest in case.dynamic.items()
    }
    return (sizes,)


def write(case: Case, folder: Path) -> None:
    sets = case.all_inputs()
    shapes = dynamic_shapes(case)
    model = quantized(case, case.module(), sets[0], shapes)
    exported = torch.export.export(model, sets[0], dynamic_shapes=shapes, strict=False)
    program = to_edge_transform_and_lower(exported, partitioner=partitioners(case)).to_executorch()
    results = []
    with torch.no_grad():
        for inputs in sets:
            eager = list(pytree.tree_leaves(model(*inputs)))
            module = _load_for_executorch_from_buffer(program.buffer)
            results.append((eager, list(module.run_method("forward", inputs, clone_outputs=True))))
    torch.save(results, folder / f"{case.name}.pt")
    (folder / f"{case.name}.pte").write_bytes(program.buffer)
    for payload in payloads(program.buffer)[:1]:
        (folder / f"{case.name}.payload").write_bytes(payload)


def main(folder: Path, names: list[str]) -> None:
    for name in names or list(CASES):
        try:
            write(CASES[name], folder)
        except Exception:
            (folder / f"{name}.txt").write_text(traceback.format_exc())


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
