"""Upstream's import paths of serialisation; the code is in executorch_py/exir/serialize."""

from executorch_py.exir.serialize.cord import Cord
from executorch_py.exir.serialize.named_data import NamedDataStore as _NamedDataStore
from executorch_py.exir.serialize.named_data import NamedDataStoreOutput
from executorch_py.exir.serialize.program import (
    PTEFile,
    deserialize_pte_binary,
    serialize_pte_binary,
)

_PTEFile = PTEFile
_deserialize_pte_binary = deserialize_pte_binary
_serialize_pte_binary = serialize_pte_binary

__all__ = [
    "Cord",
    "NamedDataStoreOutput",
    "PTEFile",
    "_NamedDataStore",
    "_PTEFile",
    "_deserialize_pte_binary",
    "_serialize_pte_binary",
    "deserialize_pte_binary",
    "serialize_pte_binary",
]
