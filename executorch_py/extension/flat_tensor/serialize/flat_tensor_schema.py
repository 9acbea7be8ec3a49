"""Upstream's path to the tables of a data file."""

from executorch_py.exir.schema import DataSegment
from executorch_py.exir.serialize.ptd import FlatTensor, NamedData

__all__ = ["DataSegment", "FlatTensor", "NamedData"]
