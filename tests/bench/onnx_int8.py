"""A model as ONNX with its quantization written out (QDQ), by ONNX Runtime's own tools."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import torch
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_static,
)
from onnxruntime.quantization.shape_inference import quant_pre_process
from subjects import MODELS, calibration_data


class Data(CalibrationDataReader):  # type: ignore[misc]
    def __init__(self, model: str, names: list[str]) -> None:
        self.samples = iter(calibration_data(model))
        self.names = names

    def get_next(self) -> dict[str, Any] | None:
        sample = next(self.samples, None)
        if sample is None:
            return None
        return {name: value.numpy() for name, value in zip(self.names, sample, strict=True)}


def write(model: str, path: str) -> None:
    import onnx

    build, inputs = MODELS[model]
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        plain, ready = Path(folder) / "model.onnx", Path(folder) / "ready.onnx"
        torch.onnx.export(build().eval(), inputs(), plain, dynamo=True, verbose=False)
        quant_pre_process(plain, ready)
        names = [entry.name for entry in onnx.load(ready, load_external_data=False).graph.input]
        quantize_static(
            ready,
            path,
            Data(model, names),
            quant_format=QuantFormat.QDQ,
            per_channel=True,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
        )
