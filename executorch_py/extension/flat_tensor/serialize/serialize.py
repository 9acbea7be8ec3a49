"""Serializer of data files (.ptd) with a configuration, as upstream's scripts use it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from executorch_py._refused_paths import refuse_name
from executorch_py.exir.serialize.cord import Cord
from executorch_py.exir.serialize.data_serializer import DataPayload, DataSerializer
from executorch_py.exir.serialize.header import SEGMENT_ALIGNMENT, FlatTensorHeader
from executorch_py.exir.serialize.named_data import NamedDataStoreOutput
from executorch_py.exir.serialize.ptd import deserialize_data_file, serialize_data_file


@dataclass
class FlatTensorConfig:
    """Layout of a data file."""

    segment_alignment: int = SEGMENT_ALIGNMENT


class FlatTensorSerializer(DataSerializer):
    """Writes and reads .ptd files."""

    def __init__(self, config: FlatTensorConfig | None = None) -> None:
        self.config = config or FlatTensorConfig()

    def serialize(self, data: DataPayload) -> Cord:
        """The file as a list of chunks."""
        return serialize_data_file(data, self.config.segment_alignment)

    def deserialize(self, blob: Cord | bytes) -> DataPayload:
        """The content of a file; ValueError when it is damaged."""
        return deserialize_data_file(bytes(blob))

    def deserialize_to_named_data_store_output(
        self, blob: Cord | bytes, name: str
    ) -> NamedDataStoreOutput:
        """The content of a file as a store whose entries are in the data file `name`."""
        payload = self.deserialize(blob)
        return NamedDataStoreOutput(
            list(payload.buffers), {}, external_data={name: dict(payload.named_data)}
        )


def __getattr__(name: str) -> Any:
    refuse_name(__name__, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["FlatTensorConfig", "FlatTensorHeader", "FlatTensorSerializer"]
