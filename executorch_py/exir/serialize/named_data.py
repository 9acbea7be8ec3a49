"""Named data: blobs that delegates share, each under a unique key, in the program or in a data
file.

Equal bytes are kept once, however many keys name them. Relies on Cord's StoredTensor for tensors
given by reference; deliberately knows neither the program's tables nor any backend.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, replace
from typing import Any

import torch

from executorch_py.exir.ir.tensor_layout import TensorLayout
from executorch_py.exir.serialize.cord import StoredTensor


@dataclass
class DataEntry:
    """Entry of a key: index of its buffer, alignment, and the layout of the tensor it holds."""

    buffer_index: int
    alignment: int | None  # None and 0: any
    tensor_layout: TensorLayout | None


@dataclass
class NamedDataStoreOutput:
    """Contents of a store: unique buffers, and the keys by place (the program, or file by file)."""

    buffers: list[Any]
    pte_data: dict[str, DataEntry]
    external_data: dict[str, dict[str, DataEntry]]


class NamedDataStore:
    """Collects named blobs. A key may be added again with the same bytes, never with others."""

    def __init__(self) -> None:
        self.buffers: list[Any] = []
        self.pte_data: dict[str, DataEntry] = {}
        self.external_data: dict[str, dict[str, DataEntry]] = {}
        self.key_to_buffer_idx: dict[str, int] = {}
        self._buffer_of_digest: dict[str, int] = {}

    def add_named_data(
        self,
        key: str,
        data: bytes | StoredTensor | torch.Tensor,
        alignment: int | None = 1,
        external_tag: str | None = None,
        tensor_layout: TensorLayout | None = None,
    ) -> None:
        """Add bytes or a dense tensor under `key`, to the program or to the file `external_tag`."""
        alignment = 1 if alignment is None else alignment
        if alignment <= 0:
            raise ValueError(f"named data '{key}': expected alignment 1 or more, got {alignment}")
        if isinstance(data, torch.Tensor):
            found = TensorLayout.from_tensor(data)
            if tensor_layout is not None and tensor_layout != found:
                raise ValueError(
                    f"named data '{key}': expected the tensor's layout {found}, got {tensor_layout}"
                )
            tensor_layout = found
            data = StoredTensor(data, key)
        elif not isinstance(data, (bytes, StoredTensor)):
            raise TypeError(
                f"named data '{key}': expected bytes or a tensor, got {type(data).__name__}"
            )
        index = self._index_of(key, data)
        target = self.pte_data
        if external_tag is not None:
            target = self.external_data.setdefault(external_tag, {})
        if key in self.key_to_buffer_idx:
            entry = target.get(key)
            if entry is not None:
                target[key] = replace(entry, alignment=math.lcm(entry.alignment or 1, alignment))
            return
        self.key_to_buffer_idx[key] = index
        target[key] = DataEntry(index, alignment, tensor_layout)

    def _index_of(self, key: str, data: bytes | StoredTensor) -> int:
        digest = data.digest if isinstance(data, StoredTensor) else hashlib.sha256(data).hexdigest()
        index = self._buffer_of_digest.get(digest)
        known = self.key_to_buffer_idx.get(key)
        if known is not None and known != index:
            raise ValueError(
                f"named data '{key}' is already stored with other bytes "
                f"({len(self.buffers[known])} then, {len(data)} now)"
            )
        if index is None:
            index = self._buffer_of_digest[digest] = len(self.buffers)
            self.buffers.append(data)
        return index

    def get_named_data_store_output(self) -> NamedDataStoreOutput:
        """The collected entries; files without entries are left out."""
        external = {tag: entries for tag, entries in self.external_data.items() if entries}
        return NamedDataStoreOutput(self.buffers, self.pte_data, external)

    def merge_named_data_store(self, other: NamedDataStoreOutput) -> None:
        """Add everything that another store holds."""
        places = [(None, other.pte_data), *other.external_data.items()]
        for tag, entries in places:
            for key, entry in entries.items():
                self.add_named_data(
                    key,
                    other.buffers[entry.buffer_index],
                    entry.alignment,
                    external_tag=tag,
                    tensor_layout=entry.tensor_layout,
                )
