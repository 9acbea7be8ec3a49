"""The record of an export: its programs, its debug handles, and test data, in one zip file.

Programs are stored as archives of exir.save (`<name>.pt2`), so that delegates and edge operators
are restored. The maps are JSON, tensors are torch.save's. Members have upstream's names, but
upstream's records hold programs in another format, so reading one is an error.
"""

from __future__ import annotations

import copy
import io
import json
import os
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import IO, Any, TypeAlias
from zipfile import BadZipFile, ZipFile

import torch
from torch.export import ExportedProgram

from executorch_py.devtools.bundled_program.core import BundledProgram
from executorch_py.exir.program.executorch import ExecutorchProgramManager
from executorch_py.exir.program.managers import EdgeProgramManager
from executorch_py.exir.program.save_load import load, opened, save

File = str | os.PathLike[str] | IO[bytes]
Programs: TypeAlias = ExportedProgram | dict[str, ExportedProgram]
_ARCHIVE = ".pt2"


class ETRecordReservedFileNames(str, Enum):
    """Names of the file's members, which names of extra programs must not contain."""

    ETRECORD_IDENTIFIER = "ETRECORD_V0"
    EXPORTED_PROGRAM = "exported_program"
    EXPORT_GRAPH_ID = "export_graph_id"
    EDGE_DIALECT_EXPORTED_PROGRAM = "edge_dialect_exported_program"
    ET_DIALECT_GRAPH_MODULE = "et_dialect_graph_module"
    DEBUG_HANDLE_MAP_NAME = "debug_handle_map"
    DELEGATE_MAP_NAME = "delegate_map"
    INSTRUCTION_ID_TO_NUM_OUTS_MAP_NAME = "instruction_id_to_num_outs_map"
    REFERENCE_OUTPUTS = "reference_outputs"
    REPRESENTATIVE_INPUTS = "representative_inputs"


_Names = ETRecordReservedFileNames


