"""Linear layers and embeddings with 4-bit weights, packed as the runtime's kernels read them.

Weights have a scale for each group of a row; rows of the input are quantized to int8 when the model
runs, each with its own scale and zero point (8da4w). The module holds the bytes that the file will
have (csrc/kernels/micro/qgemm/qgemm_groups.h), so that nothing is packed when a program is lowered
or loaded. A weight is read, quantized and packed block by block: beside the packed bytes, no more
than one block is in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from executorch_py.exir.dialects import integer_ops
from executorch_py.exir.dialects.quantized_ops import register_quantized_ops

_LOW, _HIGH = -8, 7
# Terms of a weight that are quantized at once: their numbers in f32 stay in a core's cache.
_BLOCK = 1 << 18


def group_scales(rows: torch.Tensor) -> torch.Tensor:
    """Scales of [columns, groups, terms] in bfloat16, which every code in -8 … 7 can use.

    The largest magnitude of a group gets a code of 7.5, as torchao's symmetric int4 weights. Zeros
    have a scale of 1.
    """
    greatest = rows.abs().amax(-1)
    scales = (greatest / ((_HIGH - _LOW) / 2)).to(torch.bfloat16)
    return torch.where(scales == 0, torch.ones_like(scales), scales)


class PackedRows(torch.nn.Module):
    """The rows of a matrix f32, f16 or bf16 [rows, terms] as codes, and their scaled sums."""

    weight: torch.Tensor
    scales: torch.Tensor
    sums: torch.Tensor

    def __init__(self, matrix: torch.Tensor, group: int) -> None:
        super().__init__()
        n, k = matrix.shape
        if k % group != 0:
            raise ValueError(f"group: expected a divisor of the {k} terms of a row, got {group}")
        self.group, self.n_rows, self.n_terms = group, n, k
        columns = -(-n // integer_ops.PANEL) * integer_ops.PANEL
        steps = k // group * -(-group // integer_ops.STEP)
        weight_bytes = columns * steps * integer_ops.STEP // 2
        self.register_buffer("weight", torch.zeros(weight_bytes, dtype=torch.uint8))
        self.register_buffer("scales", torch.zeros(columns * (k // group), dtype=torch.bfloat16))
        self.register_buffer("sums", torch.zeros(columns))
        with _one_thread():
            for first, rows in _row_blocks(matrix):
                self._pack(first, rows.reshape(rows.shape[0], k // group, group))

    def _pack(self, first: int, rows: torch.Tensor) -> None:
        """Quantizes the rows from `first` on, which is the first one of a panel."""
        scales = group_scales(rows)
        wide = scales.to(torch.float32).unsqueeze(-1)
        codes = (rows / wide).round_().clamp_(_LOW, _HIGH).to(torch.int8)
        totals = codes.sum(-1, dtype=torch.int32).to(torch.float64) * wide.squeeze(-1)
        n_groups = rows.shape[1]
        panel = self.weight.numel() // (self.sums.numel() // integer_ops.PANEL)
        at = first // integer_ops.PANEL
        packed = integer_ops.packed_groups(codes)
        self.weight[at * panel : at * panel + packed.numel()] = packed
        numbers = integer_ops.packed_numbers(scales)
        self.scales[first * n_groups : first * n_groups + numbers.numel()] = numbers
        self.sums[first : first + rows.shape[0]] = totals.sum(-1).to(torch.float32)

    def extra_repr(self) -> str:
        return f"{self.n_rows} x {self.n_terms}, 4 bits in groups of {self.group}"


class QuantizedLinear(torch.nn.Module):
    """y = x · dequantized(weight)ᵀ + bias for x f32 […, in_features]; y f32 […, out_features]."""

    addends: torch.Tensor

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None, group: int) -> None:
        super().__init__()
        self.packed = PackedRows(weight, group)
        addends = torch.zeros_like(self.packed.sums)
        if bias is not None:
            addends[: len(bias)] = bias.to(torch.float32)
        self.register_buffer("addends", addends)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        register_quantized_ops()
        packed = self.packed
        library = torch.ops.quantized_decomposed
        scale, zero_point = library.choose_qparams_per_token_asymmetric(x, torch.int8)
        rows = library.quantize_per_token(x, scale, zero_point, -128, 127, torch.int8)
        result: torch.Tensor = torch.ops.executorch_py.qlinear_groups(
            rows,
            scale,
            zero_point,
            packed.weight,
            packed.scales,
            None,
            None,
            packed.sums,
            self.addends,
            packed.group,
            packed.n_rows,
        )
        return result


class QuantizedEmbedding(torch.nn.Module):
    """Dequantized rows of a table, f32 […, width], for indices i64 […].

    `packed` may be the weight of the model's last linear layer, which is then in the file once.
    """

    def __init__(self, packed: PackedRows, scale: torch.Tensor | None = None) -> None:
        super().__init__()
        self.packed, self.scale = packed, scale

    def forward(self, indices: torch.Tensor) -> torch.Tensor:
        p = self.packed
        rows: torch.Tensor = torch.ops.executorch_py.embedding_groups(
            p.weight, p.scales, None, None, indices, p.group, p.n_terms, p.n_rows
        )
        return rows if self.scale is None else rows * self.scale


@contextmanager
def _one_thread() -> Iterator[None]:
    """Runs torch's operators on the calling thread: other threads take longer to wake than a block
    takes."""
    n = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(n)


def _row_blocks(weight: torch.Tensor) -> Iterator[tuple[int, torch.Tensor]]:
    """Blocks of whole panels of rows in f32, and the first row of each."""
    n, k = weight.shape
    panels = max(1, _BLOCK // (integer_ops.PANEL * k))
    step = panels * integer_ops.PANEL
    for first in range(0, n, step):
        yield first, weight[first : first + step].to(torch.float32)


def quantize_layers(
    model: torch.nn.Module, group: int, keep: tuple[str, ...] = ()
) -> dict[str, str]:
    """Replaces the linear layers and embeddings of a model one by one.

    A layer whose rows are not a multiple of the group, or that `keep` names, stays float. The
    result has the reason of each of these by name. An embedding whose table is also the weight of a
    linear layer shares its packed bytes.
    """
    left: dict[str, str] = {}
    packed: dict[int, PackedRows] = {}  # by the address of the float weight
    for place in _children(model, torch.nn.Linear):
        layer: Any = place.child
        reason = _reason_to_keep(place.name, layer.in_features, group, keep)
        if reason is not None:
            left[place.name] = reason
            continue
        made = QuantizedLinear(layer.weight, layer.bias, group)
        packed[layer.weight.data_ptr()] = made.packed
        place.replace(made)
    for place in _children(model, torch.nn.Embedding):
        table: Any = place.child
        reason = _reason_to_keep(place.name, table.embedding_dim, group, keep)
        if reason is not None:
            left[place.name] = reason
            continue
        rows = packed.get(table.weight.data_ptr()) or PackedRows(table.weight, group)
        place.replace(QuantizedEmbedding(rows, getattr(table, "embed_scale", None)))
    return left


@dataclass(frozen=True)
class _Place:
    """A module of a model, where it is, and its name."""

    name: str
    parent: torch.nn.Module
    attribute: str
    child: torch.nn.Module

    def replace(self, module: torch.nn.Module) -> None:
        setattr(self.parent, self.attribute, module)


def _children(model: torch.nn.Module, kind: type) -> Iterator[_Place]:
    """The modules of a kind. No list of them is kept: a replaced one is freed at once."""
    for name, parent in list(model.named_modules()):
        for attribute in [key for key, child in parent.named_children() if isinstance(child, kind)]:
            full = f"{name}.{attribute}" if name else attribute
            yield _Place(full, parent, attribute, getattr(parent, attribute))


def _reason_to_keep(name: str, n_terms: int, group: int, keep: tuple[str, ...]) -> str | None:
    if name in keep:
        return "as asked"
    if n_terms % group != 0:
        return f"{n_terms} terms of a row are no multiple of {group}"
    return None
