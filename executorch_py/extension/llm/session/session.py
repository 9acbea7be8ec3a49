"""A session: one conversation with a decoder, whose caches hold what it has read so far.

Sessions of one program share its weights; each has planned memory, and with it caches, of its own.
Needs the runtime only. Knows neither tokenizers nor sampling.
"""

from __future__ import annotations

import operator
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from os import PathLike
from types import TracebackType
from typing import Any

import numpy as np

from executorch_py.errors import InvalidArgument, InvalidProgram, InvalidState
from executorch_py.extension.llm.session import session_file
from executorch_py.extension.llm.session.interface import Interface, Positions, interface_of
from executorch_py.extension.llm.session.kept import KeptPositions
from executorch_py.extension.llm.session.session_file import SavedState
from executorch_py.runtime.method import Method
from executorch_py.runtime.program import Program
from executorch_py.runtime.runtime import Runtime

_ARGUMENT = "[InvalidArgument, error: 0x12]"
_STATE = "[InvalidState, error: 0x02]"
# Dtypes of caches that NumPy has: others are saved with all planned memory.
_PLAIN = {"float32", "float16", "float64", "int8", "uint8", "int16", "int32", "int64", "bool"}


class Session:
    """Reads tokens and returns logits, from position 0 on; may go back, be saved and be restored.

    `program` is a path, bytes, or a Program: sessions of the same Program share its mapped weights.
    `method` is that of a decoder among several; by default `forward`, or `prefill` and `decode`.
    One thread uses a session at a time; another one's call is refused. A call that fails because of
    its arguments changes nothing. After one that was interrupted, `position` says how many tokens
    were read.
    """

    def __init__(
        self, program: Program | str | PathLike[str] | bytes, *, method: str | None = None
    ) -> None:
        if isinstance(program, Program):
            self._program = program.reopened()
        else:
            self._program = Runtime.get().load_program(program)
        self._facts = interface_of(self._program, method)
        self._kept = KeptPositions(self._facts.rings or ())
        self._lock = threading.Lock()
        self._tokens: list[int] = []
        self._n_read = 0  # of the tokens; the last one that generate() chose is read later
        self._logits: np.ndarray | None = None  # after the tokens that were read
        self._load()

    def _load(self) -> None:
        facts = self._facts
        names = (facts.method, facts.step_method, facts.verify_method or facts.method)
        # All are loaded before one runs: loading writes the initial state.
        loaded = {name: self._program.load_method(name) for name in dict.fromkeys(names)}
        self._method, self._step_method, self._verify_method = (loaded[name] for name in names)

    # ---- facts

    @property
    def position(self) -> int:
        """Number of tokens in the context: the position of the next one."""
        return len(self._tokens)

    @property
    def tokens(self) -> list[int]:
        """The ids in the context."""
        return list(self._tokens)

    @property
    def capacity(self) -> int:
        """Tokens that the context can have."""
        return self._facts.capacity

    @property
    def vocabulary(self) -> int:
        return self._facts.vocabulary

    @property
    def interface(self) -> Interface:
        """How the program is called."""
        return self._facts

    @property
    def program(self) -> Program:
        """The session's own program; Session(session.program) shares its weights."""
        return self._program

    # ---- tokens

    def prefill(self, tokens: Sequence[int] | np.ndarray) -> np.ndarray:
        """Reads tokens and returns the logits f32 [vocabulary] after the last one.

        More tokens than a call can have are read in pieces.
        """
        with self._use():
            ids = self._checked(tokens)
            if not ids and self._n_read == len(self._tokens):
                raise InvalidArgument(f"tokens: expected 1 or more, got none {_ARGUMENT}")
            logits: np.ndarray = self._read(ids).copy()
            return logits

    def step(self, token: int) -> np.ndarray:
        """Reads one token and returns the logits after it."""
        with self._use():
            logits: np.ndarray = self._read(self._checked([token])).copy()
            return logits

    def logits(self, tokens: Sequence[int] | np.ndarray) -> np.ndarray:
        """Reads tokens and returns the logits f32 [n, vocabulary] after each of the n tokens.

        A program that returns those of the last token only is called for each token, unless it has
        a method for a few (`verify` at export).
        """
        with self._use():
            ids = self._checked(tokens)
            if self._n_read < len(self._tokens):
                self._read([])
            longest = self._facts.longest if self._facts.all_logits else self._facts.most_rows
            pieces = [ids[i : i + longest] for i in range(0, len(ids), longest)]
            rows = [self._read_piece(piece, len(piece)) for piece in pieces]
            return np.concatenate(rows or [np.empty((0, self.vocabulary), np.float32)])

    def generate(
        self,
        tokens: Sequence[int] | np.ndarray = (),
        max_new_tokens: int | None = None,
        *,
        stop: Collection[int] | None = None,
    ) -> list[int]:
        """Reads tokens, then appends the most probable token again and again; returns these.

        It ends after `max_new_tokens` tokens (None: when the context is full), or with a token of
        `stop` (None: the program's end-of-sequence ids). Without tokens it goes on from the last
        call. Of equal logits, the first counts.
        """
        with self._use():
            ids = self._checked(tokens)
            limit = self._new_tokens(len(ids), max_new_tokens)
            ends = self._facts.eos_ids if stop is None else frozenset(stop)
            at_end = not ids and self._n_read == len(self._tokens)
            if at_end and self._logits is None:
                raise InvalidArgument(
                    "tokens: expected 1 or more at the beginning and after rewind(), got none "
                    f"{_ARGUMENT}"
                )
            new: list[int] = []
            while len(new) < limit and not (new and new[-1] in ends):
                known = self._logits if at_end else None
                logits = self._read(ids) if known is None else known
                at_end, ids = False, []
                new.append(_best(logits))
                self._tokens.append(new[-1])
            return new

    def _checked(self, tokens: Any) -> list[int]:
        """Ids of the vocabulary for which there is room."""
        values = np.asarray(tokens)
        if values.ndim == 2 and values.shape[0] == 1:
            values = values[0]
        if values.ndim != 1 or (values.size and values.dtype.kind not in "iu"):
            raise InvalidArgument(
                "tokens: expected a list of whole numbers, got "
                f"{values.dtype} of shape {list(values.shape)} {_ARGUMENT}"
            )
        ids = [int(value) for value in values]
        for i, token in enumerate(ids):
            if not 0 <= token < self.vocabulary:
                raise InvalidArgument(
                    f"tokens[{i}]: expected an id from 0 to {self.vocabulary - 1}, got {token} "
                    f"{_ARGUMENT}"
                )
        room = self.capacity - len(self._tokens)
        if len(ids) > room:
            raise InvalidArgument(
                f"tokens: expected at most {room}, for the context has {self.capacity} positions "
                f"and {len(self._tokens)} are in use, got {len(ids)}; make room with rewind() "
                f"{_ARGUMENT}"
            )
        return ids

    def _new_tokens(self, n_tokens: int, wanted: int | None) -> int:
        room = self.capacity - len(self._tokens) - n_tokens
        if wanted is None:
            return room
        n = operator.index(wanted)
        if n < 0 or n > room:
            raise InvalidArgument(
                f"max_new_tokens: expected 0 to {room}, which the context of {self.capacity} "
                f"positions has room for, got {n} {_ARGUMENT}"
            )
        return n

    # ---- calls of the program

    def _read(self, ids: list[int]) -> np.ndarray:
        """Reads the tokens that are not read yet, and these; returns the last one's logits."""
        facts = self._facts
        todo = self._tokens[self._n_read :] + ids
        # Without caches all tokens of the context are read again, in one call.
        longest = len(todo) if facts.positions is Positions.NONE else facts.longest
        while todo:
            piece, todo = todo[:longest], todo[longest:]
            last: np.ndarray = self._read_piece(piece, 1)[0]
        return last

    def _read_piece(self, piece: list[int], n_rows: int) -> np.ndarray:
        """Reads the tokens of one call; returns the logits f32 [n_rows, vocabulary] of the last."""
        facts, start = self._facts, self._n_read
        tokens = piece
        if facts.positions is Positions.NONE:
            tokens, start = self._tokens[:start] + piece, 0
        else:
            self._kept.write(start + len(piece))
        several = self._verify_method if n_rows > 1 and not facts.all_logits else self._method
        method = self._step_method if len(tokens) == 1 else several
        out = _logits_of(method, facts.inputs(tokens, start), facts.logits_type)
        rows = np.array((out if out.ndim == 2 else out[0])[-n_rows:], np.float32)
        self._tokens[self._n_read :] = [*piece, *self._tokens[self._n_read + len(piece) :]]
        self._n_read += len(piece)
        self._logits = rows[-1]
        return rows

    # ---- going back

    def rewind(self, position: int) -> None:
        """Takes back all tokens from a position on, as if they had never been read.

        Caches of layers with windows keep only the newest positions: going back further than they
        allow, other than to 0, is refused.
        """
        with self._use():
            to = operator.index(position)
            if not 0 <= to <= len(self._tokens):
                raise InvalidArgument(
                    f"rewind: expected a position from 0 to {len(self._tokens)}, got {to} "
                    f"{_ARGUMENT}"
                )
            self._check_kept(to)
            if to < self._n_read:
                self._logits = None
            if to == 0:
                self._start_over()
            del self._tokens[to:]
            self._n_read = min(self._n_read, to)

    def _check_kept(self, to: int) -> None:
        if to == 0 or to >= self._n_read:
            return
        if self._facts.rings is None:
            raise InvalidArgument(
                f"rewind: expected 0, got {to}: the program does not say which positions its "
                "caches keep (constant methods get_cache_kind, get_cache_windows and "
                f"get_cache_slots); save() and restore() can go back {_ARGUMENT}"
            )
        least = self._kept.least_position()
        if to < least:
            choices = "0" if least > self._n_read else f"0, or {least} to {len(self._tokens)}"
            raise InvalidArgument(
                f"rewind: expected {choices}, as the caches of layers with windows keep no keys "
                f"of earlier positions, got {to} {_ARGUMENT}"
            )

    def _start_over(self) -> None:
        self._kept.clear()
        if self._facts.rings is None and self._n_read > 0:
            # State of an unknown kind, which an own one replaces.
            self._program = self._program.reopened()
            self._load()

    # ---- files

    def save(self, path: str | PathLike[str]) -> None:
        """Writes tokens and caches to a file, which the same program can restore."""
        with self._use():
            state = SavedState(
                program=self._program.sha256,
                tokens=self._tokens,
                n_read=self._n_read,
                oldest=self._kept.oldest,
                logits=self._logits,
                buffers=self._buffers(),
            )
            session_file.write(path, state)

    def restore(self, path: str | PathLike[str]) -> None:
        """Continues from a saved state; what the session had read before is forgotten.

        InvalidArgument if the file was saved with another program, InvalidExternalData if it is
        damaged: then nothing changes.
        """
        with self._use():
            buffers = self._buffers()
            n_bytes = sum(values.nbytes for values in buffers.values())
            saved = session_file.read(path, self._program.sha256, n_bytes)
            self._check_saved(saved, buffers)
            for name, values in saved.buffers.items():
                buffers[name][:] = values
            self._tokens, self._n_read = saved.tokens, saved.n_read
            self._kept.oldest, self._logits = saved.oldest, saved.logits

    def _check_saved(self, saved: SavedState, buffers: dict[str, np.ndarray]) -> None:
        """Refuses what no session of this program writes."""
        sizes = {name: len(values) for name, values in buffers.items()}
        n, vocabulary = len(saved.tokens), range(self.vocabulary)
        fits = (
            {name: len(values) for name, values in saved.buffers.items()} == sizes
            and saved.n_read <= n <= self.capacity
            and n - saved.n_read in (0, 1)
            and all(token in vocabulary for token in saved.tokens)
            and len(saved.oldest) == len(self._kept.oldest)
            and all(0 <= oldest <= self.capacity for oldest in saved.oldest)
            and (saved.logits is None or saved.n_read > 0)
        )
        if not fits:
            raise session_file.damaged("values that no session of this program has")

    def _buffers(self) -> dict[str, np.ndarray]:
        """The bytes of the caches, writable; of a file without their names, of all its memory."""
        if self._facts.positions is Positions.NONE:
            return {}
        facts = self._program.metadata(self._facts.method)
        named = [facts.attribute_tensor_meta(i) for i in range(facts.num_attributes())]
        state = [tensor for tensor in named if tensor.is_memory_planned()]
        if state and all(tensor.dtype_name in _PLAIN for tensor in state):
            views = {
                name: self._method._method.attribute(name, False, "numpy")
                for name in (str(tensor.name) for tensor in state)
            }
            return {name: view.reshape(-1).view(np.uint8) for name, view in views.items()}
        planned = self._program._program.planned_buffers()
        return {f"planned/{i}": values for i, values in enumerate(planned)}

    # ---- life

    @contextmanager
    def _use(self) -> Iterator[None]:
        if not self._lock.acquire(blocking=False):
            raise InvalidState(
                "expected one call of a session at a time, got a second one while the first runs; "
                f"make a session for each thread {_STATE}"
            )
        try:
            yield
        finally:
            self._lock.release()

    def close(self) -> None:
        """Frees the session's memory; later calls fail with InvalidState."""
        with self._use():
            self._program.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Session at position {self.position} of {self.capacity}>"


def _logits_of(method: Method, inputs: list[np.ndarray], dtype: str) -> Any:
    """The first output of a call. NumPy has no bfloat16, which torch widens if it is there."""
    if dtype == "bfloat16" and find_spec("torch") is not None:
        import torch

        return method.execute([torch.from_numpy(x) for x in inputs])[0].float().numpy()
    return method.execute(inputs)[0]


def _best(logits: np.ndarray) -> int:
    """The id of the largest logit."""
    best = int(logits.argmax())
    if np.isnan(logits[best]):
        raise InvalidProgram(
            "logits: expected numbers, got NaN: the weights of the program are damaged "
            "[InvalidProgram, error: 0x23]"
        )
    return best
