"""Low-bit constants: stored integers, and the parameters that dequantize them.

Knows the operators of `quantized_decomposed` and torchao that dequantize weights by tensors, rows
or blocks; relies on `meta["val"]`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import fx

from executorch_py.exir.ir.match import argument
from executorch_py.exir.ir.op_traits import op_key

PER_TENSOR = "quantized_decomposed::dequantize_per_tensor"
PER_CHANNEL = "quantized_decomposed::dequantize_per_channel"
PER_GROUP = "quantized_decomposed::dequantize_per_channel_group"
AFFINE = "torchao::dequantize_affine"


@dataclass(frozen=True)
class Integers:
    """A constant of integers; `scales` and `zeros` have an entry per block of sizes `block`."""

    name: str
    values: torch.Tensor
    block: tuple[int, ...]
    scales: torch.Tensor
    zeros: torch.Tensor | None
    low: int
    high: int

    @property
    def is_table(self) -> bool:
        """Whether the constant is a matrix with the same number of scales for every row."""
        return self.values.dim() == 2 and self.block[0] == 1

    @property
    def bits(self) -> int:
        """The smallest of 2, 4 and 8 bits that holds the integers and fills whole bytes."""
        for bits in (2, 4):
            half, whole = 2 ** (bits - 1), self.values.shape[-1] % (8 // bits) == 0
            if -half <= self.low and self.high < half and whole:
                return bits
        return 8


def integers_of(node: fx.Node, constants: dict[str, torch.Tensor]) -> Integers | None:
    """The integers that a dequantize node reads, if they are int8 constants."""
    key = op_key(node.target)
    if key not in (PER_TENSOR, PER_CHANNEL, PER_GROUP, AFFINE):
        return None
    source = node.args[0]
    values = constants.get(source.name) if isinstance(source, fx.Node) else None
    if values is None or values.dtype is not torch.int8 or values.numel() == 0:
        return None
    if node.meta["val"].dtype is not torch.float32:
        return None

    def tensor(name: str) -> torch.Tensor | None:
        given = argument(node, name)
        if isinstance(given, (int, float)):
            return torch.tensor([given], dtype=torch.float32)
        return None if given is None else constants.get(given.name)

    block = _block(node, key, tuple(values.shape))
    one = key in (PER_TENSOR, AFFINE)
    scales = tensor("scale" if one else "scales")
    zeros = tensor("zero_point" if one else "zero_points")
    if block is None or scales is None:
        return None
    if zeros is None and argument(node, "zero_point" if one else "zero_points") is not None:
        return None
    shape = [n // b for n, b in zip(values.shape, block, strict=True)]
    if scales.numel() == 1 and values.dim() == 2:
        block, shape = (1, values.shape[1]), [len(values), 1]
        scales = scales.reshape(-1).expand(len(values))
        zeros = None if zeros is None else zeros.reshape(-1).expand(len(values))
    has_zeros = zeros is not None and bool(zeros.any())
    low, high = argument(node, "quant_min"), argument(node, "quant_max")
    return Integers(
        str(source.name),
        values.detach(),
        block,
        scales.detach().to(torch.float32).reshape(shape),
        zeros.detach().to(torch.float32).reshape(shape)
        if has_zeros and zeros is not None
        else None,
        -128 if low is None else int(low),
        127 if high is None else int(high),
    )


def _block(node: fx.Node, key: str, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """Numbers of elements that share a scale, along each dimension."""
    if key == PER_TENSOR:
        return shape
    if key == AFFINE:
        return tuple(argument(node, "block_size"))
    if key == PER_GROUP:
        size = argument(node, "group_size")
        return (1, size) if len(shape) == 2 and size > 0 and shape[1] % size == 0 else None
    axis = argument(node, "axis") % len(shape)
    return tuple(1 if d == axis else n for d, n in enumerate(shape))
