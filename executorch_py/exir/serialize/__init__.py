"""From the file format's tables to bytes and back: .pte programs and .ptd data files.

Our own small flatbuffer writer and reader; no flatbuffers package, no compiler, no JSON on the
way.
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
