"""Tensors of a checkpoint by name, read from mapped files when they are asked for."""

from __future__ import annotations

import math
import mmap
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import torch

from executorch_py.terminal_text import quoted


class CheckpointError(ValueError):
    """A damaged checkpoint, or one that does not fit the model: the message names the tensor."""


class Checkpoint(Mapping[str, torch.Tensor]):
    """Tensors by name. Those of mapped files share their pages until they are changed."""

    def __init__(self, readers: Mapping[str, Callable[[], torch.Tensor]], where: str) -> None:
        self._readers = dict(readers)
        self.where = where

    def __getitem__(self, name: str) -> torch.Tensor:
        if name not in self._readers:
            raise KeyError(f"{self.where}: expected a tensor {quoted(name)}, got none of that name")
        return self._readers[name]()

    def __iter__(self) -> Iterator[str]:
        return iter(self._readers)

    def __len__(self) -> int:
        return len(self._readers)


def holds_sizes(shape: Sequence[int]) -> bool:
    """Whether a tensor can have this shape: torch counts elements and steps in 63 bits, also where
    another size is 0."""
    return math.prod(max(1, n) for n in shape) < 1 << 63


def map_file(path: Path) -> mmap.mmap:
    """A file's bytes, copied where they are changed: the file itself never is."""
    with path.open("rb") as file:
        if path.stat().st_size == 0:
            raise CheckpointError(f"{path}: expected a checkpoint, got an empty file")
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
