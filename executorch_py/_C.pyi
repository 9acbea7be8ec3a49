"""The C runtime as a CPython extension. Use `executorch_py.runtime`, which is built on it.

Ownership: a Program keeps its file's bytes alive, a Method its Program. Arrays that view runtime
memory (`clone_outputs=False`, `Program.buffer`) hold the memory itself and stay valid after
close(); a view's contents change with the next run. Every failure is an ExecutorchError.
"""

from collections.abc import Callable, Sequence
from mmap import mmap
from os import PathLike
from typing import Any, ClassVar, Literal, Protocol, TypedDict, final, type_check_only

import numpy as np
import numpy.typing as npt

VERIFY_FULL: int
VERIFY_MINIMAL: int

class ExecutorchError(RuntimeError):
    """Base class of the runtime's exceptions."""

    status: ClassVar[int]
    name: ClassVar[str]

class AccessFailed(ExecutorchError, OSError):  # 0x22
    ...
class AlreadyLoaded(ExecutorchError):  # 0x04
    ...
class DelegateInvalidCompatibility(ExecutorchError):  # 0x30
    ...
class DelegateInvalidHandle(ExecutorchError):  # 0x32
    ...
class DelegateMemoryAllocationFailed(ExecutorchError, MemoryError):  # 0x31
    ...
class EndOfMethod(ExecutorchError):  # 0x03
    ...
class Internal(ExecutorchError):  # 0x01
    ...
class Interrupted(ExecutorchError):  # 0x40
    ...
class InvalidArgument(ExecutorchError, ValueError):  # 0x12
    ...
class InvalidExternalData(ExecutorchError, ValueError):  # 0x24
    ...
class InvalidProgram(ExecutorchError, ValueError):  # 0x23
    ...
class InvalidState(ExecutorchError):  # 0x02
    ...
class InvalidType(ExecutorchError, TypeError):  # 0x13
    ...
class MemoryAllocationFailed(ExecutorchError, MemoryError):  # 0x21
    ...
class NotFound(ExecutorchError, KeyError):  # 0x20
    ...
class NotImplemented(ExecutorchError, NotImplementedError):  # 0x11
    ...
class NotSupported(ExecutorchError):  # 0x10
    ...
class OperatorMissing(ExecutorchError, NotImplementedError):  # 0x14
    ...
class OutOfResources(ExecutorchError, MemoryError):  # 0x25
    ...

@type_check_only
class KernelFacts(TypedDict):
    inputs: list[str]
    outputs: list[str]
    max_rank: int
    n_args: int

@type_check_only
class XnnpackInfo(TypedDict):
    version: str
    instruction_sets: list[str]
    own_kernels: list[str]

@type_check_only
class SystemInfo(TypedDict):
    machine: str
    cpu_features: list[str]
    xnnpack: XnnpackInfo | None
    cpu_count: int
    compiler: str
    version: str

@type_check_only
class InputState(TypedDict):
    address: int | None
    borrowed: bool

@type_check_only
class InstructionRecord(TypedDict):
    instruction: int
    operator: str
    calls: int
    ns: int
    bytes: int
    written: int
    tensors: list[tuple[str, tuple[int, ...]]]
    nodes: list[tuple[str, int, int]]  # of a delegate: name, nanoseconds, debug handle or -1

@type_check_only
class MemoryUse(TypedDict):
    method: int
    scratch: int
    planned: list[int]

_Kind = Literal["numpy", "torch"] | None

@final
class Memory:
    """Bytes owned by the runtime; the base object of arrays that view them."""

