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
from executorch_py.exir.serialize.file_backed import FileBackedData


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
        data: bytes | StoredTensor | FileBackedData | torch.Tensor,
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
        elif not isinstance(data, (bytes, StoredTensor, FileBackedData)):
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

    def _index_of(self, key: str, data: bytes | StoredTensor | FileBackedData) -> int:
        digest = _digest_of(data)
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

    def externalize_pte_data(self, max_data_bytes: int, tag_prefix: str) -> None:
        """Move the program's entries to data files of at most this many bytes.

        Files are filled in the order of keys, and the tag of each is the prefix, `_`, and a digest
        of its keys. So equal stores have equal files.
        """
        if type(max_data_bytes) is not int or max_data_bytes <= 0:
            raise ValueError(f"max_data_bytes: expected 1 or more bytes, got {max_data_bytes!r}")
        if not tag_prefix:
            raise ValueError(f"tag_prefix: expected some text, got {tag_prefix!r}")
        external = {tag: dict(entries) for tag, entries in self.external_data.items()}
        for entries in self._parts(max_data_bytes):
            digest = hashlib.sha256("\0".join(entries).encode()).hexdigest()
            tag = f"{tag_prefix}_{digest}"
            if external.setdefault(tag, entries) != entries:
                raise ValueError(f"data file '{tag}': expected no such file, got one of other data")
        self.external_data, self.pte_data = external, {}

    def _parts(self, limit: int) -> list[dict[str, DataEntry]]:
        """The program's entries, cut by bytes; keys of one buffer stay together."""
        keys_of: dict[int, list[str]] = {}
        for key in sorted(self.pte_data):
            keys_of.setdefault(self.pte_data[key].buffer_index, []).append(key)
        parts: list[list[str]] = []
        room = 0
        for index, keys in sorted(keys_of.items(), key=lambda item: item[1]):
            size = len(self.buffers[index])
            if size > limit:
                raise ValueError(
                    f"named data '{keys[0]}': expected at most {limit} bytes, the limit of a data "
                    f"file, got {size}"
                )
            if not parts or size > room:
                parts.append([])
                room = limit
            parts[-1] += keys
            room -= size
        return [{key: self.pte_data[key] for key in sorted(part)} for part in parts]

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


def _digest_of(data: bytes | StoredTensor | FileBackedData) -> str:
    if isinstance(data, StoredTensor):
        return data.digest
    if isinstance(data, FileBackedData):
        return data.sha256().hex()
    return hashlib.sha256(data).hexdigest()
