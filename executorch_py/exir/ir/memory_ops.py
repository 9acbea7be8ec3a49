"""Markers of memory in a lowered graph: `alloc` reserves a tensor, `view` reuses one, `concat` is
made of several, `patch` had a part of it updated, `free` ends one.

Memory operators are targets of graph nodes and are never executed on a device. Called eagerly they
compute the values that they mark, so that a lowered graph can still be interpreted. The planner in
exir/memory gives them offsets.
"""

from __future__ import annotations

from typing import Any

import torch

AllocSpec = tuple[tuple[int, ...], torch.dtype]


def alloc(spec: AllocSpec | list[AllocSpec]) -> Any:
    """An uninitialised tensor for one (shape, dtype), or a list of them."""
    if isinstance(spec, list):
        return [alloc(item) for item in spec]
    shape, dtype = spec
    return torch.empty(shape, dtype=dtype)


def free(spec: Any) -> None:
    """End of life of a tensor whose size no plan could bound."""


def view(
    base: torch.Tensor,
    size: list[int],
    start: int | None = None,
    stride: list[int] | None = None,
) -> torch.Tensor:
    """The memory of `base` under another shape: all of it, or the part from element `start` on."""
    if start is None or stride is None:
        return base.view(size)
    return base.as_strided(size, stride, int(base.storage_offset()) + start)


def concat(parts: list[torch.Tensor], dim: int) -> torch.Tensor:
    """A tensor whose parts were computed one after another in its memory."""
    return torch.cat(parts, dim)


def patch(base: torch.Tensor, part: torch.Tensor) -> torch.Tensor:
    """A tensor after `part`, a view of it, was updated in place."""
    return base


__all__ = ["alloc", "concat", "free", "patch", "view"]
