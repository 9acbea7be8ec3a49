"""Text to the ids of tokens and back, by the C library that devices use."""

from __future__ import annotations

import mmap
import os
from collections.abc import Sequence
from pathlib import Path

from executorch_py import _C

TOKENIZER_KEY = "tokenizer"  # of the named data of a program that carries its tokenizer
_FILES = ("tokenizer.json", "tekken.json", "tokenizer.model")
_ANY_FORMAT = 0  # of et_tokenizer_format


class Tokenizer:
    """A tokenizer in its prepared form, which a program can carry.

    `prepared` is made of a file by `from_file`: the same bytes on each machine. It is used in place
    and never changed, so that threads can share a tokenizer.
    """

    def __init__(self, prepared: bytes | memoryview) -> None:
        self.opened = _C.open_tokenizer(prepared)
        self.prepared = prepared

    @classmethod
    def from_file(
        cls,
        path: str | os.PathLike[str],
        *,
        pattern: str | None = None,
        special_tokens: Sequence[str] = (),
    ) -> Tokenizer:
        """The tokenizer of a file: a tokenizer.json of Hugging Face or the folder that has one, a
        tekken.json, a SentencePiece .model, a GGUF file, tokenizer.bin of llama2.c, or a file of
        tiktoken. The latter has neither a pattern nor special tokens: without `pattern` it is split
        as Llama 3 does, and ids of `special_tokens` follow its ranks.

        A damaged file and a part that is not supported are refused by name.
        """
        found = Path(path)
        if found.is_dir():
            found = next(
                (found / name for name in _FILES if (found / name).exists()), found / _FILES[0]
            )
        with found.open("rb") as file:
            if os.fstat(file.fileno()).st_size == 0:
                return cls.from_bytes(b"")
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                return cls.from_bytes(content, pattern=pattern, special_tokens=special_tokens)

    @classmethod
    def from_bytes(
        cls,
        file: bytes | mmap.mmap,
        *,
        pattern: str | None = None,
        special_tokens: Sequence[str] = (),
    ) -> Tokenizer:
        """As `from_file`, from the bytes of the file."""
        return cls(_C.prepare_tokenizer(file, _ANY_FORMAT, pattern, tuple(special_tokens)))

    @property
    def vocab_size(self) -> int:
        """Number of ids, those of added tokens and gaps included."""
        return self.opened.vocab_size

    def encode(
        self, text: str, *, add_special_tokens: bool = True, parse_special: bool = False
    ) -> list[int]:
        """The ids of a text.

        `add_special_tokens` puts the tokens of the tokenizer's template around it. The names of
        special tokens in the text are text like any other, unless `parse_special`.
        """
        return self.opened.encode(text, parse_special, add_special_tokens)

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        """The text of ids. Bytes that are no UTF-8 become U+FFFD."""
        return self.opened.decode(ids, not skip_special_tokens)

    def token(self, token_id: int) -> bytes:
        """The bytes of a token in the vocabulary."""
        return self.opened.token(token_id)

    def pieces(self) -> TextPieces:
        """A text that comes token by token."""
        return TextPieces(self.opened)


def find_tokenizer(source: Path) -> Tokenizer | None:
    """The tokenizer of a model's folder or GGUF file; None if the folder has no file of one."""
    if source.is_dir() and not any((source / name).exists() for name in _FILES):
        return None
    return Tokenizer.from_file(source)


class TextPieces:
    """The pieces of a text that tokens add one after the other, in whole letters."""

    def __init__(self, opened: _C.Tokenizer) -> None:
        self._opened = opened
        self._state = b""

    def push(self, token_id: int) -> str:
        """The text that a token adds; none while a letter is not complete."""
        self._state, piece = self._opened.push(self._state, token_id)
        return piece

    def end(self) -> str:
        """The end of the text: U+FFFD if a letter is not complete."""
        return self._opened.end(self._state)
