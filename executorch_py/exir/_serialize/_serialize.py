"""Upstream's import path of serialize_for_executorch."""

from executorch_py.exir.serialize.artifacts import serialize_for_executorch

__all__ = ["serialize_for_executorch"]