@final
class Program:
    """An opened program; made by open_program()."""

    @property
    def closed(self) -> bool: ...
    @property
    def n_threads(self) -> int: ...
    @property
    def nbytes(self) -> int:
        """Size of the file; 0 once closed."""
    @property
    def ownership(self) -> str:
        """`mapped` file, `borrowed` buffer (pinned), `copied`, or `closed`."""

    def load_method(self, name: str, /) -> Method:
        """Measures and loads a method into memory of its own.

        Planned buffers are shared by all methods of a program, so state in mutable buffers is per
        program. InvalidArgument for an unknown name, OperatorMissing and NotFound for kernels and
        backends that this build lacks (all of them are named).
        """
    def method_names(self) -> list[str]: ...
    def method_info(self, name: str, /) -> dict[str, Any]:
        """Facts of a method without loading it.

        Keys: name, inputs, outputs, attributes (dicts with tag, and for tensors dtype, dtype_name,
        sizes, dim_order, nbytes, planned, dynamic, name), n_values, n_instructions, planned
        (bytes per buffer), operators (name, calls), delegates (id, calls, nbytes),
        input_structure, output_structure.
        """
    def named_data(self) -> dict[str, int]:
        """Bytes of each named blob of the file."""

    def named_bytes(self, key: str, /) -> memoryview | bytes:
        """The bytes of a named blob: a view of a mapped file, which it keeps, or a copy. NotFound
        for another key."""

    def delegate_facts(self) -> dict[str, Any]:
        """XNNPACK's packed weights: `weights`, `bytes`; of these in the file `mapped`,
        `mapped_bytes`; so far `packed`, `shared`; `note`, why the file was not used. Empty when
        they are not shared."""
    def data_keys(self) -> list[list[str]]:
        """Keys of each external data file."""
    def buffer(self) -> npt.NDArray[np.uint8]:
        """The file's bytes, not copied, read-only."""
    def data_buffers(self) -> list[npt.NDArray[np.uint8]]:
        """The bytes of each external data file, not copied, read-only."""
    def planned_buffers(self) -> list[npt.NDArray[np.uint8]]:
        """The planned memory of all methods loaded so far: their state, and values of the last run.

        Writable: bytes of another program over the same file continue its state.
        """
    def close(self) -> None:
        """Closes the program and its methods, waiting for one that runs. May be called twice."""

@final
class Method:
    """A loaded method; made by Program.load_method(). Safe to call from any thread: one of a
    program's methods runs at a time, others wait without the GIL."""

    @property
    def name(self) -> str: ...
    @property
    def closed(self) -> bool: ...
    @property
    def layout_conversions(self) -> int:
        """Inputs so far that were copied into the planned layout."""
    @property
    def alignment_copies(self) -> int:
        """Inputs so far that were copied for being misaligned or read-only."""

    def execute(
        self, inputs: Sequence[Any], clone_outputs: bool = True, kind: _Kind = None
    ) -> list[Any]:
        """Sets the inputs, runs, returns the outputs.

        Tensor inputs: NumPy arrays and scalars, torch tensors, buffers, DLPack or __array__
        providers, of the planned dtype and rank and within the planned sizes; InvalidArgument
        (dtype, kind, count, byte order) or NotSupported (shape) names the input. An input without
        a planned place is used where it lies when it is 16-aligned, writeable and laid out as
        planned; it is then kept alive until the next run. Ctrl-C stops the run before its next
        instruction, with the exception of the signal handler.

        Outputs: torch tensors when an input was one, or when no input is a tensor and torch is
        loaded; else NumPy arrays. bfloat16 and float8 need torch or the package ml_dtypes.
        With clone_outputs=False they view runtime memory until the next run overwrites it.
        """
    def set_inputs(self, inputs: Sequence[Any], /) -> None: ...
    def run(self) -> None:
        """Runs with the inputs that are set; InvalidArgument when an input was never set."""
    def profile(self) -> list[InstructionRecord]:
        """Runs with the inputs that are set; returns a record of each executed instruction."""
    def trace(self) -> list[tuple[int, str, list[Any]]]:
        """Runs with the inputs that are set; returns what each executed instruction computed.

        An item is the instruction, its operator or backend, and copies of its results: the last
        argument of an operator, all arguments of a delegate's call, the value that a move
        replaces; none of a jump or a free.
        """
    def seed(self, seed: int, /) -> None:
        """Restarts the random operators with this seed; a method is loaded with seed 0."""
    def outputs(self, clone_outputs: bool = True, kind: _Kind = None) -> list[Any]: ...
    def attribute(self, name: str, clone: bool = True, kind: _Kind = None) -> Any:
        """A named buffer; NotFound when there is none of that name."""
    def close(self) -> None: ...
    def name_inputs(self, names: Sequence[str] | Callable[[], Sequence[str]], /) -> None:
        """Names to use in messages, one per input."""
    def bound_inputs(
        self, bounds: Sequence[Sequence[tuple[int, int, int, int, int]] | None], /
    ) -> None:
        """Sizes that inputs may have, per input None (what the plan says) or per dim (lower, upper,
        symbol, scale, offset). Dims of one symbol (0, 1, …; -1 for none) must agree on one number
        n with size == scale * n + offset.
        """
    def input_state(self) -> list[InputState]:
        """Per input the address that the runtime reads and whether that is the caller's memory."""
    def memory(self) -> MemoryUse: ...

