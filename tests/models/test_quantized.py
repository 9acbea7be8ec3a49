"""Quantized models on the portable kernels, against the converted modules in eager torch.

Outputs differ by at most one quantization step, and the file has the quantized weights.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from support.quantized_models import SmallNet, mlp, quantized
from support.tolerance import EXACT, assert_near
from torch import nn

from executorch_py.exir import ExecutorchProgramManager, to_edge
from executorch_py.exir.dialects.quantized_ops import register_quantized_ops
from executorch_py.exir.schema import ScalarType, Tensor
from executorch_py.runtime import Runtime

CHANNELS_LAST = torch.channels_last
MODELS: dict[str, tuple[Any, torch.Tensor, dict[str, bool]]] = {
    "net, one scale a tensor": (SmallNet, torch.randn(2, 3, 16, 16), {}),
    "net, one scale a channel": (SmallNet, torch.randn(2, 3, 16, 16), {"is_per_channel": True}),
    "net, channels last": (
        lambda: SmallNet().to(memory_format=CHANNELS_LAST),
        torch.randn(2, 3, 16, 16).to(memory_format=CHANNELS_LAST),
        {"is_per_channel": True},
    ),
    "linear, static": (mlp, torch.randn(3, 16), {}),
    "linear, dynamic": (mlp, torch.randn(3, 16), {"is_per_channel": True, "is_dynamic": True}),
}


def lower(model: nn.Module, inputs: tuple[torch.Tensor, ...]) -> ExecutorchProgramManager:
    with torch.no_grad():
        return to_edge(torch.export.export(model, inputs)).to_executorch()


def run(program: ExecutorchProgramManager, *inputs: torch.Tensor) -> torch.Tensor:
    method = Runtime.get().load_program(program.buffer).load_method("forward")
    result: torch.Tensor = method.execute(list(inputs))[0]
    return result


def last_scale(program: ExecutorchProgramManager) -> float:
    """The quantization step of the output; 0 if the output is not quantized."""
    for node in reversed(program.exported_program().graph.nodes):
        if "dequantize_per_tensor" in str(node.target):
            return float(node.args[1]) if isinstance(node.args[1], float) else 0.0
    return 0.0


def constants(program: ExecutorchProgramManager) -> list[tuple[ScalarType, int]]:
    """Element type and number of elements of every constant in the file."""
    tensors = [v.val for v in program.executorch_program.execution_plan[0].values]
    return [
        (t.scalar_type, math.prod(t.sizes))
        for t in tensors
        if isinstance(t, Tensor) and t.data_buffer_idx > 0
    ]


@pytest.mark.parametrize("name", MODELS)
def test_a_quantized_model_equals_the_converted_module(name: str) -> None:
    build, x, settings = MODELS[name]
    torch.manual_seed(0)
    model = quantized(build(), (x,), **settings)
    program = lower(model, (x,))
    with torch.no_grad():
        expected = model(x)
    difference = (run(program, x) - expected).abs().max().item()
    assert difference <= 1.01 * last_scale(program) + 1e-6
    assert {dtype for dtype, size in constants(program) if size > 32} == {ScalarType.CHAR}


def test_the_batch_of_a_quantized_model_may_vary() -> None:
    torch.manual_seed(0)
    shapes = ({0: torch.export.Dim("n", min=2, max=8)},)
    x = torch.randn(3, 3, 16, 16)
    model = quantized(SmallNet(), (x,), dynamic_shapes=shapes, is_per_channel=True)
    with torch.no_grad():
        exported = torch.export.export(model, (x,), dynamic_shapes=shapes)
        program = to_edge(exported).to_executorch()
        for n in (2, 8, 5):
            x = torch.randn(n, 3, 16, 16)
            assert_near(run(program, x), model(x), EXACT)


class Tables(nn.Module):
    """Embeddings of 8, 4 and 2 bits, and a product with 8-bit weights."""

    def __init__(self) -> None:
        super().__init__()
        codes = torch.randint(0, 256, (10, 16), dtype=torch.uint8)
        self.register_buffer("codes", codes)
        self.register_buffer("signed", codes.view(torch.int8))
        self.register_buffer("scales", torch.rand(10, 2) + 0.1)
        self.register_buffer("zeros", torch.randint(-3, 3, (10, 2)).float())

    def forward(self, index: torch.Tensor, x: torch.Tensor) -> Any:
        q = torch.ops.quantized_decomposed
        numbers = (self.scales, self.zeros)
        return (
            q.embedding_byte(self.signed, *numbers, -128, 127, index),
            q.embedding_4bit(self.codes, self.scales, None, -8, 7, index),
            q.embedding_2bit(self.codes, *numbers, -2, 1, index),
            q.embedding_4bit.dtype(self.codes, *numbers, -8, 7, index, dtype=torch.float16),
            q.mixed_linear(x, self.signed, self.scales[:, 0].clone(), None),
            q.mixed_mm(x, self.signed.t().contiguous(), self.scales.view(-1)[:16].clone(), None),
            q.add(self.codes, 0.1, 3, 0, 255, self.codes, 0.2, 1, 0, 255, 0.3, 2, 0, 255),
        )


def test_operators_on_packed_weights_are_exported_and_equal_eager() -> None:
    torch.manual_seed(0)
    register_quantized_ops()
    model, inputs = Tables(), (torch.tensor([[1, 9], [0, 3]]), torch.randn(2, 16))
    program = lower(model, inputs)
    found = Runtime.get().load_program(program.buffer).load_method("forward").execute(inputs)
    torch.testing.assert_close(tuple(found), model(*inputs))
