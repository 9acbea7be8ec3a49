"""Byte pair encoding of letters of several bytes, whose tokens may begin or end within a letter."""

from __future__ import annotations

import base64
import itertools
import json
import random

import pytest
from tokenizers import Tokenizer as Reference

from executorch_py.errors import InvalidExternalData
from executorch_py.extension.llm.tokenizer import Tokenizer

# Letters of 1 to 4 bytes that share their bytes with others.
ALPHABET = "ab éèā人亻仁😀😁"
PRINTABLE = [*range(33, 127), *range(161, 173), *range(174, 256)]
LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}


def letters_of_bytes() -> dict[int, str]:
    """The letter that stands for each byte in a tokenizer.json."""
    others = [byte for byte in range(256) if byte not in PRINTABLE]
    named = {byte: chr(byte) for byte in PRINTABLE}
    return named | {byte: chr(256 + i) for i, byte in enumerate(others)}


def tokenizer_json(merges: list[tuple[str, str]]) -> str:
    words = dict.fromkeys([*letters_of_bytes().values(), *(left + right for left, right in merges)])
    model = {
        "type": "BPE",
        "vocab": {word: i for i, word in enumerate(words)},
        "merges": [list(merge) for merge in merges],
    }
    parts = {"added_tokens": [], "pre_tokenizer": LEVEL, "decoder": LEVEL, "model": model}
    return json.dumps({"version": "1.0"} | parts)


def random_merges(draw: random.Random, n: int) -> list[tuple[str, str]]:
    """Merges of neighbours in random texts, wherever letters begin and end."""
    letters = letters_of_bytes()
    merges: dict[tuple[str, str], None] = {}
    while len(merges) < n:
        symbols = [letters[byte] for byte in "".join(draw.choices(ALPHABET, k=6)).encode()]
        for left, right in merges:
            for i in reversed(range(len(symbols) - 1)):
                if symbols[i : i + 2] == [left, right]:
                    symbols[i : i + 2] = [left + right]
        if len(symbols) > 1:
            i = draw.randrange(len(symbols) - 1)
            merges[symbols[i], symbols[i + 1]] = None
    return list(merges)


@pytest.mark.parametrize("seed", range(40))
def test_ids_are_those_of_tokenizers_wherever_tokens_cut_letters(seed: int) -> None:
    draw = random.Random(seed)
    merges = random_merges(draw, draw.choice([8, 30, 100]))
    if seed % 2:
        draw.shuffle(merges)
    file = tokenizer_json(merges)
    ours, reference = Tokenizer.from_bytes(file.encode()), Reference.from_str(file)
    for n in [1, 2, 3, 5, 8, 13, 40, 200]:
        for _ in range(20):
            text = "".join(draw.choices(ALPHABET, k=n))
            assert ours.encode(text) == reference.encode(text).ids, text


def joined(ranks: dict[bytes, int], word: bytes) -> list[int]:
    """The tokens of a word: of neighbours, the leftmost ones of the least rank are joined first."""
    symbols = [word[i : i + 1] for i in range(len(word))]
    while True:
        found = [
            (ranks[left + right], i)
            for i, (left, right) in enumerate(itertools.pairwise(symbols))
            if left + right in ranks
        ]
        if not found:
            return [ranks[symbol] for symbol in symbols]
        _, i = min(found)
        symbols[i : i + 2] = [symbols[i] + symbols[i + 1]]


@pytest.mark.parametrize("seed", range(40))
def test_ids_of_ranked_tokens_are_those_of_the_definition(seed: int) -> None:
    draw = random.Random(seed)
    letters = {letter: bytes([byte]) for byte, letter in letters_of_bytes().items()}
    tokens = [
        b"".join(letters[letter] for letter in left + right)
        for left, right in random_merges(draw, draw.choice([8, 30, 100]))
    ]
    if seed % 2:
        draw.shuffle(tokens)
    words = dict.fromkeys([*(bytes([byte]) for byte in range(256)), *tokens])
    ranks = {word: i for i, word in enumerate(words)}
    file = b"\n".join(base64.b64encode(word) + b" %d" % i for word, i in ranks.items())
    ours = Tokenizer.from_bytes(file, pattern=r"[^\n]+")
    for n in [1, 2, 3, 5, 8, 13, 40]:
        for _ in range(20):
            text = "".join(draw.choices(ALPHABET, k=n))
            whole = ranks.get(text.encode())
            expected = joined(ranks, text.encode()) if whole is None else [whole]
            assert ours.encode(text) == expected, text


def test_a_merge_that_is_no_utf8_is_refused() -> None:
    file = tokenizer_json([("á", "b")]).encode()
    merge = json.dumps(["á", "b"]).encode()
    assert file.count(merge) == 1
    # A first byte of "á" and another second one, of which six bits are the same.
    damaged = file.replace(merge, b'["\xc3\x61", "b"]')
    with pytest.raises(InvalidExternalData, match="expected UTF-8 in a string"):
        Tokenizer.from_bytes(damaged)
