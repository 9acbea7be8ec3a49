"""An opened program: its methods, their metadata and signatures, and its packed weights."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from executorch_py import _C
from executorch_py.errors import ExecutorchError, NotFound, NotSupported
from executorch_py.runtime.metadata import MethodMeta
from executorch_py.runtime.method import Method
from executorch_py.terminal_text import quoted, quoted_list

if TYPE_CHECKING:
    from executorch_py.runtime.signature import Signature


def open_program(source: Any, data: Sequence[Any] = (), **options: Any) -> _C.Program:
    """The opened program, as by the extension; errors name a file of another kind."""
    try:
        return _C.open_program(source, data, **options)
    except ExecutorchError as error:
        from executorch_py.runtime.file_kinds import explained

        if (better := explained(error, source, data)) is not None:
            raise better from None
        raise


class Program:
    """An opened program, made by Runtime.load_program(); usable as a context manager.

    A program keeps the file's bytes alive.
    """

    def __init__(
        self, program: _C.Program, data: Any = None, options: Mapping[str, Any] | None = None
    ) -> None:
        self._program = program
        self._data = data  # kept alive for a script that made the program of it
        self._options = dict(options or {})  # of open_program, for reopened()
        self._sha256: str | None = None
        self._names = tuple(program.method_names())
        self._methods: dict[str, Method] = {}
        self._infos: dict[str, dict[str, Any]] = {}

    @property
    def method_names(self) -> set[str]:
        return set(self._names)

    def load_method(self, name: str) -> Method:
        """Loads a method once; later calls return the same object. KeyError for unknown names."""
        if name in self._methods:
            return self._methods[name]
        info = self._info(name)
        loaded = self._program.load_method(name)
        method = Method(loaded, info, self.n_threads)
        # Two threads may load the method at once: both use the first one's, which has the state.
        return self._methods.setdefault(name, method)

    def metadata(self, method_name: str) -> MethodMeta:
        """Metadata of a method, without loading it."""
        return MethodMeta(self._info(method_name))

    def method_signature(self, method_name: str = "forward") -> Signature:
        """Inputs and outputs of a method, without loading it."""
        from executorch_py.runtime.signature import Signature

        return Signature(self._info(method_name))

    @property
    def signature(self) -> Signature:
        """The signature of the main method: `forward`, or the only one."""
        return self.method_signature(self._main_method())

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the main method with the arguments of the exported model, in its structure."""
        return self.load_method(self._main_method())(*args, **kwargs)

    def _main_method(self) -> str:
        if "forward" in self._names or len(self._names) != 1:
            return "forward"
        return self._names[0]

    def _info(self, name: str) -> dict[str, Any]:
        info = self._infos.get(name)
        if info is None:
            if not isinstance(name, str):
                raise TypeError(f"a method's name: expected str, got {name!r}")
            if name not in self._names:
                raise NotFound(
                    f"the program has no method {quoted(name)}; it has "
                    f"{quoted_list(sorted(self._names))} "
                    "[NotFound, error: 0x20]"
                )
            info = self._infos[name] = self._program.method_info(name)
        return info

    @property
    def packed_weights(self) -> dict[str, Any]:
        """Packed weights of XNNPACK, of all programs that share them; empty if none are shared.

        Keys: `weights` (their number) and `bytes`; `mapped` and `mapped_bytes`, those in the file;
        `packed`, `shared` and `damaged` so far; `repacked`, those of the shared that were packed
        before they were found equal; `unproven`, those with names that are not hashes of their
        bytes, which no file keeps; `note`, the reason why the file was not used.
        """
        return self._program.delegate_facts()

    @property
    def named_data(self) -> dict[str, int]:
        """Bytes of each named blob that the file carries, by key."""
        return self._program.named_data()

    def named_bytes(self, key: str) -> memoryview | bytes:
        """The bytes of a named blob: a view of a mapped file. NotFound for another key."""
        return self._program.named_bytes(key)

    @property
    def n_threads(self) -> int:
        return self._program.n_threads

    def reopened(self) -> Program:
        """A program over the same bytes, not copied, with methods and state of its own."""
        again = open_program(
            self._program.buffer(),
            self._program.data_buffers(),
            verification=_C.VERIFY_MINIMAL,
            **self._options,
        )
        program = Program(again, self._data, self._options)
        program._sha256 = self._sha256
        return program

    @property
    def sha256(self) -> str:
        """SHA-256 of the program's bytes and its external data, which is read once for it."""
        if self._sha256 is None:
            digest = hashlib.sha256()
            for content in (self._program.buffer(), *self._program.data_buffers()):
                digest.update(len(content).to_bytes(8, "little"))
                digest.update(content.data)
            self._sha256 = digest.hexdigest()
        return self._sha256

    @property
    def closed(self) -> bool:
        return self._program.closed

    def close(self) -> None:
        """Frees the program, its methods and its bytes; views of outputs stay valid."""
        self._program.close()
        self._methods.clear()

    def __enter__(self) -> Program:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def write_etdump_result_to_file(self, etdump_path: str, debug_buffer_path: str) -> None:
        """Upstream's function to save a trace; raises NotSupported with a remedy."""
        raise NotSupported(no_etdump("write_etdump_result_to_file"))

    def __repr__(self) -> str:
        state = "closed " if self.closed else ""
        return f"<{state}Program with methods {quoted_list(self._names)}>"


def no_etdump(name: str) -> str:
    """Error message of a function or argument that needs an ETDump."""
    return (
        f"{name}: this version records no ETDump; run without it, or profile with "
        "`executorch_py run --profile` [NotSupported, error: 0x10]"
    )
