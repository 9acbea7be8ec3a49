"""The table of operator tests: rows of (operator, dtypes, layouts, shapes, arguments).

One module per family declares its rows and exports them as `rows()`; `every_row` is the whole
table. A row is a description (`row.py`): its tensors are made when it runs. Each is compared with
eager torch and run prepared and not, with outputs that are planned and that grow, and with threads.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module

from kernels.table.row import Row

FAMILIES = [
    "elementwise",
    "reductions",
    "movement",
    "indexing",
    "products",
    "convolutions",
    "windows",
    "ordering",
    "matrices",
    "creation",
    "quantized",
]


def every_row() -> Iterator[Row]:
    """All rows, family by family, each once."""
    for family in FAMILIES:
        rows = import_module(f"{__name__}.{family}").rows()
        yield from {repr(row): row for row in rows}.values()
