"""Linear layers and embeddings with weights of 4 or 8 bits, packed as the runtime's kernels read
them.

Weights have a scale for each group of a row; rows of the input are quantized to int8 when the model
runs, each with its own scale and zero point (8da4w, 8da8w). The module holds the bytes that the
file will have (csrc/kernels/micro/qgemm/qgemm_groups.h), so that nothing is packed when a program
is lowered or loaded. A weight is read, quantized and packed block by block: beside the packed
bytes, no more than one block is in memory. Quantized weights of a GGUF file keep their codes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from executorch_py.exir.dialects import integer_ops
from executorch_py.extension.llm.checkpoint import CheckpointError
from executorch_py.extension.llm.checkpoint.gguf import Packed
from executorch_py.extension.llm.checkpoint.gguf_codes import codes_of_rows, kind_of, scale_type
from executorch_py.extension.llm.checkpoint.spent_pages import let_go

# Terms of a weight that are quantized at once: their numbers in f32 stay in a core's cache.
_BLOCK = 1 << 18


def group_scales(rows: torch.Tensor, bits: int) -> torch.Tensor:
    """Scales of [columns, groups, terms] in bfloat16, which every code of so many bits can use.

    The largest magnitude of a group gets a code of 7.5 or 127.5, as torchao's symmetric integer
    weights. Zeros have a scale of 1.
    """
    greatest = rows.abs().amax(-1)
    scales = (greatest / ((2**bits - 1) / 2)).to(torch.bfloat16)
    return torch.where(scales == 0, torch.ones_like(scales), scales)


class PackedRows(torch.nn.Module):
    """The rows of a matrix [rows, terms] as codes of 4 or 8 bits, and their dequantized sums.

    Each group of a row has a scale, f32, f16 or bf16, and perhaps a minimum of the same type.
    """

    weight: torch.Tensor
    scales: torch.Tensor
    minimums: torch.Tensor | None
    sums: torch.Tensor

    def __init__(
        self,
        shape: tuple[int, int],
        group: int,
        dtype: torch.dtype = torch.bfloat16,
        bits: int = 4,
        has_minimums: bool = False,
    ) -> None:
        """Rows of zeros, to be filled by _place."""
        super().__init__()
        n, k = shape
        if k % group != 0:
            raise ValueError(f"group: expected a divisor of the {k} terms of a row, got {group}")
        self.group, self.bits, self.n_rows, self.n_terms = group, bits, n, k
        columns = -(-n // integer_ops.PANEL) * integer_ops.PANEL
        n_bytes = columns * (k // group) * -(-group // integer_ops.STEP) * bits
        kind = torch.int8 if bits == 8 else torch.uint8
        self.register_buffer("weight", torch.zeros(n_bytes, dtype=kind))
        self.register_buffer("scales", torch.zeros(columns * (k // group), dtype=dtype))
        self.register_buffer("minimums", torch.zeros_like(self.scales) if has_minimums else None)
        self.register_buffer("sums", torch.zeros(columns))

    @classmethod
    def quantized(cls, matrix: torch.Tensor, group: int, bits: int = 4) -> PackedRows:
        """Rows f32, f16 or bf16 in codes of 4 or 8 bits."""
        n, k = matrix.shape
        limit = 2 ** (bits - 1)
        packed = cls((n, k), group, bits=bits)
        with one_thread():
            for first, last in _row_blocks(n, k):
                rows = matrix[first:last].to(torch.float32).reshape(last - first, -1, group)
                scales = group_scales(rows, bits)
                codes = (rows / scales.to(torch.float32).unsqueeze(-1)).round_()
                packed._place(first, codes.clamp_(-limit, limit - 1).to(torch.int8), scales)
        return packed

    @classmethod
    def from_codes(cls, codes: torch.Tensor, scales: torch.Tensor, bits: int) -> PackedRows:
        """Rows of codes int8 [rows, terms] with scales [rows, groups] of bfloat16 numbers."""
        n, k = codes.shape
        packed = cls((n, k), k // scales.shape[1], bits=bits)
        packed._place(0, codes.unflatten(1, (scales.shape[1], -1)), scales.to(torch.bfloat16))
        return packed

    @classmethod
    def from_gguf(cls, tensor: Packed) -> PackedRows:
        """Rows of a file with its codes, of 4 or 8 bits, scales and minimums (gguf_codes.py)."""
        kind, dtype = kind_of(tensor), scale_type(tensor)
        n, k = tensor.shape
        packed = cls((n, k), kind.group, dtype, kind.bits, kind.has_minimums)
        with one_thread():
            for first, last in _row_blocks(n, k):
                codes = codes_of_rows(tensor, first, last)
                shape = (last - first, k // kind.group)
                least = None if codes.minimums is None else codes.minimums.reshape(shape).to(dtype)
                numbers = codes.numbers.reshape(*shape, kind.group)
                packed._place(first, numbers, codes.scales.reshape(shape).to(dtype), least)
        return packed

    def _place(
        self,
        first: int,
        numbers: torch.Tensor,
        scales: torch.Tensor,
        minimums: torch.Tensor | None = None,
    ) -> None:
        """Packs rows [rows, groups, terms] from `first` on, which is the first one of a panel."""
        n, n_groups, group = numbers.shape
        totals = numbers.sum(-1, dtype=torch.int32).to(torch.float64) * scales.to(torch.float32)
        if minimums is not None:
            totals += minimums.to(torch.float64) * group
        codes = numbers - 8 if minimums is not None and self.bits == 4 else numbers
        packed = integer_ops.packed_groups(codes, self.bits)
        at = first * n_groups * -(-group // integer_ops.STEP) * self.bits
        self.weight[at : at + packed.numel()] = packed
        for whole, part in ((self.scales, scales), (self.minimums, minimums)):
            if whole is not None and part is not None:
                ordered = integer_ops.packed_numbers(part)
                whole[first * n_groups : first * n_groups + ordered.numel()] = ordered
        self.sums[first : first + n] = totals.sum(-1).to(torch.float32)

    @property
    def kind(self) -> str:
        """Bits and groups, in words."""
        with_minimums = "" if self.minimums is None else " with minimums"
        return f"{self.bits} bits in groups of {self.group}{with_minimums}"

    def extra_repr(self) -> str:
        return f"{self.n_rows} x {self.n_terms}, {self.kind}"


class QuantizedLinear(torch.nn.Module):
    """y = x · dequantized(weight)ᵀ + bias for x f32 […, in_features]; y f32 […, out_features]."""

    addends: torch.Tensor

    def __init__(self, packed: PackedRows, bias: torch.Tensor | None) -> None:
        super().__init__()
        self.packed = packed
        addends = torch.zeros_like(self.packed.sums)
        if bias is not None:
            addends[: len(bias)] = bias.to(torch.float32)
        self.register_buffer("addends", addends)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        packed = self.packed
        result: torch.Tensor = torch.ops.executorch_py.qlinear_groups(
            x,
            None,
            None,
            packed.weight,
            packed.scales,
            None,
            packed.minimums,
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
            p.weight, p.scales, None, p.minimums, indices, p.group, p.n_terms, p.n_rows
        )
        return rows if self.scale is None else rows * self.scale


@contextmanager
def one_thread() -> Iterator[None]:
    """Runs torch's operators on the calling thread: other threads take longer to wake than a block
    takes."""
    n = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(n)


def _row_blocks(n: int, k: int) -> Iterator[tuple[int, int]]:
    """Blocks of whole panels of n rows of k terms: their first rows, and the rows after them."""
    step = max(1, _BLOCK // (integer_ops.PANEL * max(k, 1))) * integer_ops.PANEL
    for first in range(0, n, step):
        yield first, min(first + step, n)


def quantize_layers(
    model: torch.nn.Module,
    group: int,
    keep: Collection[str] = (),
    codes: Mapping[str, Packed] | None = None,
    bits: int = 4,
) -> dict[str, str]:
    """Replaces the linear layers and embeddings of a model one by one, with codes of 4 or 8 bits.

    A group of 0 is a whole row. A layer whose rows are not a multiple of the group, or that `keep`
    names, stays float. The result has the reason of each of these by name. A weight in `codes`, by
    its parameter's name, is packed from these codes, whatever the parameter holds. An embedding
    whose table is also the weight of a linear layer shares its packed bytes. CheckpointError names
    a parameter with NaN or infinity.
    """
    left: dict[str, str] = {}
    packed: dict[int, PackedRows] = {}  # by the address of the float weight
    for place in children_of(model, torch.nn.Linear):
        layer: Any = place.child
        tensor = (codes or {}).get(f"{place.name}.weight")
        reason = reason_to_keep(place, layer.in_features, group, keep, tensor)
        if reason is not None:
            left[place.name] = reason
            continue
        made = QuantizedLinear(_packed(place.name, layer.weight, group, bits, tensor), layer.bias)
        check_finite(f"{place.name}.bias", made.addends)
        packed[layer.weight.data_ptr()] = made.packed
        place.replace(made)
        let_go(layer.weight if tensor is None else tensor.data)
    for place in children_of(model, torch.nn.Embedding):
        table: Any = place.child
        tensor = (codes or {}).get(f"{place.name}.weight")
        reason = reason_to_keep(place, table.embedding_dim, group, keep, tensor)
        if reason is not None:
            left[place.name] = reason
            continue
        rows = packed.get(table.weight.data_ptr())
        rows = rows or _packed(place.name, table.weight, group, bits, tensor)
        place.replace(QuantizedEmbedding(rows, getattr(table, "embed_scale", None)))
        let_go(table.weight if tensor is None else tensor.data)
    return left


def _packed(
    name: str, weight: torch.Tensor, group: int, bits: int, tensor: Packed | None
) -> PackedRows:
    """The packed rows of a layer's weight, or of the codes that a file has for it."""
    if tensor is None:
        rows = PackedRows.quantized(weight, group or weight.shape[1], bits)
    else:
        rows = PackedRows.from_gguf(tensor)
    check_finite(f"{name}.weight", rows.sums)  # of all numbers
    return rows


