"""Calls from the exporter to packages above it: devtools, testing and the runtime.

`generate_etrecord=True`, `program.verify(…)` and `program.run(…)` are conveniences: they offer on a
program what another package does with it. Each is one function here, which imports that package
when it is called. No other module of exir may import one of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch.export import ExportedProgram

    from executorch_py.exir.program.executorch import ExecutorchProgramManager
    from executorch_py.exir.program.managers import EdgeProgramManager
    from executorch_py.runtime import Method as Method
    from executorch_py.testing.parity import ParityReport as ParityReport


def start_record(methods: dict[str, ExportedProgram], manager: EdgeProgramManager) -> Any:
    """An ETRecord of the exported programs and of their edge programs as they are now."""
    from executorch_py.devtools.etrecord import ETRecord

    record = ETRecord()
    record.add_exported_program(methods)
    record.add_edge_dialect_program(manager)
    return record


def compare_with_model(
    program: ExecutorchProgramManager, model: Any, *inputs: Any, **options: Any
) -> ParityReport:
    """The report of testing.parity on a program and the model that it was exported from."""
    from executorch_py.testing.parity import verify_program

    return verify_program(program, model, *inputs, **options)


def load_method(program: bytes, data: list[bytes], method: str) -> Method:
    """A method of a program on the C runtime, loaded anew."""
    from executorch_py.runtime import Runtime

    return Runtime.get().load_program(program, data_path=data or None).load_method(method)
