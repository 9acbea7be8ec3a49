"""Arithmetic on quantized constants: dequantization, int32 biases, scales, 4-bit packing."""

from __future__ import annotations

import torch

from executorch_py.backends.xnnpack.payload.graph import PerChannel, PerGroup, PerTensor, Value


def dequantized(value: Value) -> torch.Tensor:
    """The dequantized tensor of a constant."""
    assert value.data is not None
    data, how = value.data, value.quantization
    if how is None:
        return data
    if isinstance(how, PerTensor):
        return (data.to(torch.float32) - how.zero_point) * how.scale
    if isinstance(how, PerChannel):
        shape = [1] * data.dim()
        shape[how.axis] = -1
        return data.to(torch.float32) * how.scales.to(torch.float32).reshape(shape)
    assert isinstance(how, PerGroup)
    rows = data.shape[0]
    groups = data.to(torch.float32).reshape(rows, -1, how.group_size)
    return (groups * how.scales.to(torch.float32).reshape(rows, -1, 1)).reshape(data.shape)


def scales_of(value: Value) -> torch.Tensor:
    """The scales of a weight as a vector, of one element for a single scale."""
    how = value.quantization
    if isinstance(how, PerTensor):
        return torch.tensor([how.scale], dtype=torch.float32)
    assert isinstance(how, (PerChannel, PerGroup))
    return how.scales.to(torch.float32).reshape(-1)


def int32_bias(bias: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """A float bias divided by `scales`, rounded half to even."""
    units = torch.round(bias.to(torch.float64) / scales.to(torch.float64))
    limits = torch.iinfo(torch.int32)
    return units.clamp(limits.min, limits.max).to(torch.int32)


def packed_int4(weights: torch.Tensor) -> torch.Tensor:
    """Rows of values -8 … 7 packed as bytes: plus 8, even columns in the low half."""
    rows, columns = weights.shape
    codes = (weights.to(torch.int16) + 8).to(torch.uint8)
    if columns % 2:
        codes = torch.cat([codes, torch.full((rows, 1), 8, dtype=torch.uint8)], dim=1)
    return (codes[:, 0::2] | (codes[:, 1::2] << 4)).contiguous()
