"""A delegate's payload whose intermediate values are results, for verifiers of single nodes.

`BackendDetails.opened` makes one. Knows no backend's format.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from executorch_py.exir.schema import ScalarType


@dataclass(frozen=True)
class OpenedValue:
    """An intermediate value: its element type, and its sizes in the order of memory, at most.

    `grid` is the scale and the zero point of quantized values.
    """

    scalar_type: ScalarType
    sizes: tuple[int, ...]
    grid: tuple[float, int] | None = None


@dataclass(frozen=True)
class OpenedPayload:
    """A payload that takes, behind the arguments of the given one, a result for each value.

    `n_inputs` counts the arguments that the delegate reads; they come first.
    """

    payload: bytes
    n_inputs: int
    values: Sequence[OpenedValue]
