"""Exports of decoders by options of optimum-executorch, for this runtime or for upstream's."""

from __future__ import annotations

from pathlib import Path

from executorch_py.optimum.export.own import export_own
from executorch_py.optimum.export.upstream import export_upstream
from executorch_py.optimum.options import OWN, ExportOptions


def export_program(folder: Path, options: ExportOptions) -> bytes:
    """The bytes of the program of a folder of transformers."""
    export = export_own if options.target == OWN else export_upstream
    return bytes(export(folder, options).buffer)