def check_finite(name: str, numbers: torch.Tensor) -> None:
    """CheckpointError for a parameter whose numbers, or the sums of them, are not finite."""
    if not bool(numbers.isfinite().all()):
        raise CheckpointError(f"{name}: expected finite numbers, got NaN or infinity")


@dataclass(frozen=True)
class Place:
    """A module of a model, where it is, and its name."""

    name: str
    parent: torch.nn.Module
    attribute: str
    child: torch.nn.Module

    def replace(self, module: torch.nn.Module) -> None:
        setattr(self.parent, self.attribute, module)


def children_of(model: torch.nn.Module, kind: type) -> Iterator[Place]:
    """The modules of a kind. No list of them is kept: a replaced one is freed at once."""
    for name, parent in list(model.named_modules()):
        for attribute in [key for key, child in parent.named_children() if isinstance(child, kind)]:
            full = f"{name}.{attribute}" if name else attribute
            yield Place(full, parent, attribute, getattr(parent, attribute))


def reason_to_keep(
    place: Place, n_terms: int, group: int, keep: Collection[str], tensor: Packed | None = None
) -> str | None:
    """Why a layer with rows of `n_terms` stays float: `keep` names it, or its rows have no groups.

    A layer with codes of a file, in `tensor`, has groups of its own.
    """
    if place.name in keep:
        return keep[place.name] if isinstance(keep, Mapping) else "as asked"
    kind = type(place.child)
    base = torch.nn.Linear if isinstance(place.child, torch.nn.Linear) else torch.nn.Embedding
    if kind.forward is not base.forward and not hasattr(place.child, "embed_scale"):
        return f"{kind.__name__} computes more than {base.__name__}"
    if tensor is None and group and n_terms % group != 0:
        return f"{n_terms} terms of a row are no multiple of {group}"
    return None
