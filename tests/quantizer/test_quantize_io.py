"""Programs with integer inputs and outputs, delegated or not, and their constant methods."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.export import ExportedProgram

from executorch_py.backends.xnnpack import XnnpackPartitioner
from executorch_py.exir import to_edge_transform_and_lower
from executorch_py.quantizer import (
    XNNPACKQuantizer,
    calibrate,
    convert_pt2e,
    get_symmetric_quantization_config,
    prepare_pt2e,
    quantize_io,
)
from executorch_py.runtime import Runtime

STATIC = get_symmetric_quantization_config(is_per_channel=True)


class Net(nn.Module):
    """An input of two readers, an index input, an output with readers, and a float output."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.line = nn.Conv2d(3, 3, 3, padding=1), nn.Linear(6, 4)

    def forward(self, x: torch.Tensor, i: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = self.conv(x) + x
        z = self.line(y)
        return y, z, z.softmax(-1)[i]


X = torch.randn(2, 3, 5, 6, generator=torch.Generator().manual_seed(0))
INDICES = torch.tensor([1, 0])


@pytest.fixture(scope="module")
def program() -> ExportedProgram:
    batch = ({0: torch.export.Dim("batch", min=1, max=4)}, None)
    exported = torch.export.export(Net().eval(), (X, INDICES), dynamic_shapes=batch)
    prepared = prepare_pt2e(exported.module(), XNNPACKQuantizer().set_global(STATIC))
    calibrate(prepared, [(X, INDICES), (X / 2, INDICES)])
    return torch.export.export(convert_pt2e(prepared), (X, INDICES), dynamic_shapes=batch)


@pytest.mark.parametrize("partitioner", [None, XnnpackPartitioner()], ids=["plain", "delegated"])
def test_integers_go_in_and_out(
    program: ExportedProgram, partitioner: XnnpackPartitioner | None
) -> None:
    io = quantize_io(program, outputs=[0, 1])
    edge = to_edge_transform_and_lower(
        io.program,
        partitioner=[partitioner] if partitioner else None,
        constant_methods=io.constant_methods,
    )
    loaded = Runtime.get().load_program(edge.to_executorch().buffer)

    def parameter(name: str) -> float:
        (value,) = loaded.load_method(f"forward_{name}").execute([])
        return float(value)

    x = X[:1] * 0.9
    codes = torch.round(x / parameter("input0_scale")) + parameter("input0_zp")
    limits = parameter("input0_quant_min"), parameter("input0_quant_max")
    codes = codes.clamp(*limits).to(torch.int8)
    found = loaded.load_method("forward").execute([codes, INDICES * 0])
    wanted = program.module()(x, INDICES * 0)
    assert [torch.as_tensor(t).dtype for t in found] == [torch.int8, torch.int8, torch.float32]
    for i in range(2):
        scale, zero_point = parameter(f"output{i}_scale"), parameter(f"output{i}_zp")
        real = (torch.as_tensor(found[i]).float() - zero_point) * scale
        assert (real - wanted[i]).abs().max() <= 1.01 * scale
    assert parameter("input0_dtype") == 1  # ScalarType.CHAR


def test_the_given_program_is_not_changed(program: ExportedProgram) -> None:
    before = str(program)
    quantize_io(program, outputs=[0])
    assert str(program) == before


def test_what_is_not_quantized_first_of_all_is_refused_by_name(program: ExportedProgram) -> None:
    with pytest.raises(
        ValueError, match=r"output 2: expected dequantize_per_tensor .*, got aten\.index.*\nChoose"
    ):
        quantize_io(program)
    with pytest.raises(ValueError, match=r"input 1 \('i'\): expected one .*, got .*aten.index.*"):
        quantize_io(program, inputs=[1], outputs=[])
    with pytest.raises(ValueError, match=r"output_index: .* less than 3, got 7"):
        quantize_io(program, inputs=[], outputs=[7])


def test_without_positions_nothing_changes(program: ExportedProgram) -> None:
    io = quantize_io(program, inputs=[], outputs=[])
    assert io.constant_methods == {} and str(io.program) == str(program)


def test_a_model_that_was_not_exported_is_refused(program: ExportedProgram) -> None:
    with pytest.raises(TypeError, match=r"expected torch\.export\.export.* got a GraphModule"):
        quantize_io(program.module())  # type: ignore[arg-type]
