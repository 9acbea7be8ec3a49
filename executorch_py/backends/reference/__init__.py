"""The reference delegate: the smallest complete backend, a worked example and a test double."""

from executorch_py.backends.reference.backend import ReferenceBackend
from executorch_py.backends.reference.partitioner import ReferencePartitioner

__all__ = ["ReferenceBackend", "ReferencePartitioner"]
