"""The runtime's older Python interface, with upstream's names.

Modules, programs and methods have flat lists of inputs and outputs. The classes are a layer over
executorch_py.runtime. Two differences from upstream are for safety: inputs of another layout are
converted instead of misread, and full verification is the default of every loader. Functions that
this version lacks (events) raise NotSupported.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from os import PathLike
from typing import Any, NoReturn

from executorch_py import _C
from executorch_py.errors import InvalidArgument, NotSupported
from executorch_py.extension.pybindings.data_loader import PyDataLoader
from executorch_py.runtime.metadata import MethodMeta, TensorInfo
from executorch_py.runtime.method import prepare
from executorch_py.runtime.program import no_etdump, open_program
from executorch_py.runtime.runtime import (
    Verification,
    _data_files,
    default_threads,
    set_default_threads,
)
from executorch_py.runtime.signature import Signature
from executorch_py.terminal_text import quoted, quoted_list


def _open(
    source: Any, data: Any, enable_etdump: bool, debug_buffer_size: int, verification: Verification
) -> _C.Program:
    if enable_etdump or debug_buffer_size:
        raise NotSupported(no_etdump("enable_etdump"))
    level = _C.VERIFY_MINIMAL if verification == Verification.Minimal else _C.VERIFY_FULL
    n_threads = default_threads()
    return open_program(source, _data_files(data), verification=level, n_threads=n_threads)


def _flat(inputs: Any) -> Sequence[Any]:
    """The inputs as a sequence; a single tensor becomes a sequence of one."""
    return inputs if isinstance(inputs, (list, tuple)) else (inputs,)


class _Methods:
    """Methods of one program, loaded when first used.

    Methods share the program's planned memory, and the state that has the same offset in each. With
    `reopen`, which opens the program again, every method has its own memory.
    """

    def __init__(self, program: _C.Program, reopen: Callable[[], _C.Program] | None = None) -> None:
        self.program = program
        self._reopen = reopen
        self._loaded: dict[str, _C.Method] = {}

    def info(self, name: str) -> dict[str, Any]:
        names = self.program.method_names()
        if name not in names:
            raise InvalidArgument(
                f"the program has no method {quoted(name)}; it has {quoted_list(sorted(names))} "
                "[InvalidArgument, error: 0x12]"
            )
        return self.program.method_info(name)

    def get(self, name: str) -> _C.Method:
        method = self._loaded.get(name)
        if method is None:
            info = self.info(name)
            program = self._reopen() if self._reopen and self._loaded else self.program
            method = self._loaded[name] = program.load_method(name)
            prepare(method, info, lambda: Signature(info))
        return method


class ExecuTorchModule:
    """A program whose methods run by name, each with its own state."""

    def __init__(self, open_program: Callable[[], _C.Program]) -> None:
        self._methods = _Methods(open_program(), open_program)

    def run_method(
        self, method_name: str, inputs: Any = (), clone_outputs: bool = True
    ) -> list[Any]:
        return self._methods.get(method_name).execute(_flat(inputs), clone_outputs)

    def forward(self, inputs: Any = (), clone_outputs: bool = True) -> list[Any]:
        return self.run_method("forward", inputs, clone_outputs)

    def __call__(self, inputs: Any = (), clone_outputs: bool = True) -> list[Any]:
        return self.forward(inputs, clone_outputs)

    def plan_execute(self, method_name: str, clone_outputs: bool = True) -> list[Any]:
        """Runs with the inputs that were set before."""
        method = self._methods.get(method_name)
        method.run()
        return method.outputs(clone_outputs)

    def method_meta(self, method_name: str) -> MethodMeta:
        return MethodMeta(self._methods.info(method_name))

    def method_names(self) -> list[str]:
        return self._methods.program.method_names()

    def has_etdump(self) -> bool:
        return False

    def write_etdump_result_to_file(self, path: str, debug_buffer_path: Any = None) -> None:
        raise NotSupported(no_etdump("write_etdump_result_to_file"))


class ExecuTorchMethod:
    """One loaded method, with inputs, run and outputs as separate steps."""

    def __init__(self, method: _C.Method, meta: MethodMeta) -> None:
        self._method = method
        self._meta = meta

    def set_inputs(self, inputs: Any) -> None:
        self._method.set_inputs(_flat(inputs))

    def execute(self) -> None:
        self._method.run()

    def get_outputs(self, clone_outputs: bool = True) -> list[Any]:
        return self._method.outputs(clone_outputs)

    def call(self, inputs: Any = (), clone_outputs: bool = True) -> list[Any]:
        return self._method.execute(_flat(inputs), clone_outputs)

    def __call__(self, inputs: Any = (), clone_outputs: bool = True) -> list[Any]:
        return self.call(inputs, clone_outputs)

    def method_meta(self) -> MethodMeta:
        return self._meta

    def get_attribute(self, name: str) -> Any:
        return self._method.attribute(name)


class ExecuTorchProgram:
    """A program whose methods are loaded one by one and share their planned memory."""

    def __init__(self, program: _C.Program) -> None:
        self._methods = _Methods(program)

    def num_methods(self) -> int:
        return len(self._methods.program.method_names())

    def get_method_name(self, method_index: int) -> str:
        names = self._methods.program.method_names()
        if not 0 <= method_index < len(names):
            raise InvalidArgument(
                f"method_index: expected at least 0 and less than {len(names)}, the number of "
                f"methods, got {method_index} [InvalidArgument, error: 0x12]"
            )
        return names[method_index]

    def load_method(self, method_name: str) -> ExecuTorchMethod:
        return ExecuTorchMethod(self._methods.get(method_name), self.method_meta(method_name))

    def method_meta(self, method_name: str) -> MethodMeta:
        return MethodMeta(self._methods.info(method_name))

    def has_etdump(self) -> bool:
        return False

    def write_etdump_result_to_file(self, path: str, debug_buffer_path: Any = None) -> None:
        raise NotSupported(no_etdump("write_etdump_result_to_file"))


class BundledModule:
    """A program with test cases inside; reading them needs torch."""

    def __init__(self, buffer: bytes | bytearray | memoryview) -> None:
        from executorch_py.devtools.bundled_program.serialize import (
            deserialize_from_flatbuffer_to_bundled_program,
        )

        self._bundle = deserialize_from_flatbuffer_to_bundled_program(bytes(buffer))

    def verify_result_with_bundled_expected_output(
        self, method_name: str, testset_idx: int, rtol: float = 1e-5, atol: float = 1e-8
    ) -> list[Any]:
        """Runs a test case on a new program; returns its outputs, or raises the difference."""
        from executorch_py.devtools.bundled_program.verify import find_case, verify_case

        try:
            case = find_case(self._bundle, method_name, testset_idx)
        except LookupError as error:
            raise InvalidArgument(f"{error.args[0]} [InvalidArgument, error: 0x12]") from None
        module = _load_for_executorch_from_bundled_program(self)
        run = partial(module.run_method, method_name)
        where = f"method {method_name!r}, test case {testset_idx}"
        return verify_case(run, case, where, rtol, atol)


def _load_for_executorch(
    program_path: str | PathLike[str],
    data_path: Any = None,
    enable_etdump: bool = False,
    debug_buffer_size: int = 0,
    program_verification: Verification = Verification.InternalConsistency,
) -> ExecuTorchModule:
    """Opens a .pte file (mapped), with its .ptd file if it has one."""
    return ExecuTorchModule(
        partial(
            _open, program_path, data_path, enable_etdump, debug_buffer_size, program_verification
        )
    )


def _load_for_executorch_from_buffer(
    buffer: bytes | bytearray | memoryview,
    data_map_buffer: Any = None,
    enable_etdump: bool = False,
    debug_buffer_size: int = 0,
    program_verification: Verification = Verification.InternalConsistency,
) -> ExecuTorchModule:
    """Opens a program in memory."""
    return ExecuTorchModule(
        partial(
            _open, buffer, data_map_buffer, enable_etdump, debug_buffer_size, program_verification
        )
    )


def _load_for_executorch_from_data_loader(
    loader: PyDataLoader,
    data_path: Any = None,
    enable_etdump: bool = False,
    debug_buffer_size: int = 0,
    program_verification: Verification = Verification.InternalConsistency,
) -> ExecuTorchModule:
    """Opens the program of a PyDataLoader."""
    return ExecuTorchModule(
        partial(
            _open, loader.source, data_path, enable_etdump, debug_buffer_size, program_verification
        )
    )


def _load_program(
    path: str | PathLike[str],
    enable_etdump: bool = False,
    debug_buffer_size: int = 0,
    program_verification: Verification = Verification.InternalConsistency,
    data_path: Any = None,
) -> ExecuTorchProgram:
    """Opens a .pte file (mapped)."""
    return ExecuTorchProgram(
        _open(path, data_path, enable_etdump, debug_buffer_size, program_verification)
    )


def _load_program_from_buffer(
    buffer: bytes | bytearray | memoryview,
    enable_etdump: bool = False,
    debug_buffer_size: int = 0,
    program_verification: Verification = Verification.InternalConsistency,
) -> ExecuTorchProgram:
    """Opens a program in memory."""
    return ExecuTorchProgram(
        _open(buffer, None, enable_etdump, debug_buffer_size, program_verification)
    )


def _load_bundled_program_from_buffer(
    buffer: bytes | bytearray | memoryview, non_const_pool_size: int = 16 * 1024
) -> BundledModule:
    """Opens a bundled program in memory; the pool size is ignored."""
    return BundledModule(buffer)


def _load_for_executorch_from_bundled_program(
    module: BundledModule,
    data_map_buffer: Any = None,
    enable_etdump: bool = False,
    debug_buffer_size: int = 0,
    program_verification: Verification = Verification.InternalConsistency,
) -> ExecuTorchModule:
    """Opens the program inside a bundle."""
    return _load_for_executorch_from_buffer(
        module._bundle.program,
        data_map_buffer,
        enable_etdump,
        debug_buffer_size,
        program_verification,
    )


def _get_operator_names() -> list[str]:
    """Operators that this build can run."""
    return list(_C.kernel_manifest())


def _get_registered_backend_names() -> list[str]:
    """Delegates that this build can run."""
    return _C.backend_names()


def _is_available(backend_name: str) -> bool:
    return backend_name in _C.backend_names()


def _no_profiling(name: str) -> NoReturn:
    raise NotSupported(
        f"{name}: this version records no profile; time runs with `executorch_py run --repeat` "
        "[NotSupported, error: 0x10]"
    )


def _create_profile_block(name: str) -> None:
    _no_profiling("_create_profile_block")


def _dump_profile_results() -> bytes:
    _no_profiling("_dump_profile_results")


def _reset_profile_results() -> None:
    _no_profiling("_reset_profile_results")


def _unsafe_reset_threadpool(num_threads: int) -> None:
    """Number of threads of programs opened later. It is safe: open programs keep their threads."""
    if num_threads < 1:
        raise InvalidArgument(
            f"num_threads: expected 1 or more, got {num_threads} [InvalidArgument, error: 0x12]"
        )
    set_default_threads(num_threads)


def _threadpool_get_thread_count() -> int:
    return default_threads()


__all__ = [
    "BundledModule",
    "ExecuTorchMethod",
    "ExecuTorchModule",
    "ExecuTorchProgram",
    "MethodMeta",
    "PyDataLoader",
    "TensorInfo",
    "Verification",
]
