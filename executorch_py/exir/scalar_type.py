"""Upstream's import path of the ScalarType enum."""

from executorch_py.exir.schema import ScalarType

__all__ = ["ScalarType"]
