"""Quantization settings: element type, range and observer of each tensor of an operator.

A `QuantizationConfig` has a specification each for an operator's inputs, result, weight and bias;
None leaves that tensor float. An integer q represents the number `scale * (q - zero_point)`.
"""

from __future__ import annotations

import functools
import warnings
from dataclasses import dataclass, replace
from typing import Any

import torch
from torchao.quantization.pt2e import (
    FakeQuantize,
    MovingAverageMinMaxObserver,
    MovingAveragePerChannelMinMaxObserver,
    PlaceholderObserver,
)
from torchao.quantization.pt2e.quantizer import QuantizationConfig, QuantizationSpec

from executorch_py.exir.settings_check import expect_bool, is_whole_number
from executorch_py.quantizer.observers import (
    WatchedFakeQuantize,
    WatchedHistogram,
    WatchedPerChannel,
    WatchedPerChannelFakeQuantize,
    WatchedRange,
)


@dataclass(eq=True, frozen=True)
class RowSpec(QuantizationSpec):
    """int8 with a scale for each row, found at run time if `finds_scales`; otherwise float.

    `is_dynamic` is False, because it means one scale for the whole tensor to torchao.
    """

    finds_scales: bool = True


MIN_SCALE = 2**-12  # upstream's; quotients of scales stay within the range of fixed point


def __getattr__(name: str) -> Any:
    """MIN_SCALE under its deprecated name."""
    if name == "LEAST_SCALE":
        message = "LEAST_SCALE is deprecated: use MIN_SCALE"
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        return MIN_SCALE
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _activation_observer(is_qat: bool, is_dynamic: bool) -> Any:
    if is_qat and is_dynamic:
        once = MovingAverageMinMaxObserver.with_args(averaging_constant=1)
        return FakeQuantize.with_args(eps=MIN_SCALE, observer=once)
    if is_qat:
        return WatchedFakeQuantize.with_args(eps=MIN_SCALE)
    # Scales that are found at run time need no data.
    return (PlaceholderObserver if is_dynamic else WatchedHistogram).with_args(eps=MIN_SCALE)


def _weight_observer(is_qat: bool, is_per_channel: bool) -> Any:
    if is_qat and is_per_channel:
        observer = MovingAveragePerChannelMinMaxObserver
        return WatchedPerChannelFakeQuantize.with_args(eps=MIN_SCALE, observer=observer)
    if is_qat:
        return WatchedFakeQuantize.with_args(eps=MIN_SCALE, observer=MovingAverageMinMaxObserver)
    return (WatchedPerChannel if is_per_channel else WatchedRange).with_args(eps=MIN_SCALE)


@functools.lru_cache
def get_symmetric_quantization_config(
    is_per_channel: bool = False,
    is_qat: bool = False,
    is_dynamic: bool = False,
    act_qmin: int = -128,
    act_qmax: int = 127,
    weight_qmin: int = -127,
    weight_qmax: int = 127,
) -> QuantizationConfig:
    """int8 activations with a zero point, and int8 weights without one.

    Biases stay float until they are lowered to int32, whose scale is the product of the scales of
    input and weight. is_per_channel: weights have a scale for each output channel. is_qat: the
    configuration is for `prepare_qat_pt2e`. is_dynamic: activations get their scales at run time,
    and results stay float. act_qmin … weight_qmax: the range of integers that is used.
    """
    flags = (("is_per_channel", is_per_channel), ("is_qat", is_qat), ("is_dynamic", is_dynamic))
    for name, flag in flags:
        expect_bool(name, flag)
    for name, low, high in (("act", act_qmin, act_qmax), ("weight", weight_qmin, weight_qmax)):
        if not (is_whole_number(low) and is_whole_number(high)):
            raise TypeError(
                f"{name}_qmin, {name}_qmax: expected whole numbers, got {low!r} and {high!r}"
            )
        if not -128 <= low < high <= 127:
            raise ValueError(
                f"{name}_qmin, {name}_qmax: expected a range within -128 … 127, got {low} … {high}"
            )
    activation = QuantizationSpec(
        dtype=torch.int8,
        quant_min=int(act_qmin),
        quant_max=int(act_qmax),
        qscheme=torch.per_tensor_affine,
        is_dynamic=is_dynamic,
        observer_or_fake_quant_ctr=_activation_observer(is_qat, is_dynamic),
    )
    weight = QuantizationSpec(
        dtype=torch.int8,
        quant_min=int(weight_qmin),
        quant_max=int(weight_qmax),
        qscheme=torch.per_channel_symmetric if is_per_channel else torch.per_tensor_symmetric,
        ch_axis=0,
        is_dynamic=False,
        observer_or_fake_quant_ctr=_weight_observer(is_qat, is_per_channel),
    )
    return QuantizationConfig(activation, None if is_dynamic else activation, weight, None, is_qat)


def along_axis(spec: QuantizationSpec | None, axis: int) -> QuantizationSpec | None:
    """The specification with the channel axis of a weight replaced."""
    per_channel = (torch.per_channel_symmetric, torch.per_channel_affine)
    return spec if spec is None or spec.qscheme not in per_channel else replace(spec, ch_axis=axis)


def is_dynamic(config: QuantizationConfig) -> bool:
    """Whether activations get their scales at run time."""
    spec = config.input_activation
    return bool(spec.finds_scales if isinstance(spec, RowSpec) else spec and spec.is_dynamic)


__all__ = [
    "MIN_SCALE",
    "QuantizationConfig",
    "QuantizationSpec",
    "RowSpec",
    "along_axis",
    "get_symmetric_quantization_config",
    "is_dynamic",
]
