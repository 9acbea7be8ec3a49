"""The reference delegate: a minimal complete backend, as an example and as a test double."""

from executorch_py.backends.reference.backend import ReferenceBackend
from executorch_py.backends.reference.partitioner import ReferencePartitioner

__all__ = ["ReferenceBackend", "ReferencePartitioner"]
