"""Models of SentencePiece give the ids and texts that sentencepiece 0.2.3 gave when recorded."""

from __future__ import annotations

import json
import random
import struct
from pathlib import Path

import pytest
from support.paths import ROOT
from support.piece_files import (
    BPE,
    BYTE,
    CONTROL,
    NORMAL,
    TEXTS,
    UNIGRAM,
    UNKNOWN,
    UNUSED,
    USER_DEFINED,
    PieceFile,
    variants,
)

from executorch_py.extension.llm.tokenizer import Tokenizer

RECORDED = json.loads(Path(ROOT, "tests/golden/sentencepiece_ids.json").read_text())["models"]
FILES = variants()
_SPECIAL = [("<unk>", 0.0, UNKNOWN), ("<s>", 0.0, CONTROL), ("</s>", 0.0, CONTROL)]


def made(pieces: list[tuple[str, float, int]], **options: object) -> Tokenizer:
    return Tokenizer.from_bytes(PieceFile(tuple(_SPECIAL + pieces), **options).sentencepiece())


@pytest.mark.parametrize("name", FILES)
def test_ids_equal_those_of_sentencepiece(name: str) -> None:
    tokenizer = Tokenizer.from_bytes(FILES[name].sentencepiece())
    assert [tokenizer.encode(text) for text in TEXTS] == RECORDED[name]["encode"]


@pytest.mark.parametrize("name", FILES)
def test_texts_equal_those_of_sentencepiece(name: str) -> None:
    tokenizer = Tokenizer.from_bytes(FILES[name].sentencepiece())
    for ids, text in RECORDED[name]["decode"]:
        assert tokenizer.decode(ids) == text


def test_long_runs_are_encoded_like_short_ones() -> None:
    tokenizer = Tokenizer.from_bytes(FILES["bpe, bytes"].sentencepiece())
    text = "the cat sat on the mat " * 3000
    once = tokenizer.encode("the cat sat on the mat the")
    assert tokenizer.encode(text.strip())[: len(once) - 1] == once[:-1]
    assert tokenizer.decode(tokenizer.encode(text)) == text.strip()
    assert tokenizer.encode(" " * 100_000) == []


def test_of_equal_scores_the_leftmost_pair_is_joined_first() -> None:
    letters = [(letter, -9.0, NORMAL) for letter in "abc"]
    tokenizer = made([*letters, ("ab", -1.0, NORMAL), ("bc", -1.0, NORMAL)], dummy_prefix=False)
    assert tokenizer.encode("abc") == [6, 5]
    assert tokenizer.encode("bcab") == [7, 6]


def test_a_letter_that_is_no_piece_can_be_a_part_of_one() -> None:
    tokenizer = made([("a", -2.0, NORMAL), ("ab", -1.0, NORMAL)], dummy_prefix=False)
    assert tokenizer.encode("ab") == [4]
    assert tokenizer.encode("abbb") == [4, 0]


def test_the_longest_user_defined_piece_is_cut_out() -> None:
    pieces = [("a", -1.0, NORMAL), ("b", -1.0, NORMAL), ("aab", 0.0, NORMAL)]
    tokenizer = made(
        [*pieces, ("ab", 0.0, USER_DEFINED), ("abab", 0.0, USER_DEFINED)], dummy_prefix=False
    )
    assert tokenizer.encode("aabab") == [3, 7]
    assert tokenizer.encode("aab") == [3, 6]


def test_sums_of_scores_are_rounded_to_single_precision() -> None:
    # In double precision, "a" and "b" are better than "ab".
    tokenizer = made(
        [
            ("x", -16777216.0, NORMAL),
            ("ab", -1.0, NORMAL),
            ("a", 0.0, NORMAL),
            ("b", -0.75, NORMAL),
        ],
        model_type=UNIGRAM,
        dummy_prefix=False,
    )
    assert tokenizer.encode("ab") == [5, 6]


def test_special_pieces_of_a_text_are_found_only_when_asked() -> None:
    tokenizer = Tokenizer.from_bytes(FILES["bpe, bytes"].sentencepiece())
    assert 1 not in tokenizer.encode("the <s> cat")
    assert 1 in tokenizer.encode("the <s> cat", parse_special=True)


def test_unused_pieces_are_not_made_of_a_text() -> None:
    tokenizer = made([("a", -1.0, NORMAL), ("aa", 0.0, UNUSED)], model_type=UNIGRAM)
    assert 4 not in tokenizer.encode("aaaa")
    assert tokenizer.decode([4, 3]) == "aaa"


@pytest.mark.parametrize(
    "file, message",
    [
        (b"\x0a\x05\x0a\x03abc\x0a\x99", "expected a number of at most 10 bytes at byte 8 of 9"),
        (b"\x0a\x05\x0a\x03abc\x0a\x7f", "expected a field of 127 bytes at byte 9 of 9"),
        (b"\x0a\x05\x0a\x03abc\x0b\x00", "expected a field of type 0, 1, 2 or 5 at byte 7, got 3"),
        (b"\x0a\x05\x0a\x03abc\x02\x00", "expected a field number from 1"),
        (b"\x0a\x05\x0a\x03ab\xff", "expected UTF-8 in token 0, got another byte at 2"),
        (b"\x0a\x04\x0a\x00\x18\x09", "expected some text in piece 0, got none"),
    ],
)
def test_a_damaged_file_is_refused_with_the_place(file: bytes, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        Tokenizer.from_bytes(file)


def test_what_is_not_supported_is_named() -> None:
    piece = ("a", -1.0, NORMAL)
    with pytest.raises(RuntimeError, match="expected a finite score of token 3, got"):
        made([("a", float("nan"), NORMAL)])
    with pytest.raises(RuntimeError, match=r"expected a model of type 1 .* got 9"):
        made([piece], model_type=9)
    with pytest.raises(RuntimeError, match="expected 256 pieces of bytes with byte_fallback"):
        made([piece], byte_fallback=True)
    with pytest.raises(RuntimeError, match="expected a name <0xHH> of token"):
        made([("<0x>", 0.0, BYTE)] * 256, byte_fallback=True)
    denormalizer = b"\x2a\x03\x12\x01x"
    file = PieceFile((*_SPECIAL, piece), BPE).sentencepiece() + denormalizer
    with pytest.raises(RuntimeError, match="no character map for decoding"):
        Tokenizer.from_bytes(file)


def test_no_damage_ends_the_process() -> None:
    draw = random.Random(7)
    whole = FILES["unigram, map"].sentencepiece()
    for _ in range(400):
        damaged = bytearray(whole)
        at = draw.randrange(len(damaged) - 8)
        damaged[at : at + 4] = struct.pack("<I", draw.choice([0, 1, 2**31, 2**32 - 1, 0x7FC00000]))
        try:
            Tokenizer.from_bytes(bytes(damaged)).encode(TEXTS[4])
        except RuntimeError:
            continue