def open_program(
    source: str | PathLike[str] | bytes | bytearray | memoryview,
    data: Sequence[Any] = (),
    *,
    verification: int = 0,
    n_threads: int = 0,
    xnnpack: tuple[int, bool, str | None, bool] | None = None,
) -> Program:
    """Opens a .pte from a path (mapped) or a buffer, with external data files (.ptd) likewise.

    Read-only 16-aligned buffers are used in place, others are copied. n_threads 0 means every CPU
    that this process may use. xnnpack: sharing of workspaces (0 none, 1 in the program, 2 in the
    process), whether packed weights are shared, the file that keeps them, whether it is written.
    AccessFailed, InvalidProgram or InvalidExternalData when a file cannot be read.
    """

def kernel_manifest() -> dict[str, KernelFacts]:
    """Dtypes that each operator (`aten::add.out`) reads and writes (short names), and its ranks."""

def filled_bytes(size: int, fill: Callable[[memoryview], object], /) -> bytes:
    """Bytes that `fill` writes in place: all of the view that it is given. It must not write later,
    since bytes do not change.
    """

def data_file_bytes(tensors: dict[str, Any], /) -> bytes:
    """Named tensors as a data file (.ptd)."""

def load_data_file(
    source: str | PathLike[str] | bytes | bytearray | memoryview, tensors: dict[str, Any], /
) -> None:
    """Fills named tensors with those of a data file, whose further ones are ignored.

    NotFound for a missing name, InvalidArgument for another dtype, shape or layout,
    InvalidExternalData for a damaged file; then no tensor is changed.
    """

def optimizer_slots(kind: str, options: dict[str, float], /) -> list[str]:
    """Checks the options of an optimizer (`sgd`, `adam` or `adamw`, with the names of torch.optim
    but for `beta1` and `beta2`); names of the state tensors that a parameter has."""

@final
class Tokenizer:
    """A prepared tokenizer, whose bytes it keeps."""

    @property
    def vocab_size(self) -> int: ...
    def encode(self, text: str, special: bool, around: bool, /) -> list[int]:
        """The ids of a text; `special`: names of special tokens in it are these tokens; `around`:
        with the template's tokens. InvalidArgument for letters without a token."""

    def decode(self, ids: Sequence[int], special: bool, /) -> str:
        """The text of ids, with special tokens or without. InvalidArgument for an unknown id."""

    def push(self, state: bytes, id: int, /) -> tuple[bytes, str]:
        """The piece of text that a token adds, whole letters, and the state after it. The state at
        the beginning has no bytes. InvalidArgument for an unknown id."""

    def end(self, state: bytes, /) -> str:
        """The end of a text: U+FFFD if a letter is not complete."""

    def token(self, id: int, /) -> bytes:
        """The bytes of a token; InvalidArgument for an unknown id."""

@final
class Sampler:
    """A sampler, and the counts of the text's tokens for its penalties."""

    def draw(
        self, logits: np.ndarray, position: int, /
    ) -> tuple[int, float, list[tuple[int, float]]]:
        """A token of f32 logits, its log-probability, and the most probable ones with theirs."""

    def add(self, id: int, generated: bool, /) -> None:
        """Counts a token of the prompt, or of the generated part."""

    def remove(self, id: int, generated: bool, /) -> None:
        """Takes back a token; InvalidArgument if it was not counted."""

    def clear(self) -> None:
        """Takes back all tokens."""

