"""Driver of csrc/llm: its normalizers and the lengths of drafts as Python functions.

    Normalizer("NFC")("e\\u0301")                       # "é"
    Normalizer("bert", lowercase=True)("A")
    Normalizer("charsmap", charsmap=bytes_of_the_map)("①")

The library is built by the CMake target llm_driver (ET_TESTS=ON); ET_LLM_DRIVER names another build
of it.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np

from support.c_build import build_c

NORMALIZERS = (
    "NFC",
    "NFD",
    "NFKC",
    "NFKD",
    "lowercase",
    "strip_accents",
    "strip",
    "bert",
    "charsmap",
)
OPTIONS = {
    "strip": ("left", "right"),
    "bert": ("clean_text", "handle_chinese_chars", "strip_accents", "lowercase"),
}


class LlmError(Exception):
    """A status other than Ok; .status is its number."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"status 0x{status:x}: {message}")
        self.status = status


class _Error(ctypes.Structure):
    _fields_ = [("status", ctypes.c_int), ("message", ctypes.c_char * 512)]


class _Text(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_char_p), ("n", ctypes.c_size_t)]


def _library_path() -> Path:
    given = os.environ.get("ET_LLM_DRIVER")
    if given:
        return Path(given)
    return build_c("release", "llm_driver") / "llm_driver.so"


@cache
def library() -> ctypes.CDLL:
    lib = ctypes.CDLL(str(_library_path()))
    pointer, size, text = ctypes.c_void_p, ctypes.c_size_t, ctypes.POINTER(_Text)
    common = [ctypes.c_int, ctypes.c_uint, text, _Text]
    lib.llm_normalize.argtypes = [*common, size, size, pointer, pointer, pointer, pointer]
    lib.llm_time_normalize.argtypes = [*common, size]
    lib.llm_time_normalize.restype = ctypes.c_double
    lib.llm_chat.argtypes = [pointer, size, pointer, size, pointer, size, pointer, pointer, pointer]
    lib.llm_prepare.argtypes = [pointer, size, pointer, size, pointer]
    lib.llm_generate.argtypes = [pointer, size, size, pointer, pointer, pointer]
    number = ctypes.c_double
    lib.llm_pace_length.argtypes, lib.llm_pace_length.restype = [pointer, size], size
    lib.llm_pace_step.argtypes, lib.llm_pace_step.restype = [pointer, number], None
    lib.llm_pace_draft.argtypes = [pointer, size, size, number]
    lib.llm_pace_draft.restype = None
    lib.llm_free.argtypes = [pointer]
    lib.llm_free.restype = None
    return lib


class Normalizer:
    """A normalizer of csrc/llm/text.

    A call also checks that a text that the quick test calls unchanged is unchanged; `identity` is
    what that test said of the last one.
    """

    def __init__(self, name: str, charsmap: bytes = b"", **options: bool) -> None:
        names = OPTIONS.get(name, ())
        assert set(options) <= set(names), options
        self.number = NORMALIZERS.index(name)
        self.bits = sum(options.get(option, False) << i for i, option in enumerate(names))
        self.charsmap = _Text(charsmap, len(charsmap))
        self.identity = False

    def __call__(self, text: str, missing_out: int = 0, missing_scratch: int = 0) -> str:
        """The normalized text, written to memory that is `missing` bytes too small."""
        given = text.encode()
        out, n, same, error = ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_bool(), _Error()
        status = library().llm_normalize(
            self.number,
            self.bits,
            ctypes.byref(self.charsmap),
            _Text(given, len(given)),
            missing_out,
            missing_scratch,
            *map(ctypes.byref, (out, n, same, error)),
        )
        try:
            if status != 0:
                raise LlmError(status, error.message.decode())
            result = ctypes.string_at(out, n.value)
        finally:
            library().llm_free(out)
        self.identity = same.value
        assert not self.identity or result == given, text
        return result.decode()

    def seconds(self, text: str, rounds: int = 10) -> float:
        """The shortest time of one call."""
        given = text.encode()
        took = library().llm_time_normalize(
            self.number,
            self.bits,
            ctypes.byref(self.charsmap),
            _Text(given, len(given)),
            rounds,
        )
        return float(took)


class Pace(ctypes.Structure):
    """How long drafts are (et_llm_pace)."""

    _fields_ = [
        ("step", ctypes.c_double),
        ("draft_token", ctypes.c_double),
        ("balance", ctypes.c_double),
        ("draft_length", ctypes.c_size_t),
    ]

    def length(self, most: int) -> int:
        """Tokens of the next draft."""
        return int(library().llm_pace_length(ctypes.byref(self), most))

    def read_one(self, time: float) -> None:
        """A read of one token took this time."""
        library().llm_pace_step(ctypes.byref(self), time)

    def read_draft(self, n: int, accepted: int, time: float) -> None:
        """A draft of n tokens was read in this time."""
        library().llm_pace_draft(ctypes.byref(self), n, accepted, time)


class _Message(ctypes.Structure):
    _fields_ = [("role", ctypes.c_int), ("text", ctypes.c_char_p), ("n", ctypes.c_size_t)]


def chat_ids(
    parts: bytes, tokenizer: bytes | memoryview, messages: Sequence[tuple[str, bytes]]
) -> list[int]:
    """The ids of a conversation, (role, text) each (et_chat_encode)."""
    roles = ("system", "user", "assistant")
    given = [_Message(roles.index(role), text, len(text)) for role, text in messages]
    array = (_Message * len(given))(*given)
    held = [np.frombuffer(bytes(data), np.uint8).copy() for data in (parts, tokenizer)]
    ids, n, error = ctypes.c_void_p(), ctypes.c_size_t(), _Error()
    status = library().llm_chat(
        held[0].ctypes.data,
        held[0].size,
        held[1].ctypes.data,
        held[1].size,
        array,
        len(given),
        *map(ctypes.byref, (ids, n, error)),
    )
    try:
        if status != 0:
            raise LlmError(status, error.message.decode())
        found = (ctypes.c_uint32 * n.value).from_address(ids.value or 0) if n.value else []
        return list(found)
    finally:
        library().llm_free(ids)


def prepare_with_needs_of(measured: bytes, file: bytes) -> None:
    """Prepares a tokenizer's file with what et_tokenizer_measure found in another one."""
    held = [np.frombuffer(data, np.uint8).copy() for data in (measured, file)]
    error = _Error()
    arguments = [value for data in held for value in (data.ctypes.data, data.size)]
    status = library().llm_prepare(*arguments, ctypes.byref(error))
    if status != 0:
        raise LlmError(status, error.message.decode())


def generate(tokenizer: bytes | memoryview, stop_at: int) -> tuple[int, int, int]:
    """A text of at most 60 tokens of a decoder that repeats 5, with drafts of a lookup, whose
    callback fails at a piece: the status, the pieces, and the tokens in the decoder's context."""
    held = np.frombuffer(bytes(tokenizer), np.uint8).copy()
    pieces, context, error = ctypes.c_size_t(), ctypes.c_size_t(), _Error()
    status = library().llm_generate(
        held.ctypes.data, held.size, stop_at, *map(ctypes.byref, (pieces, context, error))
    )
    return status, pieces.value, context.value
