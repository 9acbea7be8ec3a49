"""Resident memory of mapped weights that nobody reads any more.

A page of a mapped file that was read counts as memory of the process until the kernel needs it.
Linux says of each page whether it is the file's or a changed copy (Documentation/admin-guide/mm/
pagemap.rst: bit 61 of an entry, 62 for a page in swap, 63 for one in memory).
"""

from __future__ import annotations

import ctypes
import mmap
from pathlib import Path

import torch

_PAGEMAP = Path("/proc/self/pagemap")
_ENTRY_BYTES = 8
_OF_FILE, _IN_SWAP = 1 << 61, 1 << 62


def let_go(tensor: torch.Tensor) -> None:
    """Gives back the pages of a tensor over a mapped file; they are read again if they are used.

    Nothing happens where a page is not the file's: in memory of its own, or changed.
    """
    advice = getattr(mmap, "MADV_DONTNEED", None)
    if advice is None or tensor.device.type != "cpu" or not tensor.is_contiguous():
        return
    begin, end = tensor.data_ptr(), tensor.data_ptr() + tensor.nbytes
    first, last = -(-begin // mmap.PAGESIZE), end // mmap.PAGESIZE  # whole pages alone
    if first < last and _are_of_file(first, last):
        address, length = first * mmap.PAGESIZE, (last - first) * mmap.PAGESIZE
        ctypes.CDLL(None).madvise(ctypes.c_void_p(address), ctypes.c_size_t(length), advice)


def _are_of_file(first: int, last: int) -> bool:
    """Whether every page that is in memory or in swap is one of a file."""
    try:
        with _PAGEMAP.open("rb") as file:
            file.seek(first * _ENTRY_BYTES)
            entries = file.read((last - first) * _ENTRY_BYTES)
    except OSError:
        return False
    if len(entries) != (last - first) * _ENTRY_BYTES:
        return False
    flags = torch.frombuffer(bytearray(entries), dtype=torch.int64)
    in_memory = flags < 0  # bit 63 is the sign
    changed = in_memory & (flags & _OF_FILE == 0) | (flags & _IN_SWAP != 0)
    return not bool(changed.any())
