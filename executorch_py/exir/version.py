"""Upstream's import path of the schema version."""

from executorch_py.exir.schema import EXECUTORCH_SCHEMA_VERSION

__all__ = ["EXECUTORCH_SCHEMA_VERSION"]
