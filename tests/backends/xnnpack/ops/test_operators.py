"""Delegated operators of several nodes: attention masks, dynamic lengths, bfloat16."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from support.tolerance import BF16_LAYERS, F32_MODEL, assert_near
from support.upstream_peer import Upstream
from support.xnnpack_cases import Call, data, seeded
from torch import Tensor, nn
from torch.export import Dim, export
from torch.nn.functional import scaled_dot_product_attention

from executorch_py.backends.xnnpack import XnnpackPartitioner
from executorch_py.exir import EdgeProgramManager, to_edge_transform_and_lower
from executorch_py.runtime import Runtime


def lowered(function: object, inputs: tuple[Tensor, ...], dynamic: object) -> EdgeProgramManager:
    exported = export(Call(function), inputs, dynamic_shapes=dynamic)  # type: ignore[arg-type]
    return to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()])


def queries(length: int) -> Tensor:
    return data(2, 3, length, 4)


def seen(length: int) -> Tensor:
    """A mask of seen keys: none in the second sequence, the first one in the first."""
    mask = data(2, 1, length, length) > 0
    mask[0, :, :, 0], mask[1, :, 1] = True, False
    return mask


def attend_twice(q: Tensor, mask: Tensor) -> Tensor:
    for _ in range(2):
        q = q + scaled_dot_product_attention(q, q, q, attn_mask=mask)
    return q


def test_queries_that_see_no_key_get_zeros() -> None:
    length = Dim("length", min=3, max=8)
    manager = lowered(attend_twice, (queries(6), seen(6)), (({2: length}, {2: length, 3: length}),))
    assert len(manager.delegation_summary().delegates) == 1
    method = manager.to_executorch()
    for n in (6, 8, 3):
        found = method.run(queries(n), seen(n))
        torch.testing.assert_close(found, attend_twice(queries(n), seen(n)))


def test_a_softmax_over_nothing_is_no_number() -> None:
    def attend(q: Tensor, mask: Tensor) -> Tensor:
        return torch.softmax(q @ q.transpose(-1, -2) + mask, -1) @ q

    inputs = queries(6), torch.zeros(2, 1, 6, 6).masked_fill(~seen(6), -math.inf)
    found = lowered(attend, inputs, None).to_executorch().run(*inputs)
    torch.testing.assert_close(found, attend(*inputs), equal_nan=True)
    assert found.isnan().any()


class Bfloat16Layers(nn.Module):
    """Linear layers and a convolution in bfloat16; upstream's runtime has no such convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.wide, self.gate, self.narrow = nn.Linear(8, 16), nn.Linear(8, 16), nn.Linear(16, 8)
        self.conv = nn.Conv1d(3, 3, 1)

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.relu(self.wide(x)) * torch.sigmoid(self.gate(x))
        return self.conv(torch.tanh(self.narrow(hidden) + x))


@pytest.mark.interop
def test_layers_in_bfloat16_run_on_both_runtimes_if_enabled(
    upstream: Upstream, tmp_path: Path
) -> None:
    module, x = seeded(Bfloat16Layers).bfloat16(), data(2, 3, 8).bfloat16()
    partitioner = XnnpackPartitioner(enable_bf16=True)
    edge = to_edge_transform_and_lower(export(module, (x,)), partitioner=[partitioner])
    left = {r.operator: r.reason for r in edge.delegation_summary().records if r.delegate is None}
    assert left == {"aten::convolution": "'aten_tanh_default' is bfloat16, not float32 or float16"}
    buffer = edge.to_executorch().buffer
    (tmp_path / "bf16.pte").write_bytes(buffer)
    torch.save([(x,)], tmp_path / "bf16.inputs.pt")
    upstream.ask("run_inputs", "bf16", tmp_path)
    ours = Runtime.get().load_program(buffer).load_method("forward").execute([x])
    for found in (ours[0], torch.load(tmp_path / "bf16.pt")[0][0]):
        assert_near(found, module(x), BF16_LAYERS)


class ProductByInput(nn.Module):
    """A product by an input, which is packed into memory that held earlier values."""

    def __init__(self, inner: int, is_transposed: bool) -> None:
        super().__init__()
        self.layer = nn.Linear(64, inner)
        self.is_transposed = is_transposed

    def forward(self, rows: Tensor, columns: Tensor) -> Tensor:
        product = self.layer(torch.relu(rows))
        return torch.mm(product, columns.t() if self.is_transposed else columns)


@pytest.mark.parametrize("is_transposed", [False, True])
@pytest.mark.parametrize("n_columns", [3, 17])
@pytest.mark.parametrize("inner", [1, 6, 7, 8])
def test_a_product_by_an_input_reads_no_earlier_values(
    inner: int, n_columns: int, is_transposed: bool
) -> None:
    model = seeded(lambda: ProductByInput(inner, is_transposed))
    shape = (n_columns, inner) if is_transposed else (inner, n_columns)
    inputs = (data(5, 64), data(*shape))
    edge = to_edge_transform_and_lower(export(model, inputs), partitioner=[XnnpackPartitioner()])
    assert_near(edge.to_executorch().run(*inputs), model(*inputs), F32_MODEL)
