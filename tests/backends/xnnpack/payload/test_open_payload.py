"""Payloads with results for their quantized values run, and give the same results as before."""

from __future__ import annotations

import torch
from support.quantized_models import SmallNet, mlp, quantized
from torch import nn

from executorch_py.backends.xnnpack import XnnpackPartitioner
from executorch_py.backends.xnnpack.payload.open_payload import opened
from executorch_py.backends.xnnpack.payload.payload_flatbuffer import (
    EXTERNAL_OUTPUT,
    Datatype,
    read_payload,
)
from executorch_py.exir import to_edge_transform_and_lower
from executorch_py.exir.program.executorch import ExecutorchProgramManager
from executorch_py.exir.schema import ScalarType
from executorch_py.exir.serialize import deserialize_pte_binary
from executorch_py.testing.file_values import TracedFile


def lowered(model: nn.Module, x: torch.Tensor) -> ExecutorchProgramManager:
    with torch.no_grad():
        exported = torch.export.export(model, (x,))
    return to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()]).to_executorch()


def payload_of(program: ExecutorchProgramManager) -> bytes:
    (data,) = deserialize_pte_binary(program.buffer).program.backend_delegate_data
    return bytes(data.data)


def test_quantized_values_become_results_behind_the_others() -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 3, 16, 16)
    payload = payload_of(lowered(quantized(SmallNet(), (x,)), x))
    before, found = read_payload(payload), opened(payload)
    after = read_payload(found.payload)
    assert found.n_inputs == 1 and len(found.values) > 3
    assert {v.scalar_type for v in found.values} == {ScalarType.CHAR}
    assert all(v.grid is not None and v.grid[0] > 0 for v in found.values)
    assert after.num_externs == before.num_externs + len(found.values)
    results = [v.tensor for v in after.xvalues if v.tensor.flags & EXTERNAL_OUTPUT]
    assert sorted(t.external_id for t in results) == list(range(1, after.num_externs))
    assert {t.datatype for t in results[:-1]} <= {Datatype.QINT8, Datatype.FP32}


def test_floats_become_results_where_integers_stay_inside() -> None:
    torch.manual_seed(0)
    x = torch.randn(3, 16)
    model = quantized(mlp(), (x,), is_per_channel=True, is_dynamic=True)
    found = opened(payload_of(lowered(model, x)))
    assert {v.scalar_type for v in found.values} == {ScalarType.FLOAT}


def test_a_file_shows_its_quantized_values() -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 3, 16, 16)
    program = lowered(quantized(SmallNet(), (x,)), x)
    values = TracedFile(program, "forward").values([x])
    assert values.is_exact
    quantized_input = next(v for v in values.tensors if v.tensor.dtype == torch.int8)
    assert quantized_input.grid is not None
    scale, zero = quantized_input.grid
    wanted = ((x / scale).round() + zero).clamp(-128, 127).to(torch.int8)
    assert torch.equal(quantized_input.tensor, wanted)
    result = program.run(x)
    assert any(
        torch.equal(v.tensor, result) for v in values.tensors if v.tensor.is_floating_point()
    )
