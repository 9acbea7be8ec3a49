"""The entry: opening programs, and what this build can run. Names are upstream's."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from enum import IntEnum
from os import PathLike
from typing import Any, BinaryIO

from executorch_py import _C
from executorch_py.errors import NotSupported
from executorch_py.runtime.backend_options import xnnpack_options
from executorch_py.runtime.program import Program, no_etdump


class Verification(IntEnum):
    """How much of a file is checked before use. Minimal is for bytes whose integrity is known."""

    Minimal = 0
    InternalConsistency = 1


class BackendRegistry:
    """The delegates this build can run."""

    @property
    def registered_backend_names(self) -> list[str]:
        """Their ids."""
        return _C.backend_names()

    def is_available(self, backend_name: str) -> bool:
        """Whether programs delegated to this backend can run."""
        return backend_name in _C.backend_names()


class OperatorRegistry:
    """The operators that can run here: those of this build and of loaded libraries."""

    @property
    def operator_names(self) -> set[str]:
        """Their names, overloads included."""
        return set(_C.kernel_manifest())


def load_ops(path: str | PathLike[str], *, replace: bool = False) -> list[str]:
    """Load a library of operators, built by `executorch_py build-ops`; returns their names.

    Methods that are loaded from now on can call them, of every program in this process, and the
    exporter knows them. The library stays loaded; loading it again changes nothing. An operator
    that exists already is refused unless replace=True, which puts the new one in front.
    """
    return _C.load_ops(os.path.abspath(path), replace=replace)


def loaded_ops() -> dict[str, list[str]]:
    """The operators of each loaded library, by its path, newest first."""
    return dict(_C.loaded_ops())


# Threads of programs opened without saying; 0 = every CPU this process may use.
_default_threads = 0


def set_default_threads(n: int) -> None:
    """The number of threads of programs opened from now on; 0 = all CPUs."""
    global _default_threads
    _default_threads = n


def default_threads() -> int:
    """The number of threads of programs opened without saying."""
    return _default_threads or int(_C.system_info()["cpu_count"])


class Runtime:
    """Opens programs. Runtime.get() returns the one instance."""

    _instance: Runtime | None = None

    def __init__(self) -> None:
        self.backend_registry = BackendRegistry()
        self.operator_registry = OperatorRegistry()

    @staticmethod
    def get() -> Runtime:
        """The one instance."""
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

        Of a mapped file, a load lets go of the memory of weights that XNNPACK has packed.

        data_path: the .ptd file with external weights, or a list of them (paths or bytes).
        n_threads: how many threads kernels may use; by default every CPU this process may use.
        backend_options: by backend id. For "XnnpackBackend":
          workspace_sharing_mode: WorkspaceSharing.PerModel (default), .Disabled or .Global.
          weight_cache_enabled: packed weights are shared by all methods and programs of the process
            that have the same (default True). Programs that share them trust each other's keys.
          packed_cache_path: a file that keeps them packed instead, for this program: mapped when it
            is there, written after a load or a first run that packed anything new. One that is
            damaged or was made by another XNNPACK or for another CPU is replaced, with a
            RuntimeWarning; weights are verified by the first run, before anything reads them.
          save_weight_cache_on_disk: False leaves that file as it is.
        """
        if enable_etdump or debug_buffer_size:
            raise NotSupported(no_etdump("enable_etdump"))
        threads = _default_threads if n_threads is None else n_threads
        level = _level(verification)
        program = _C.open_program(
            _source(data, "data"),
            _data_files(data_path),
            verification=level,
            n_threads=threads,
            xnnpack=xnnpack_options(backend_options),
        )
        return Program(program)


def _level(verification: Any) -> int:
    if not isinstance(verification, Verification):
        raise TypeError(
            f"verification is {verification!r}, needs Verification.InternalConsistency or .Minimal"
        )
    return _C.VERIFY_MINIMAL if verification is Verification.Minimal else _C.VERIFY_FULL


def _source(data: Any, word: str) -> Any:
    """Source as the extension opens it: a path or a buffer."""
    if isinstance(data, (str, PathLike, bytes, bytearray, memoryview)):
        return data
    if hasattr(data, "read"):
        content = data.read()
        if isinstance(content, (bytes, bytearray, memoryview)):
            return content
        raise TypeError(
            f"{word}.read() returned {type(content).__name__}, needs bytes: open it with 'rb'"
        )
    raise TypeError(
        f"{word} is {type(data).__name__}, needs bytes, bytearray, memoryview, a path to a file, "
        "or a file object open for reading bytes"
    )


def _data_files(data_path: Any) -> Sequence[Any]:
    if data_path is None:
        return ()
    many = isinstance(data_path, (list, tuple))
    return [_source(item, "data_path") for item in (data_path if many else [data_path])]
