"""Upstream's import path of the data of a .ptd file."""

from executorch_py.exir.serialize.named_data import DataEntry
from executorch_py.exir.serialize.ptd import DataPayload

__all__ = ["DataEntry", "DataPayload"]
