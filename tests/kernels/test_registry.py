"""The operator table against torch's schemas: argument counts, and which arguments are written.

The loader refuses to let a call write to a constant, so the table must name every argument that a
kernel writes; a damaged file may give another value as the repeated result.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

TABLE = Path(__file__).resolve().parent.parent.parent / "csrc" / "kernels" / "ops.inc.h"
ROW = re.compile(r'^ET_OP(?:_PREPARED\("([^"]+)", \w+, \w+|\("([^"]+)", \w+), (\d+), (.*)\)$', re.M)


def rows() -> list[tuple[str, int, int]]:
    """Name, entries of a call, written arguments as bits (the default where none are stated)."""
    found = []
    for prepared, plain, n_args, rest in ROW.findall(TABLE.read_text()):
        stated = re.search(r"\.writes = (.*?)(?:, \.|$)", rest)
        bits = 1 << (int(n_args) - 2)
        if stated:
            bits = 0
            for value, shift in re.findall(r"(\d+)u << (\d+)", stated.group(1)):
                bits |= int(value) << int(shift)
        found.append((prepared or plain, int(n_args), bits))
    return found


ATEN = [row for row in rows() if row[0].startswith("aten::")]


def test_the_table_was_read() -> None:
    assert len(ATEN) > 200


@pytest.mark.parametrize(("name", "n_args", "writes"), ATEN, ids=[row[0] for row in ATEN])
def test_counts_and_writes_agree_with_torchs_schema(name: str, n_args: int, writes: int) -> None:
    packet, _, overload = name.removeprefix("aten::").partition(".")
    schema = getattr(getattr(torch.ops.aten, packet), overload or "default")._schema
    assert n_args == len(schema.arguments) + 1
    written = sum(
        1 << i
        for i, argument in enumerate(schema.arguments)
        if argument.alias_info is not None and argument.alias_info.is_write
    )
    if written:  # operators that give a number write no tensor
        assert writes == written
