"""Runtime: opens programs, and has registries of operators and backends. Names are upstream's."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from enum import IntEnum
from os import PathLike
from typing import Any, BinaryIO

from executorch_py import _C
from executorch_py.errors import NotSupported
from executorch_py.runtime.backend_options import whole_number, xnnpack_options
from executorch_py.runtime.program import Program, no_etdump, open_program


class Verification(IntEnum):
    """Level of checks of a file before use. Minimal is for files whose integrity is known."""

    Minimal = 0
    InternalConsistency = 1


class BackendRegistry:
    """The backends of this build."""

    @property
    def registered_backend_names(self) -> list[str]:
        """Ids of the backends."""
        return _C.backend_names()

    def is_available(self, backend_name: str) -> bool:
        """Whether this build has the backend."""
        return backend_name in _C.backend_names()


class OperatorRegistry:
    """The operators of this build and of loaded libraries."""

    @property
    def operator_names(self) -> set[str]:
        """Names of the operators, with overloads."""
        return set(_C.kernel_manifest())


def load_ops(path: str | PathLike[str], *, replace: bool = False) -> list[str]:
    """Load a library of operators, built by `executorch_py build-ops`; returns their names.

    Methods of every program in this process that are loaded later can call them, and the exporter
    knows them. The library stays loaded; loading it again has no effect. An operator that exists
    already is an error unless replace=True, which makes the new one take precedence.
    """
    return _C.load_ops(os.path.abspath(path), replace=replace)


def loaded_ops() -> dict[str, list[str]]:
    """The operators of each loaded library, by its path, newest first."""
    return dict(_C.loaded_ops())


# Default number of threads of programs; 0 = every CPU that this process may use.
_default_threads = 0


def set_default_threads(n: int) -> None:
    """Sets the default number of threads of programs opened later; 0 = all CPUs."""
    global _default_threads
    _default_threads = whole_number("n", n)


def default_threads() -> int:
    """The default number of threads of programs."""
    return _default_threads or int(_C.system_info()["cpu_count"])


class Runtime:
    """The runtime, which opens programs; Runtime.get() returns its only instance."""

    _instance: Runtime | None = None

    def __init__(self) -> None:
        self.backend_registry = BackendRegistry()
        self.operator_registry = OperatorRegistry()

    @staticmethod
    def get() -> Runtime:
        """The only instance."""
        if Runtime._instance is None:
            Runtime._instance = Runtime()
        return Runtime._instance

    def load_program(
        self,
        data: bytes | bytearray | memoryview | BinaryIO | PathLike[str] | str,
        *,
        verification: Verification = Verification.InternalConsistency,
        enable_etdump: bool = False,
        debug_buffer_size: int = 0,
        data_path: Any = None,
        n_threads: int | None = None,
        backend_options: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> Program:
        """Opens a .pte from a path (mapped), bytes (used in place) or a binary file object.

        When XNNPACK has packed weights of a mapped file, a load discards the pages of their source.

        data_path: the .ptd file with external weights, or a list of them (paths or bytes).
        n_threads: number of threads of kernels; by default every CPU that this process may use.
        backend_options: by backend id. For "XnnpackBackend":
          workspace_sharing_mode: WorkspaceSharing.PerModel (default), .Disabled or .Global.
          weight_cache_enabled: all methods and programs of the process share equal packed weights
            (default True). Those of one program are known by name; another program packs its own
            first, and their bytes are compared.
          packed_cache_path: a file of packed weights for this program. It is mapped if it exists,
            and written after a load or a first run that packed new weights. A file that is damaged
            or belongs to another version of XNNPACK or another CPU is replaced, with a
            RuntimeWarning; the first run verifies weights before it reads them. Write access to the
            file is write access to the results of every program that is loaded with it.
          save_weight_cache_on_disk: if False, that file is not written.
        """
        if enable_etdump or debug_buffer_size:
            raise NotSupported(no_etdump("enable_etdump"))
        threads = _default_threads if n_threads is None else whole_number("n_threads", n_threads)
        level = _level(verification)
        options = {"n_threads": threads, "xnnpack": xnnpack_options(backend_options)}
        program = open_program(
            _source(data, "data"), _data_files(data_path), verification=level, **options
        )
        return Program(program, options=options)


def _level(verification: Any) -> int:
    if not isinstance(verification, Verification):
        raise TypeError(
            "verification: expected Verification.InternalConsistency or Verification.Minimal, got "
            f"{verification!r}"
        )
    return _C.VERIFY_MINIMAL if verification is Verification.Minimal else _C.VERIFY_FULL


def _source(data: Any, name: str) -> Any:
    """The source in a form that the extension opens: a path or a buffer."""
    if isinstance(data, (str, PathLike, bytes, bytearray, memoryview)):
        return data
    if hasattr(data, "read"):
        content = data.read()
        if isinstance(content, (bytes, bytearray, memoryview)):
            return content
        raise TypeError(
            f"{name}.read(): expected bytes, got {type(content).__name__}: open it with 'rb'"
        )
    advice = f": pass {name}.buffer" if hasattr(data, "buffer") else ""
    raise TypeError(
        f"{name}: expected bytes, bytearray, memoryview, a path to a file, or a file object open "
        f"for reading bytes, got {type(data).__name__}{advice}"
    )


def _data_files(data_path: Any) -> Sequence[Any]:
    if data_path is None:
        return ()
    many = isinstance(data_path, (list, tuple))
    return [_source(item, "data_path") for item in (data_path if many else [data_path])]
