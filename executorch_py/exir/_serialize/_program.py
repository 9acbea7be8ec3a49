"""Upstream's import path of program serialisation."""

from executorch_py.exir.serialize.program import (
    PTEFile,
    deserialize_pte_binary,
    serialize_pte_binary,
)

__all__ = ["PTEFile", "deserialize_pte_binary", "serialize_pte_binary"]