def new_sampler(
    vocab_size: int, options: dict[str, Any], hook: Callable[[np.ndarray], object] | None, /
) -> Sampler:
    """A sampler with the options of et_sampler_options by name, biases as a dict by id. The hook
    changes a copy of the logits in place. InvalidArgument for options out of their ranges."""

@type_check_only
class Decoder(Protocol):
    """A model that reads tokens behind a context."""

    @property
    def capacity(self) -> int: ...
    @property
    def longest(self) -> int:
        """Tokens of one read."""
    @property
    def most_rows(self) -> int:
        """Tokens of one read that returns logits for each."""
    @property
    def vocabulary(self) -> int: ...
    def keep(self, ids: list[int], /) -> int:
        """Makes the context a beginning of ids, shorter than these; returns its length."""

    def read(self, ids: list[int], rows: int, /) -> np.ndarray:
        """The logits f32 [rows, vocabulary] after the last tokens."""

    def rewind(self, position: int, /) -> None:
        """Takes back all tokens from a position on."""

@final
class Generation:
    """A text that comes piece by piece."""

    def next(self) -> tuple[str, int, int, float, list[tuple[int, float]]] | None:
        """A piece of text, its token or -1, et_llm_finish, the token's log-probability, and the
        most probable tokens; None after the last piece."""

    def stop(self) -> None:
        """Ends the text at its next token; from any thread."""

    def stats(self) -> dict[str, int]:
        """et_llm_stats by name."""

def new_generation(
    decoder: Decoder,
    tokenizer: Tokenizer,
    sampler: Sampler,
    prompt: Sequence[int],
    max_new_tokens: int,
    eos: Sequence[int],
    stop: Sequence[str],
    draft: Decoder | tuple[int, int] | None,
    max_draft: int,
    /,
) -> Generation:
    """A text behind a prompt; max_new_tokens -1: until the context is full. `draft` is a smaller
    model, or the least and most tokens of a lookup in the context."""

def prepare_tokenizer(
    file: bytes | mmap, format: int, pattern: str | None, special: tuple[str, ...], /
) -> bytes:
    """The prepared form of a tokenizer's file, in a format of et_tokenizer_format. Pattern and
    special tokens are for files of tiktoken. InvalidExternalData for a damaged file, NotSupported
    for a part that is not known, by name."""

def open_tokenizer(prepared: bytes | memoryview, /) -> Tokenizer:
    """Opens a prepared tokenizer. InvalidExternalData for other or damaged bytes."""

def optimizer_update(
    kind: str,
    options: dict[str, float],
    step: int,
    parameter: Any,
    gradient: Any,
    slots: Sequence[Any],
    /,
) -> None:
    """Updates a parameter and its state tensors in place, without the GIL.

    Steps count from 1, at which the state needs no initial values. Tensors are f32; state tensors
    have the parameter's shape and layout. InvalidArgument or
    NotSupported when something does not fit; then nothing is written.
    """

def load_ops(path: str | PathLike[str], *, replace: bool = False) -> list[str]:
    """Loads a library of operators for methods loaded from now on; returns their names.

    AccessFailed when it cannot be opened, InvalidArgument when its operator table is missing or
    wrong, NotSupported when it was built against another interface, AlreadyLoaded when an operator
    exists and may not be replaced, or when the file was rebuilt after it was loaded.
    """

def loaded_ops() -> list[tuple[str, list[str]]]:
    """Path and operators of each loaded library, newest first."""

def backend_names() -> list[str]: ...
def system_info() -> SystemInfo: ...
def machine_rates(
    n_threads: int, sizes: Sequence[int], /
) -> tuple[float, float, list[tuple[float, float, float]]]:
    """Peak rates of `n_threads` threads, measured in some milliseconds per size.

    The first is the rate of f32 multiply-adds on registers, in operations per second (two each),
    the second that of int8 by the best instruction that the CPU has; without dot products, of bytes
    into sums of 16 bits. The list has, per working set of that many bytes for all threads together,
    the bytes per second that are read, written, and copied (read and written bytes together).
    """

def _after_fork() -> None: ...
