"""The programs that each side exports and the other runs, by name."""

from __future__ import annotations

from interop.cases import Case
from interop.networks import MODELS, QUANTIZED
from interop.operators import ELEMENTWISE, INDEXING, MATRICES, REDUCTIONS, SHAPES
from interop.structures import BY_DATA, SHARED_MEMORY, STRUCTURES

CASES: dict[str, Case] = {
    case.name: case
    for case in ELEMENTWISE
    + SHAPES
    + REDUCTIONS
    + MATRICES
    + INDEXING
    + STRUCTURES
    + MODELS
    + QUANTIZED
    + BY_DATA
    + SHARED_MEMORY
}
