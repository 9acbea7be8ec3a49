"""Parity checks for pytest and notebooks: emitted bytes on the C runtime against eager torch."""

from executorch_py.testing.parity import (
    Comparison,
    ParityError,
    ParityReport,
    Tolerance,
    assert_parity,
    verify_program,
)

__all__ = [
    "Comparison",
    "ParityError",
    "ParityReport",
    "Tolerance",
    "assert_parity",
    "verify_program",
]
