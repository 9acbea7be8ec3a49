"""Packages of a graph and its tensors (.ptn): an uncompressed zip with members of fixed names.

`program.ptg` holds the graph, opaque bytes here, `program.safetensors` the tensors, each content
once, and `aliases.json` the keys of further tensors with the same content. Tensors that a program
writes keep contents of their own. Names and format are upstream's; the safetensors format is
written and read here: 8 bytes with the size of a JSON header, the header, the data.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import zipfile
from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import IO, Any

import torch

from executorch_py.atomic_file import replacing
from executorch_py.exir.serialize.cord import StoredTensor

__all__ = ["ALIASES_ENTRY", "PTG_ENTRY", "SAFETENSORS_ENTRY", "read_ptn", "write_ptn"]

PTG_ENTRY = "program.ptg"
SAFETENSORS_ENTRY = "program.safetensors"
ALIASES_ENTRY = "aliases.json"
# A key of the JSON header that is no tensor.
_METADATA = "__metadata__"
_HEADER_ALIGNMENT = 8

_DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U64": torch.uint64,
    "U32": torch.uint32,
    "U16": torch.uint16,
    "U8": torch.uint8,
    "BOOL": torch.bool,
    "C64": torch.complex64,
}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}


def write_ptn(
    path: str | os.PathLike[str],
    ptg: bytes,
    constants: Mapping[str, torch.Tensor],
    mutable_keys: Collection[str] = frozenset(),
) -> None:
    """Write a package in one step, tensor by tensor; folders are made.

    Tensors under `mutable_keys` never share a content. ValueError for keys that the format cannot
    hold, and for tensors that share memory of which one is mutable; TypeError for other types;
    KeyError for a dtype without a name in the format.
    """
    _check_keys(constants, mutable_keys)
    _check_shared_memory(constants, mutable_keys)
    kept, aliases = _distinct(constants, mutable_keys)
    folder = os.path.dirname(os.fspath(path))
    if folder:
        os.makedirs(folder, exist_ok=True)
    with replacing(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as package:
        package.writestr(PTG_ENTRY, ptg)
        if kept:
            with package.open(SAFETENSORS_ENTRY, "w", force_zip64=True) as member:
                _write_tensors(member, kept)
        if aliases:
            package.writestr(ALIASES_ENTRY, json.dumps(aliases, indent=2, sort_keys=True))


def read_ptn(path: str | os.PathLike[str]) -> tuple[bytes, dict[str, torch.Tensor]]:
    """The graph and all tensors of a package; ValueError when it is damaged."""
    members = _members(path)
    if PTG_ENTRY not in members:
        raise ValueError(f"{os.fspath(path)}: expected a member {PTG_ENTRY}, got {sorted(members)}")
    tensors, aliases = {}, {}
    if SAFETENSORS_ENTRY in members:
        tensors = _read_tensors(members[SAFETENSORS_ENTRY])
    if ALIASES_ENTRY in members:
        aliases = json.loads(members[ALIASES_ENTRY])
    kept = set(tensors)
    for key, owner in _checked_aliases(aliases).items():
        if owner not in kept:
            raise ValueError(f"{ALIASES_ENTRY}: expected a tensor '{owner}' for '{key}', got none")
        if key in kept:
            raise ValueError(f"{ALIASES_ENTRY}: expected no tensor of the alias '{key}', got one")
        tensors[key] = tensors[owner]
    return members[PTG_ENTRY], tensors


def _members(path: str | os.PathLike[str]) -> dict[str, bytes]:
    """The members of a package that are known, by name."""
    known = (PTG_ENTRY, SAFETENSORS_ENTRY, ALIASES_ENTRY)
    try:
        with zipfile.ZipFile(path) as package:
            found = set(package.namelist())
            return {name: package.read(name) for name in known if name in found}
    except (zipfile.BadZipFile, EOFError) as error:
        raise ValueError(
            f"{os.fspath(path)}: expected a zip file that is whole, got {error}"
        ) from error


def _checked_aliases(aliases: Any) -> dict[str, str]:
    if not isinstance(aliases, dict) or not all(isinstance(v, str) for v in aliases.values()):
        raise ValueError(f"{ALIASES_ENTRY}: expected an object of strings, got {aliases!r:.200}")
    if _METADATA in aliases:
        raise ValueError(f"{ALIASES_ENTRY}: the key '{_METADATA}' is reserved by the format")
    return aliases


def _check_keys(constants: Mapping[str, torch.Tensor], mutable_keys: Collection[str]) -> None:
    unknown = sorted(set(mutable_keys) - set(constants))
    if unknown:
        raise ValueError(f"mutable_keys: expected keys of constants, got {unknown}")
    for key, tensor in constants.items():
        if not isinstance(key, str):
            raise TypeError(f"constants: expected keys that are str, got a {type(key).__name__}")
        if key == _METADATA:
            raise ValueError(f"constants: the key '{_METADATA}' is reserved by the format")
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"constant '{key}': expected a tensor, got a {type(tensor).__name__}")
        if tensor.dtype not in _NAMES:
            raise KeyError(f"constant '{key}': expected a dtype of safetensors, got {tensor.dtype}")


def _check_shared_memory(
    constants: Mapping[str, torch.Tensor], mutable_keys: Collection[str]
) -> None:
    """Refuse keys of one memory that a program writes, which the package would separate."""
    keys_of: dict[tuple[torch.device, int], list[str]] = defaultdict(list)
    for key, tensor in constants.items():
        if tensor.numel():
            keys_of[tensor.device, tensor.untyped_storage().data_ptr()].append(key)
    for keys in keys_of.values():
        if len(keys) > 1 and not set(keys).isdisjoint(mutable_keys):
            raise ValueError(
                f"constants: expected one key for memory that is mutable, got {sorted(keys)}"
            )


def _distinct(
    constants: Mapping[str, torch.Tensor], mutable_keys: Collection[str]
) -> tuple[dict[str, torch.Tensor], dict[str, str]]:
    """The tensors to write, and the keys of the others with the key of the same content."""
    kept: dict[str, torch.Tensor] = {}
    aliases: dict[str, str] = {}
    owners: dict[object, str] = {}
    for key in sorted(constants):
        tensor = constants[key].detach().cpu().contiguous()
        content = key if key in mutable_keys else _content(tensor)
        owner = owners.setdefault((key in mutable_keys, content), key)
        if owner == key:
            kept[key] = tensor
        else:
            aliases[key] = owner
    return kept, aliases


def _content(tensor: torch.Tensor) -> tuple[object, ...]:
    digest = hashlib.sha256(_bytes_of(tensor)).digest()
    return tensor.dtype, tuple(tensor.shape), digest


def _bytes_of(tensor: torch.Tensor) -> memoryview:
    return StoredTensor(tensor, "constant").view()


def _write_tensors(file: IO[bytes], tensors: Mapping[str, torch.Tensor]) -> None:
    header: dict[str, Any] = {}
    end = 0
    for key, tensor in tensors.items():
        begin, end = end, end + tensor.numel() * tensor.element_size()
        dtype, shape = _NAMES[tensor.dtype], list(tensor.shape)
        header[key] = {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _HEADER_ALIGNMENT)
    file.write(len(text).to_bytes(8, "little") + text)
    for tensor in tensors.values():
        file.write(_bytes_of(tensor))


def _read_tensors(member: bytes) -> dict[str, torch.Tensor]:
    start = 8 + int.from_bytes(member[:8], "little")
    if len(member) < 8 or start > len(member):
        raise ValueError(
            f"{SAFETENSORS_ENTRY}: expected a header of {start - 8} bytes, got "
            f"{max(len(member) - 8, 0)}"
        )
    header = json.loads(member[8:start])
    if not isinstance(header, dict):
        raise ValueError(
            f"{SAFETENSORS_ENTRY}: expected an object as header, got a {type(header).__name__}"
        )
    data = memoryview(member)[start:]
    return {key: _tensor(key, entry, data) for key, entry in header.items() if key != _METADATA}


def _tensor(key: str, entry: Any, data: memoryview) -> torch.Tensor:
    """A copy of one tensor's data."""
    dtype, shape, begin, end = _checked_entry(key, entry)
    size = math.prod(shape) * dtype.itemsize
    if end - begin != size or end > len(data):
        raise ValueError(
            f"tensor '{key}': expected {size} bytes within the {len(data)} of data, got bytes "
            f"{begin} to {end}"
        )
    if size == 0:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(bytearray(data[begin:end]), dtype=dtype).reshape(shape)


def _checked_entry(key: str, entry: Any) -> tuple[torch.dtype, list[int], int, int]:
    """Type, shape and range of bytes in the header's entry of a tensor."""

    def are_sizes(value: Any) -> bool:
        return isinstance(value, list) and all(type(n) is int and n >= 0 for n in value)

    if not isinstance(entry, dict):
        raise ValueError(f"tensor '{key}': expected an object, got a {type(entry).__name__}")
    dtype = entry.get("dtype")
    shape: Any = entry.get("shape")
    offsets: Any = entry.get("data_offsets")
    if not isinstance(dtype, str) or dtype not in _DTYPES:
        raise ValueError(f"tensor '{key}': dtype: expected one of {list(_DTYPES)}, got {dtype!r}")
    if not are_sizes(shape):
        raise ValueError(f"tensor '{key}': shape: expected a list of sizes, got {shape!r}")
    if not are_sizes(offsets) or len(offsets) != 2:
        raise ValueError(f"tensor '{key}': data_offsets: expected two offsets, got {offsets!r}")
    return _DTYPES[dtype], shape, offsets[0], offsets[1]
