"""The tokenizer.bin of llama2.c gives the ids of the SentencePiece model that it was made of."""

from __future__ import annotations

import struct

import pytest
from support.piece_files import BPE, USER_DEFINED, PieceFile, variants

from executorch_py.extension.llm.tokenizer import Tokenizer

# llama2.c has no user-defined pieces, and keeps spaces.
FILE = PieceFile(
    tuple(piece for piece in variants()["bpe, bytes"].pieces if piece[2] != USER_DEFINED),
    BPE,
    byte_fallback=True,
    trim=False,
)
TEXTS = ("the cat", "  that  hat\nthe mat ", "mathematical, 121", "aaaaaaa 漢字🙂", "x", " ")


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.from_bytes(FILE.llama2c())


def test_ids_equal_those_of_the_model(tokenizer: Tokenizer) -> None:
    reference = Tokenizer.from_bytes(FILE.sentencepiece())
    assert tokenizer.vocab_size == reference.vocab_size
    for text in TEXTS:
        ids = tokenizer.encode(text, add_special_tokens=False)
        assert ids == reference.encode(text)
        assert tokenizer.encode(text) == [1, *ids]
        assert tokenizer.decode(ids) == text


def test_a_file_that_ends_early_is_no_longer_one(tokenizer: Tokenizer) -> None:
    for n in (0, 3, 4, 11, 500, len(FILE.llama2c()) - 1):
        with pytest.raises(RuntimeError):
            Tokenizer.from_bytes(FILE.llama2c()[:n])


def test_a_token_that_is_longer_than_the_longest_is_no_file_of_llama2c() -> None:
    with pytest.raises(RuntimeError):
        Tokenizer.from_bytes(struct.pack("<i", 1) + FILE.llama2c()[4:])