class ETRecord:
    """The record of an export, collected by `generate_etrecord=True` or built by the caller."""

    def __init__(
        self,
        exported_program: ExportedProgram | None = None,
        export_graph_id: int | None = None,
        edge_dialect_program: Programs | None = None,
        graph_map: dict[str, ExportedProgram] | None = None,
        _debug_handle_map: Any = None,
        _delegate_map: Any = None,
        _instruction_id_to_num_outs_map: Any = None,
        _reference_outputs: dict[str, Any] | None = None,
        _representative_inputs: list[Any] | None = None,
    ) -> None:
        self.exported_program = exported_program
        self.export_graph_id = export_graph_id
        self.edge_dialect_program = edge_dialect_program
        self.graph_map = graph_map
        self._debug_handle_map = _debug_handle_map
        self._delegate_map = _delegate_map
        self._instruction_id_to_num_outs_map = _instruction_id_to_num_outs_map
        self._reference_outputs = _reference_outputs
        self._representative_inputs = _representative_inputs

    def copy(self) -> ETRecord:
        """The record without the data of a finished program."""
        new = copy.copy(self)
        new._debug_handle_map = new._delegate_map = None
        new._instruction_id_to_num_outs_map = None
        new._reference_outputs = new._representative_inputs = None
        return new

    # ---- adding data

    def add_exported_program(self, exported_program: Programs | None) -> None:
        """Record the program of torch.export, or that of `forward` if there are several methods."""
        if self.exported_program is not None or self.export_graph_id is not None:
            raise RuntimeError(_already_recorded("an exported program"))
        if isinstance(exported_program, dict):
            exported_program = exported_program.get("forward")
        if exported_program is not None:
            self.exported_program = exported_program
            self.export_graph_id = id(exported_program.graph)

    def add_edge_dialect_program(self, edge_dialect_program: EdgeProgramManager) -> None:
        """Record the edge programs in their present state."""
        if self.edge_dialect_program is not None:
            raise RuntimeError(_already_recorded("an edge program"))
        programs = _edge_programs(edge_dialect_program)
        alone = len(programs) == 1
        self.edge_dialect_program = next(iter(programs.values())) if alone else programs

    def add_executorch_program(
        self, executorch_program: ExecutorchProgramManager | BundledProgram
    ) -> None:
        """Record the debug maps of a finished program, and the test data of a bundled one."""
        if self._debug_handle_map is not None:
            raise RuntimeError(_already_recorded("a finished program"))
        program: Any = executorch_program
        if isinstance(executorch_program, BundledProgram):
            self.update_reference_outputs(executorch_program)
            self.update_representative_inputs(executorch_program)
            program = executorch_program.executorch_program
            if program is None:
                raise RuntimeError(
                    "expected a bundle of an ExecutorchProgramManager, got one of a .pte file, "
                    "which has no debug maps: bundle the manager instead"
                )
        self._debug_handle_map = program.debug_handle_map
        self._delegate_map = program.delegate_map
        self._instruction_id_to_num_outs_map = program.instruction_id_to_num_outs_map

    def add_extra_export_modules(
        self, extra_recorded_export_modules: Mapping[str, ExportedProgram | EdgeProgramManager]
    ) -> None:
        """Record further programs under names that the caller chooses."""
        self.graph_map = self.graph_map or {}
        for name, module in extra_recorded_export_modules.items():
            reserved = [member.value for member in _Names if member.value in name]
            if reserved:
                raise RuntimeError(f"the name {name!r} contains {reserved[0]!r}, which is reserved")
            programs = (
                {"forward": module}
                if isinstance(module, ExportedProgram)
                else _edge_programs(module)
            )
            self.graph_map.update({f"{name}/{method}": ep for method, ep in programs.items()})

    def update_representative_inputs(
        self, representative_inputs: Sequence[Any] | BundledProgram
    ) -> None:
        """Record example inputs, or those of a bundle's first test case of `forward`."""
        if not isinstance(representative_inputs, BundledProgram):
            self._representative_inputs = list(representative_inputs)
            return
        for suite in representative_inputs.method_test_suites:
            if suite.method_name == "forward":
                if not suite.test_cases:
                    raise ValueError("expected test cases in the bundle's suite 'forward', got 0")
                self._representative_inputs = suite.test_cases[0].inputs

    def update_reference_outputs(
        self, reference_outputs: Mapping[str, Any] | Sequence[Any] | BundledProgram
    ) -> None:
        """Record reference outputs: by method, of `forward`, or those of a bundle."""
        if isinstance(reference_outputs, BundledProgram):
            self._reference_outputs = {
                suite.method_name: [_expected(suite.method_name, c) for c in suite.test_cases]
                for suite in reference_outputs.method_test_suites
            }
        elif isinstance(reference_outputs, Mapping):
            self._reference_outputs = dict(reference_outputs)
        else:
            self._reference_outputs = {"forward": list(reference_outputs)}

    # ---- saving

    def save(self, path: File) -> None:
        """Write the record, which must have an edge program and a finished program."""
        if not (self.edge_dialect_program and self._debug_handle_map):
            missing = "finished program" if self.edge_dialect_program else "edge program"
            raise RuntimeError(
                f"the record has no {missing}: add it, or use the record that get_etrecord() "
                "returns after to_executorch()"
            )
        edge = self.edge_dialect_program
        edge_programs = edge if isinstance(edge, dict) else {"forward": edge}
        prefix = _Names.EDGE_DIALECT_EXPORTED_PROGRAM.value
        with opened(path) as stream, ZipFile(stream, "w") as file:
            file.writestr(_Names.ETRECORD_IDENTIFIER.value, "")
            if self.exported_program is not None:
                _write_program(file, _Names.EXPORTED_PROGRAM.value, self.exported_program)
            for method, program in edge_programs.items():
                _write_program(file, f"{prefix}/{method}", program)
            for name, program in (self.graph_map or {}).items():
                _write_program(file, name, program)
            for member, value in self._maps().items():
                if value is not None:
                    file.writestr(member, json.dumps(value))
            for member, value in self._tensors().items():
                if value is not None:
                    buffer = io.BytesIO()
                    torch.save(value, buffer)
                    file.writestr(member, buffer.getvalue())

    def _maps(self) -> dict[str, Any]:
        return {
            _Names.DEBUG_HANDLE_MAP_NAME.value: self._debug_handle_map,
            _Names.DELEGATE_MAP_NAME.value: self._delegate_map,
            _Names.INSTRUCTION_ID_TO_NUM_OUTS_MAP_NAME.value: self._instruction_id_to_num_outs_map,
            _Names.EXPORT_GRAPH_ID.value: self.export_graph_id,
        }

    def _tensors(self) -> dict[str, Any]:
        return {
            _Names.REFERENCE_OUTPUTS.value: self._reference_outputs,
            _Names.REPRESENTATIVE_INPUTS.value: self._representative_inputs,
        }


