"""Exported programs as bytes in memory, under upstream's names; the archive is that of save()."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any

from torch.export import ExportedProgram

from executorch_py.exir.program.save_load import load, save

__all__ = ["SerializedArtifact", "deserialize", "serialize"]


@dataclass
class SerializedArtifact:
    """A program as bytes. The archive has everything; upstream divides it over four fields."""

    exported_program: bytes
    state_dict: bytes = b""
    constants: bytes = b""
    example_inputs: bytes = b""


def serialize(
    exported_program: ExportedProgram, opset_version: dict[str, int] | None = None
) -> SerializedArtifact:
    """The bytes of a program: ATen, edge, or lowered."""
    options: dict[str, Any] = {} if opset_version is None else {"opset_version": opset_version}
    file = io.BytesIO()
    save(exported_program, file, **options)
    return SerializedArtifact(file.getvalue())


def deserialize(artifact: SerializedArtifact) -> ExportedProgram:
    """The program of `serialize`."""
    return load(io.BytesIO(artifact.exported_program))
