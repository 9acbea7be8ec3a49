"""Upstream's path to the dialect verifiers; see dialects/verifier.py."""

from torch._export.verifier import SpecViolationError

from executorch_py.exir.dialects.verifier import (
    EXIRATenDialectVerifier,
    EXIRATenDialectVerifierBase,
    EXIREdgeDialectVerifier,
    get_aten_verifier,
)

__all__ = [
    "EXIRATenDialectVerifier",
    "EXIRATenDialectVerifierBase",
    "EXIREdgeDialectVerifier",
    "SpecViolationError",
    "get_aten_verifier",
]