def _already_recorded(part: str) -> str:
    return f"the record has {part} already; make a new ETRecord for another one"


def _edge_programs(manager: Any) -> dict[str, ExportedProgram]:
    if not isinstance(manager, EdgeProgramManager):
        raise RuntimeError(
            "ETRecord: expected an ExportedProgram or an EdgeProgramManager, got "
            f"{type(manager).__name__}"
        )
    return {name: manager.exported_program(name) for name in sorted(manager.methods)}


def _expected(method: str, case: Any) -> Any:
    if not case.expected_outputs:
        raise ValueError(f"expected outputs in each test case of {method!r}, got a case with none")
    return case.expected_outputs


def _write_program(file: ZipFile, name: str, program: ExportedProgram) -> None:
    with file.open(name + _ARCHIVE, "w", force_zip64=True) as member:
        save(program, member)


def generate_etrecord(
    et_record: File,
    edge_dialect_program: EdgeProgramManager,
    executorch_program: ExecutorchProgramManager | BundledProgram,
    exported_program: Programs | None = None,
    extra_recorded_export_modules: Mapping[str, ExportedProgram | EdgeProgramManager] | None = None,
) -> None:
    """Write the record of an export from the programs of its stages."""
    record = ETRecord()
    record.add_exported_program(exported_program)
    record.add_edge_dialect_program(edge_dialect_program)
    record.add_executorch_program(executorch_program)
    if extra_recorded_export_modules is not None:
        record.add_extra_export_modules(extra_recorded_export_modules)
    record.save(et_record)


def parse_etrecord(etrecord_path: File) -> ETRecord:
    """Read a record; RuntimeError if the file is no ETRecord."""
    try:
        file = ZipFile(etrecord_path)
    except BadZipFile:
        raise RuntimeError(f"{etrecord_path} is no ETRecord: it is not a zip file") from None
    with file:
        names = file.namelist()
        if _Names.ETRECORD_IDENTIFIER.value not in names:
            raise RuntimeError(
                f"{etrecord_path} is no ETRecord: it has no member "
                f"{_Names.ETRECORD_IDENTIFIER.value}"
            )
        if f"{_Names.EDGE_DIALECT_EXPORTED_PROGRAM.value}/forward_state_dict" in names:
            raise RuntimeError(
                f"{etrecord_path}: expected a record of this package, got one of ExecuTorch, whose "
                "format of programs is not supported; generate the record with this package"
            )
        return _read(file, names)


def _read(file: ZipFile, names: Sequence[str]) -> ETRecord:
    programs = {
        name.removesuffix(_ARCHIVE): load(io.BytesIO(file.read(name)))
        for name in names
        if name.endswith(_ARCHIVE)
    }
    prefix = _Names.EDGE_DIALECT_EXPORTED_PROGRAM.value + "/"
    edge = {n.removeprefix(prefix): p for n, p in programs.items() if n.startswith(prefix)}
    exported = programs.get(_Names.EXPORTED_PROGRAM.value)
    extra = {
        name: program
        for name, program in programs.items()
        if not name.startswith(prefix) and name != _Names.EXPORTED_PROGRAM.value
    }

    def stored(member: _Names) -> Any:
        return json.loads(file.read(member.value)) if member.value in names else None

    def tensors(member: _Names) -> Any:
        if member.value not in names:
            return None
        return torch.load(io.BytesIO(file.read(member.value)), weights_only=True)

    return ETRecord(
        exported_program=exported,
        export_graph_id=stored(_Names.EXPORT_GRAPH_ID),
        edge_dialect_program=next(iter(edge.values())) if len(edge) == 1 else edge,
        graph_map=extra,
        _debug_handle_map=stored(_Names.DEBUG_HANDLE_MAP_NAME),
        _delegate_map=stored(_Names.DELEGATE_MAP_NAME),
        _instruction_id_to_num_outs_map=stored(_Names.INSTRUCTION_ID_TO_NUM_OUTS_MAP_NAME),
        _reference_outputs=tensors(_Names.REFERENCE_OUTPUTS),
        _representative_inputs=tensors(_Names.REPRESENTATIVE_INPUTS),
    )
