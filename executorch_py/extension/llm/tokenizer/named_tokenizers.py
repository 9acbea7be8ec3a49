"""Tokenizers with the names and calls of the package pytorch_tokenizers, over `Tokenizer`.

Scripts for it run with these after their imports are changed. Ids and texts are those of the
libraries that it calls: tokenizers, tiktoken and sentencepiece.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from executorch_py.errors import InvalidArgument
from executorch_py.extension.llm.tokenizer.tokenizer import Tokenizer

_ARGUMENT = "[InvalidArgument, error: 0x12]"
_LLAMA_SPECIAL = [
    "begin_of_text",
    "end_of_text",
    "reserved_special_token_0",
    "reserved_special_token_1",
    "finetune_right_pad_id",
    "step_id",
    "start_header_id",
    "end_header_id",
    "eom_id",
    "eot_id",
    "python_tag",
]
_N_LLAMA_SPECIAL = 256


def llama_special_tokens() -> list[str]:
    """The names of Llama 3's special tokens, in the order of their ids."""
    n_reserved = _N_LLAMA_SPECIAL - len(_LLAMA_SPECIAL)
    reserved = [f"reserved_special_token_{i + 2}" for i in range(n_reserved)]
    return [f"<|{name}|>" for name in [*_LLAMA_SPECIAL, *reserved]]


class _Named:
    """Attributes and calls of all: `n_words`, `bos_id`, `eos_id`, ids of a text and back."""

    bos_id: int | None
    eos_id: int | None

    def __init__(self, model: Tokenizer) -> None:
        self.model = model
        self.n_words: int = model.vocab_size

    def _id(self, name: str) -> int | None:
        """The id of a special token; None if there is none of this name."""
        ids = self.model.encode(name, add_special_tokens=False, parse_special=True)
        return ids[0] if len(ids) == 1 and self.model.token(ids[0]) == name.encode() else None

    def _around(self, ids: list[int], bos: bool, eos: bool) -> list[int]:
        for wanted, token, name in ((bos, self.bos_id, "bos"), (eos, self.eos_id, "eos")):
            if wanted and token is None:
                raise InvalidArgument(
                    f"{name}: expected False, as the tokenizer has no such token, got True "
                    f"{_ARGUMENT}"
                )
        first = [self.bos_id] if bos and self.bos_id is not None else []
        last = [self.eos_id] if eos and self.eos_id is not None else []
        return [*first, *ids, *last]

    def decode(self, t: Sequence[int]) -> str:
        """The text of ids, without special tokens."""
        return self.model.decode(t)

    def decode_token(self, t: int) -> str:
        """The text of one id."""
        return self.decode([t])


class HuggingFaceTokenizer(_Named):
    """A tokenizer.json; `config_path` is its tokenizer_config.json, which names bos and eos."""

    def __init__(self, model_path: str | os.PathLike[str], config_path: str | None = None) -> None:
        super().__init__(Tokenizer.from_file(model_path))
        config: dict[str, Any] = {
            "bos_token": "<|begin_of_text|>",
            "eos_token": "<|endoftext|>",
        }
        if config_path:
            config = json.loads(Path(config_path).read_text("utf-8"))
        self.bos_id, self.eos_id = (self._named(config.get(f"{x}_token")) for x in ("bos", "eos"))
        self.stop_tokens = [self.eos_id]

    def _named(self, name: Any) -> int | None:
        text = name.get("content") if isinstance(name, dict) else name
        return self._id(text) if isinstance(text, str) and text else None

    def encode(self, s: str, *, bos: bool = False, eos: bool = False) -> list[int]:
        """The ids of a text with the file's template around it: `bos` and `eos` change nothing."""
        return self.model.encode(s, parse_special=True)


class TiktokenTokenizer(_Named):
    """A file of ranks; without `pat_str` and `special_tokens`, those of Llama 3."""

    def __init__(
        self,
        model_path: str | os.PathLike[str],
        pat_str: str | None = None,
        special_tokens: Sequence[str] | None = None,
    ) -> None:
        names = llama_special_tokens() if special_tokens is None else list(special_tokens)
        model = Tokenizer.from_file(model_path, pattern=pat_str, special_tokens=names)
        super().__init__(model)
        first = self.n_words - len(names)
        self.special_tokens = {name: first + i for i, name in enumerate(names)}
        self.bos_id = self.special_tokens.get("<|begin_of_text|>")
        self.eos_id = self.special_tokens.get("<|end_of_text|>")

    def encode(
        self,
        s: str,
        *,
        bos: bool,
        eos: bool,
        allowed_special: str | Collection[str] | None = None,
        disallowed_special: str | Collection[str] = (),
    ) -> list[int]:
        """The ids of a text. Names of special tokens are text, or with `allowed_special="all"`
        these tokens; those of `disallowed_special` are refused."""
        if allowed_special not in (None, "all") and allowed_special:
            raise InvalidArgument(
                f"allowed_special: expected 'all' or none, got {allowed_special!r} {_ARGUMENT}"
            )
        every = disallowed_special == "all"
        refused = [] if allowed_special == "all" and every else disallowed_special
        for name in self.special_tokens if every and refused else refused:
            if name in s:
                raise InvalidArgument(
                    f"text: expected none of the special tokens, got {name!r}; pass "
                    f"disallowed_special=() to read it as text {_ARGUMENT}"
                )
        ids = self.model.encode(s, add_special_tokens=False, parse_special=allowed_special == "all")
        return self._around(ids, bos, eos)

    def decode(self, t: Sequence[int], skip_special_tokens: bool = False) -> str:
        """The text of ids, with the names of special tokens unless they are skipped."""
        return self.model.decode(t, skip_special_tokens=skip_special_tokens)


class Llama2cTokenizer(_Named):
    """A .model file of SentencePiece."""

    def __init__(self, model_path: str | os.PathLike[str]) -> None:
        super().__init__(Tokenizer.from_file(model_path))
        self.model_path = model_path
        self.bos_id, self.eos_id = self._id("<s>"), self._id("</s>")

    def encode(self, s: str, bos: bool, eos: bool) -> list[int]:
        """The ids of a text, with the tokens that begin and end one if wanted."""
        return self._around(self.model.encode(s, add_special_tokens=False), bos, eos)


def get_tokenizer(
    tokenizer_path: str | os.PathLike[str], tokenizer_config_path: str | None = None
) -> HuggingFaceTokenizer | TiktokenTokenizer | Llama2cTokenizer:
    """The tokenizer of a file: by its name for .json, else by its contents."""
    path = os.fspath(tokenizer_path)
    if path.endswith(".json"):
        return HuggingFaceTokenizer(path, tokenizer_config_path)
    with open(path, "rb") as file:
        is_ranks = file.read(1).isalnum()  # a line of base64; a .model begins with a byte of a key
    return TiktokenTokenizer(path) if is_ranks else Llama2cTokenizer(path)
