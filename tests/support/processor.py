"""Processors that torch and torchao may detect, so that every machine tests all of them.

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
    """Context in which torch's Python code detects the instruction sets of a processor."""
    capabilities = {**torch.cpu.get_capabilities(), **PROCESSORS[name]}
    with mock.patch.object(torch.cpu, "get_capabilities", lambda: capabilities):
        yield
