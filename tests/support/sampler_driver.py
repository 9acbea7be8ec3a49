"""Driver of the samplers of csrc/llm/sampler, which the package reaches through `_C` only.

    with Sampler(32000, temperature=0.8, top_p=0.9) as sampler:
        ids = sampler.draws(logits, 1000)
        kept, probabilities = sampler.candidates(logits)

The library is built by the CMake target sampler_driver (ET_TESTS=ON); ET_SAMPLER_DRIVER names
another build of it.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from support.c_build import build_c

STANDARD, UPSTREAM = 0, 1
NONE, MODEL, DRAWN = 0, 1, 2
PROMPT, GENERATED = 0, 1


class SamplerError(Exception):
    """A status other than Ok; .status is its number."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class _CError(ctypes.Structure):
    _fields_ = [("status", ctypes.c_int), ("message", ctypes.c_char * 512)]


class _Bias(ctypes.Structure):
    _fields_ = [("id", ctypes.c_uint32), ("bias", ctypes.c_float)]


_Change = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.c_void_p,
    ctypes.POINTER(ctypes.c_float),
    ctypes.c_size_t,
    ctypes.POINTER(_CError),
)


class _Options(ctypes.Structure):
    _fields_ = [
        ("kind", ctypes.c_int),
        ("seed", ctypes.c_uint64),
        ("bias", ctypes.POINTER(_Bias)),
        ("n_bias", ctypes.c_size_t),
        ("repetition_penalty", ctypes.c_double),
        ("frequency_penalty", ctypes.c_double),
        ("presence_penalty", ctypes.c_double),
        ("hook_ctx", ctypes.c_void_p),
        ("hook_change", _Change),
        ("temperature", ctypes.c_double),
        ("top_k", ctypes.c_int64),
        ("top_p", ctypes.c_double),
        ("min_p", ctypes.c_double),
        ("typical_p", ctypes.c_double),
        ("logprobs", ctypes.c_int),
        ("n_best", ctypes.c_size_t),
    ]


class _Logprob(ctypes.Structure):
    _fields_ = [("id", ctypes.c_uint32), ("logprob", ctypes.c_double)]


class _Sample(ctypes.Structure):
    _fields_ = [
        ("id", ctypes.c_uint32),
        ("logprob", ctypes.c_double),
        ("best", ctypes.POINTER(_Logprob)),
        ("n_best", ctypes.c_size_t),
    ]


def library_path() -> Path:
    given = os.environ.get("ET_SAMPLER_DRIVER")
    if given:
        return Path(given)
    return build_c("release", "sampler_driver") / "sampler_driver.so"


@cache
def library() -> ctypes.CDLL:
    lib = ctypes.CDLL(str(library_path()))
    pointer, size, u64 = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint64
    lib.ets_defaults.argtypes = [pointer]
    lib.ets_scratch_bytes.argtypes = [size]
    lib.ets_scratch_bytes.restype = size
    lib.ets_open.argtypes = [pointer, size, size, pointer]
    lib.ets_open.restype = pointer
    lib.ets_close.argtypes = [pointer]
    lib.ets_draw.argtypes = [pointer, pointer, pointer, u64, pointer, pointer]
    lib.ets_draws.argtypes = [pointer, pointer, pointer, u64, size, pointer, pointer]
    lib.ets_candidates.argtypes = [pointer] * 7
    lib.ets_changed.argtypes = [pointer] * 5
    lib.ets_seconds.argtypes = [pointer, pointer, pointer, size]
    lib.ets_seconds.restype = ctypes.c_double
    lib.ets_counts_open.argtypes = [size, size, pointer]
    lib.ets_counts_open.restype = pointer
    lib.ets_counts_close.argtypes = lib.ets_counts_clear.argtypes = [pointer]
    lib.ets_counts_add.argtypes = [pointer, ctypes.c_int, pointer, size, pointer]
    lib.ets_counts_remove.argtypes = lib.ets_counts_add.argtypes
    lib.ets_counts_seen.argtypes = [pointer]
    lib.ets_counts_seen.restype = size
    lib.ets_weights.argtypes = [pointer, size, pointer]
    lib.ets_log.argtypes = [ctypes.c_double]
    lib.ets_log.restype = lib.ets_uniform.restype = ctypes.c_double
    lib.ets_uniform.argtypes = [u64, u64]
    lib.ets_sort.argtypes = [pointer, size, size]
    return lib


def _checked(call: Callable[..., int], *args: Any) -> None:
    err = _CError()
    status = call(*args, ctypes.byref(err))
    if status != 0:
        raise SamplerError(status, err.message.decode())


