"""Interface of writers of data files (.ptd); names are upstream's."""

from abc import ABC, abstractmethod

from executorch_py.exir.serialize.cord import Cord
from executorch_py.exir.serialize.named_data import DataEntry
from executorch_py.exir.serialize.ptd import DataPayload


class DataSerializer(ABC):
    """A format of data files: payload to bytes and back."""

    @abstractmethod
    def serialize(self, data: DataPayload) -> Cord:
        """The file, in pieces."""

    @abstractmethod
    def deserialize(self, blob: Cord | bytes) -> DataPayload:
        """The content of a file."""


__all__ = ["DataEntry", "DataPayload", "DataSerializer"]
