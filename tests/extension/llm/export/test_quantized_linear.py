"""Weights in packed layers: those of GGUF files have exactly the file's values, in eager torch and
in programs that this project's runtime runs; those of float layers are near.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType as Kind
from support.tolerance import F32_GROUPWISE, assert_near

from executorch_py.exir import ExecutorchBackendConfig, to_edge
from executorch_py.extension.llm.checkpoint.gguf import Packed, open_gguf
from executorch_py.extension.llm.checkpoint.gguf_blocks import BLOCKS, values_of
from executorch_py.extension.llm.checkpoint.gguf_codes import has_codes
from executorch_py.extension.llm.export.quantized_linear import (
    PackedRows,
    QuantizedEmbedding,
    QuantizedLinear,
    quantize_layers,
)
from executorch_py.runtime import Runtime

KINDS = {
    "Q4_0": Kind.Q4_0,
    "Q4_1": Kind.Q4_1,
    "Q5_0": Kind.Q5_0,
    "Q5_1": Kind.Q5_1,
    "Q8_0": Kind.Q8_0,
}
# Types whose scales are products: their number in a file, and where a block has f16 numbers.
PRODUCTS = {"Q4_K": (12, (0, 2)), "Q5_K": (13, (0, 2)), "Q6_K": (14, (208,))}
SIZES = [(40, 64), (16, 32), (1, 96), (67, 256)]


def matrix(path: Path, kind: str, rows: int, terms: int) -> Packed:
    """A matrix of a file: the second row is tiny, so that its scales are subnormals."""
    values = np.random.default_rng(rows).standard_normal((rows, terms)).astype(np.float32)
    values[1:2] *= 1e-6
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tensor("a", gguf.quants.quantize(values, KINDS[kind]), raw_dtype=KINDS[kind])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return open_gguf(path).packed["a"]


def values(packed: Packed) -> torch.Tensor:
    return values_of(packed.block, packed.data, packed.shape)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("rows", "terms"), SIZES)
def test_rows_of_a_gguf_file_are_packed_without_loss(
    tmp_path: Path, kind: str, rows: int, terms: int
) -> None:
    packed = matrix(tmp_path / "a.gguf", kind, rows, terms)
    assert has_codes(packed)
    made = PackedRows.from_gguf(packed)
    assert torch.equal(QuantizedEmbedding(made)(torch.arange(rows)), values(packed))
    sums = values(packed).double().sum(-1)
    assert_near(made.sums[:rows], sums.to(torch.float32), F32_GROUPWISE)


def random_products(kind: str, greatest: float) -> Packed:
    """A matrix of random codes, whose f16 numbers are up to `greatest`."""
    number, halves = PRODUCTS[kind]
    block, generator = BLOCKS[number], np.random.default_rng(number)
    data = generator.integers(0, 256, (40 * 2, block.n_bytes), dtype=np.uint8)
    for at in halves:
        d = generator.uniform(-greatest, greatest, (len(data), 1)).astype(np.float16)
        data[:, at : at + 2] = d.view(np.uint8)
    return Packed(block, (40, 512), torch.from_numpy(data).reshape(-1))


@pytest.mark.parametrize("kind", PRODUCTS)
def test_scales_that_are_products_are_rounded_to_f16_where_that_loses_little(kind: str) -> None:
    packed = random_products(kind, 0.1)
    if kind != "Q6_K":  # a product of 1 and the least number is not subnormal, one of 0 is exact
        packed.data.reshape(-1, packed.block.n_bytes)[:, :4] |= 16
    made = PackedRows.from_gguf(packed)
    assert made.scales.dtype == torch.float16 or float(made.scales.abs().min()) < 2**-14
    codes = packed.block.codes(packed.data.reshape(-1, packed.block.n_bytes))
    largest = codes.numbers.abs().to(torch.float32) * codes.scales.abs().unsqueeze(2)
    if codes.minimums is not None:
        largest = largest + codes.minimums.abs().unsqueeze(2)
    off = QuantizedEmbedding(made)(torch.arange(40)) - values(packed)
    assert (off.abs() <= largest.reshape(40, 512) * 2**-11).all()


@pytest.mark.parametrize("kind", PRODUCTS)
@pytest.mark.parametrize("greatest", [1e-6, 6e4])
def test_scales_that_are_products_stay_f32_where_f16_would_lose_them(
    kind: str, greatest: float
) -> None:
    packed = random_products(kind, greatest)
    made = PackedRows.from_gguf(packed)
    assert made.scales.dtype == torch.float32
    assert torch.equal(QuantizedEmbedding(made)(torch.arange(40)), values(packed))


def test_blocks_of_rows_are_packed_one_after_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from executorch_py.extension.llm.export import quantized_linear

    monkeypatch.setattr(quantized_linear, "_BLOCK", 2048)
    for kind in KINDS:
        packed = matrix(tmp_path / "a.gguf", kind, 67, 64)
        rows = QuantizedEmbedding(PackedRows.from_gguf(packed))(torch.arange(67))
        assert torch.equal(rows, values(packed))


class Ends(torch.nn.Module):
    """An embedding and a linear layer that share a table."""

    def __init__(self, packed: Packed) -> None:
        super().__init__()
        made = PackedRows.from_gguf(packed)
        self.table = QuantizedEmbedding(made)
        self.head = QuantizedLinear(made, torch.linspace(-1, 1, made.n_rows))

    def forward(self, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        rows = self.table(ids)
        return rows, self.head(rows)


@pytest.mark.parametrize("kind", [*KINDS, *PRODUCTS])
def test_programs_have_the_file_s_values(tmp_path: Path, kind: str) -> None:
    if kind in KINDS:
        packed = matrix(tmp_path / "a.gguf", kind, 67, 256)
    else:
        packed = random_products(kind, 1e-6)
    model, ids = Ends(packed).eval(), torch.tensor([[0, 1, 39, 17, 3]])
    edge = to_edge(torch.export.export(model, (ids,), strict=False))
    program = edge.to_executorch(ExecutorchBackendConfig(own_operators=True))
    method = Runtime.get().load_program(program.buffer).load_method("forward")
    assert method is not None
    got: list[Any] = method.execute((ids,))
    wanted = model(ids)
    assert torch.equal(torch.as_tensor(got[0]), values(packed)[ids])
    assert torch.equal(torch.as_tensor(got[1]), wanted[1])


def test_other_tensors_are_refused_by_their_type_and_shape() -> None:
    data = torch.zeros(1024, dtype=torch.uint8)
    with pytest.raises(ValueError, match=r"of type Q4_0, .* Q6_K, got F32 of shape \[1, 256\]"):
        PackedRows.from_gguf(Packed(BLOCKS[0], (1, 256), data))
    with pytest.raises(ValueError, match=r"got Q8_0 of shape \[32\]"):
        PackedRows.from_gguf(Packed(BLOCKS[8], (32,), data[:34]))


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_float_rows_are_within_half_a_step(bits: int, dtype: torch.dtype) -> None:
    rows = torch.randn(37, 128, generator=torch.Generator().manual_seed(bits)).to(dtype)
    rows[3] = 0
    got = QuantizedEmbedding(PackedRows.quantized(rows, 32, bits))(torch.arange(37))
    groups = rows.float().reshape(37, 4, 32)
    step = groups.abs().amax(-1, keepdim=True) / ((2**bits - 1) / 2)
    off = (got.reshape(37, 4, 32) - groups).abs()
    assert (off <= step * (0.5 + 2**bits * 2**-9)).all()  # scales are rounded to bfloat16


def test_layers_may_have_8_bits() -> None:
    x = torch.randn(5, 64, generator=torch.Generator().manual_seed(0))
    errors = []
    for bits in (4, 8):
        layer = torch.nn.Linear(64, 40)
        torch.nn.init.orthogonal_(layer.weight, generator=torch.Generator().manual_seed(1))
        model = torch.nn.Sequential(layer)
        wanted = model(x)
        assert quantize_layers(model, 32, bits=bits) == {}
        errors.append((model(x) - wanted).abs().max().item())
    assert errors[1] * 2 < errors[0]
