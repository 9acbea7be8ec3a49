"""Processors that torch and torchao may find themselves on, so that every machine tests them all.

`torch.cpu.get_capabilities` answers every question about instruction sets that Python code of torch
and torchao asks. torchao traces another graph for int8 products where AVX-512 VNNI is and AMX is
not, and advises another range of int8 where VNNI is not.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

import torch

PROCESSORS = {
    "no VNNI": {"avx512_vnni": False, "amx_tile": False},
    "VNNI": {"avx512_vnni": True, "amx_tile": False},
    "VNNI and AMX": {"avx512_vnni": True, "amx_tile": True},
}


@contextmanager
def processor(name: str) -> Iterator[None]:
    """Within it torch's Python code sees the instruction sets of that processor."""
    capabilities = {**torch.cpu.get_capabilities(), **PROCESSORS[name]}
    with mock.patch.object(torch.cpu, "get_capabilities", lambda: capabilities):
        yield
