"""Upstream's import path of Cord."""

from executorch_py.exir.serialize.cord import Cord

__all__ = ["Cord"]
