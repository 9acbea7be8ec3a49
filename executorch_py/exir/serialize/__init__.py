"""Serialization of the file format's tables to bytes and back: .pte programs and .ptd data files.

The flatbuffer writer and reader are part of this package; no flatbuffers package, compiler or JSON
is needed.
"""

from executorch_py.exir.serialize.cord import Cord, StoredTensor
from executorch_py.exir.serialize.named_data import (
    DataEntry,
    NamedDataStore,
    NamedDataStoreOutput,
)
from executorch_py.exir.serialize.pte import (
    PTEFile,
    deserialize_pte_binary,
    serialize_pte_binary,
)

__all__ = [
    "Cord",
    "DataEntry",
    "NamedDataStore",
    "NamedDataStoreOutput",
    "PTEFile",
    "StoredTensor",
    "deserialize_pte_binary",
    "serialize_pte_binary",
]
