"""A lowered module as plain data (for JSON) and back: payload, compile specs, named data, origin.

The program that the module was lowered from is passed and returned as bytes; save_load.py reads and
writes these.
"""

from __future__ import annotations

import base64
import dataclasses
from typing import Any

from torch.export import ExportedProgram

from executorch_py.exir.ir.tensor_layout import TensorLayout
from executorch_py.exir.serialize.named_data import DataEntry, NamedDataStoreOutput


def _encode(data: Any) -> str:
    return base64.b64encode(bytes(data)).decode("ascii")


def describe_delegate(module: Any, original: bytes) -> dict[str, Any]:
    """Everything needed to make the module again; `original` is its saved program."""
    return {
        "backend_id": module.backend_id,
        "processed_bytes": _encode(module.processed_bytes),
        "compile_specs": [[spec.key, _encode(spec.value)] for spec in module.compile_specs],
        "original": _encode(original),
        "named_data": _describe_named_data(module.named_data_store_output),
        "debug_handle_map": _describe_handles(getattr(module, "meta", None)),
    }


def original_program(data: dict[str, Any]) -> bytes:
    """The saved program in a description."""
    return base64.b64decode(data["original"])


def restore_delegate(data: dict[str, Any], original: ExportedProgram) -> Any:
    """The lowered module of a description."""
    from executorch_py.exir.backend.lowered_module import LoweredBackendModule
    from executorch_py.exir.schema import CompileSpec

    module = LoweredBackendModule(
        edge_program=original,
        backend_id=data["backend_id"],
        processed_bytes=base64.b64decode(data["processed_bytes"]),
        compile_specs=[CompileSpec(k, base64.b64decode(v)) for k, v in data["compile_specs"]],
        named_data_store_output=_restore_named_data(data["named_data"]),
    )
    if data["debug_handle_map"] is not None:
        handles = {
            key: tuple(value) if isinstance(value, list) else value
            for key, value in data["debug_handle_map"]
        }
        module.meta = {**(getattr(module, "meta", None) or {}), "debug_handle_map": handles}
    return module


def _describe_handles(meta: dict[str, Any] | None) -> Any:
    handles = (meta or {}).get("debug_handle_map")
    if handles is None:
        return None
    return [[k, list(v) if isinstance(v, (list, tuple)) else v] for k, v in handles.items()]


def _describe_entries(entries: dict[str, DataEntry]) -> dict[str, Any]:
    return {key: dataclasses.asdict(entry) for key, entry in entries.items()}


def _describe_named_data(output: NamedDataStoreOutput | None) -> Any:
    if output is None:
        return None
    return {
        "buffers": [_encode(buffer) for buffer in output.buffers],
        "pte_data": _describe_entries(output.pte_data),
        "external_data": {k: _describe_entries(v) for k, v in output.external_data.items()},
    }


def _restore_entries(entries: dict[str, Any]) -> dict[str, DataEntry]:
    restored = {}
    for key, entry in entries.items():
        layout = entry["tensor_layout"]
        restored[key] = DataEntry(
            entry["buffer_index"],
            entry["alignment"],
            None if layout is None else TensorLayout(**layout),
        )
    return restored


def _restore_named_data(data: Any) -> NamedDataStoreOutput | None:
    if data is None:
        return None
    return NamedDataStoreOutput(
        buffers=[base64.b64decode(buffer) for buffer in data["buffers"]],
        pte_data=_restore_entries(data["pte_data"]),
        external_data={k: _restore_entries(v) for k, v in data["external_data"].items()},
    )
