"""Check of the scales and zero points of delegated conversions, whose numbers are known at export.

XNNPACK requires positive, finite and normal scales, and zero points of the integers' type. Other
numbers come from calibration with infinities or from a pass, and no operator gives results with
them, so they are an error and not a reason to leave a node.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import fx

from executorch_py.backends.xnnpack.support.node_facts import NodeFacts
from executorch_py.exir.error import ExportError, ExportErrorType
from executorch_py.exir.ir.graph import source_line
from executorch_py.exir.ir.op_traits import DEQUANTIZE, QUANTIZE

_SCALES, _ZERO_POINTS = ("scale", "scales"), ("zero_point", "zero_points")


class QuantizationError(ExportError, ValueError):
    """A scale or zero point of a conversion is not one that integers can have."""


def check_scales(conversions: Iterable[NodeFacts]) -> None:
    """Raise QuantizationError for the first scale or zero point that no integers can have."""
    for facts in conversions:
        if facts.key not in QUANTIZE | DEQUANTIZE:
            continue
        scales = _numbers(facts, _SCALES)
        if scales is not None:
            scales = scales.to(torch.float32)
            least = torch.finfo(torch.float32).smallest_normal
            valid = scales.isfinite() & (scales >= least)
            _expect(facts.node, "scale", scales, valid, "a positive, finite, normal float32")
        zero_points, dtype = _numbers(facts, _ZERO_POINTS), _integers(facts)
        if zero_points is not None and dtype is not None:
            low, high = torch.iinfo(dtype).min, torch.iinfo(dtype).max
            name = str(dtype).removeprefix("torch.")
            valid = (zero_points >= low) & (zero_points <= high)
            _expect(facts.node, "zero point", zero_points, valid, f"{low} to {high} for {name}")


def _numbers(facts: NodeFacts, names: tuple[str, ...]) -> torch.Tensor | None:
    """The values of an argument; None if they are found at run time or the argument is absent."""
    found: Any = None
    for name in names:
        try:
            found = facts.argument(name)
        except KeyError:
            continue
    if isinstance(found, fx.Node):
        return facts.constants.get(found.name)
    return torch.tensor(found) if isinstance(found, (int, float)) else None


def _integers(facts: NodeFacts) -> torch.dtype | None:
    """The type of the integers that a conversion reads or makes."""
    if facts.key in QUANTIZE:
        example = facts.example(facts.node)
    else:
        example = facts.example(facts.node.args[0])
    is_integer = example is not None and not example.dtype.is_floating_point
    return example.dtype if example is not None and is_integer else None


def _expect(
    node: fx.Node, what: str, values: torch.Tensor, valid: torch.Tensor, expected: str
) -> None:
    if bool(valid.all()):
        return
    index = (~valid).nonzero()[0].tolist()
    place = f" at {index}" if index else ""
    where = source_line(node)
    raise QuantizationError(
        ExportErrorType.VIOLATION_OF_SPEC,
        f"node '{node.name}': {what}{place}: expected {expected}, got "
        f"{values[tuple(index)].item():g}{'; from ' + where if where else ''}. Calibrate the model "
        "again with finite inputs, or set the number to one in these bounds",
    )