class Counts:
    """Counts of the tokens of a text."""

    def __init__(self, vocab_size: int, missing: int = 0) -> None:
        err, self.handle = _CError(), None
        self.handle = library().ets_counts_open(vocab_size, missing, ctypes.byref(err))
        if not self.handle:
            raise SamplerError(err.status, err.message.decode())

    def __del__(self) -> None:
        if self.handle:
            library().ets_counts_close(self.handle)

    def add(self, part: int, ids: Iterable[int]) -> None:
        array = np.asarray(list(ids), np.uint32)
        _checked(library().ets_counts_add, self.handle, part, array.ctypes.data, array.size)

    def remove(self, part: int, ids: Iterable[int]) -> None:
        array = np.asarray(list(ids), np.uint32)
        _checked(library().ets_counts_remove, self.handle, part, array.ctypes.data, array.size)

    def clear(self) -> None:
        library().ets_counts_clear(self.handle)

    def n_seen(self) -> int:
        return int(library().ets_counts_seen(self.handle))


class Drawn:
    """A token with its log-probability, and the most probable ones."""

    def __init__(self, sample: _Sample) -> None:
        self.id, self.logprob = int(sample.id), float(sample.logprob)
        self.best = [(sample.best[i].id, sample.best[i].logprob) for i in range(sample.n_best)]


class Sampler:
    """A sampler with exactly the scratch memory that it asks for, less `missing` bytes."""

    def __init__(
        self,
        vocab_size: int,
        *,
        missing: int = 0,
        bias: Mapping[int, float] | None = None,
        hook: Callable[[np.ndarray], int] | None = None,
        **options: Any,
    ) -> None:
        self.handle = None
        lib, chosen = library(), _Options()
        lib.ets_defaults(ctypes.byref(chosen))
        for name, value in options.items():
            setattr(chosen, name, value)
        pairs = list((bias or {}).items())
        self._bias = (_Bias * max(1, len(pairs)))(*pairs)
        chosen.bias, chosen.n_bias = self._bias, len(pairs)
        self._hook = _Change() if hook is None else _Change(self._calling(hook))
        chosen.hook_change = self._hook
        self.vocab_size, self.n_best = vocab_size, int(chosen.n_best)
        err = _CError()
        self.handle = lib.ets_open(ctypes.byref(chosen), vocab_size, missing, ctypes.byref(err))
        if not self.handle:
            raise SamplerError(err.status, err.message.decode())

    @staticmethod
    def _calling(hook: Callable[[np.ndarray], int]) -> Callable[..., int]:
        def change(_ctx: Any, logits: Any, n: int, _err: Any) -> int:
            return hook(np.ctypeslib.as_array(logits, (n,)))

        return change

    def __enter__(self) -> Sampler:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        if self.handle:
            library().ets_close(self.handle)
            self.handle = None

    def _logits(self, logits: np.ndarray) -> Any:
        assert logits.dtype == np.float32 and logits.shape == (self.vocab_size,)
        assert logits.flags.c_contiguous
        return logits.ctypes.data

    def draw(self, logits: np.ndarray, position: int = 0, counts: Counts | None = None) -> Drawn:
        sample = _Sample()
        room = (_Logprob * max(1, self.n_best))()
        sample.best = room
        text = None if counts is None else counts.handle
        data = self._logits(logits)
        _checked(library().ets_draw, self.handle, data, text, position, ctypes.byref(sample))
        return Drawn(sample)

    def draws(
        self, logits: np.ndarray, n: int, position: int = 0, counts: Counts | None = None
    ) -> np.ndarray:
        """The tokens of n positions with the same logits."""
        ids = np.zeros(n, np.uint32)
        text = None if counts is None else counts.handle
        data, out = self._logits(logits), ids.ctypes.data
        _checked(library().ets_draws, self.handle, data, text, position, n, out)
        return ids

    def candidates(
        self, logits: np.ndarray, counts: Counts | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """The ids that a draw chooses from, and their probabilities."""
        ids = np.zeros(self.vocab_size, np.uint32)
        probabilities, n = np.zeros(self.vocab_size), ctypes.c_size_t()
        text = None if counts is None else counts.handle
        data, outs = self._logits(logits), (ids.ctypes.data, probabilities.ctypes.data)
        _checked(library().ets_candidates, self.handle, data, text, *outs, ctypes.byref(n))
        return ids[: n.value].copy(), probabilities[: n.value].copy()

    def changed(self, logits: np.ndarray, counts: Counts | None = None) -> np.ndarray:
        """The logits after bias, penalties and hook."""
        out = np.zeros(self.vocab_size, np.float32)
        text = None if counts is None else counts.handle
        data = self._logits(logits)
        _checked(library().ets_changed, self.handle, data, text, out.ctypes.data)
        return out

    def seconds(self, logits: np.ndarray, n: int, counts: Counts | None = None) -> float:
        """The least time of a draw of n."""
        text = None if counts is None else counts.handle
        return float(library().ets_seconds(self.handle, self._logits(logits), text, n))
