"""et_tokenizer_prepare: needs of another file are recognised before memory depends on them."""

from __future__ import annotations

import json

import pytest
from support.llm_driver import LlmError, prepare_with_needs_of

ROOM = 200  # bytes of each list: lists of all files here begin and end at the same places


def listed(value: object) -> str:
    text = json.dumps(value)
    return text[:-1] + " " * (ROOM - len(text)) + text[-1]


def file_of(vocab: dict[str, int], merges: list[str]) -> bytes:
    model = f'{{"type": "BPE", "vocab": {listed(vocab)}, "merges": {listed(merges)}}}'
    return f'{{"version": "1.0", "added_tokens": [], "model": {model}}}'.encode()


FILE = file_of({"a": 0, "b": 1, "ab": 2}, ["a b"])


def test_the_needs_of_the_file_are_enough() -> None:
    prepare_with_needs_of(FILE, FILE)


@pytest.mark.parametrize(
    "other",
    [
        file_of({"a": 0, "b": 1, "ab": 7}, ["a b"]),
        file_of({"a": 0, "b": 1, "ab": 9999999}, ["a b"]),
        file_of({"a": 0, "b": 1, "ab": -1}, ["a b"]),
        file_of({"a": 0, "b": 1, "ab": 2}, ["a b"] * 20),
    ],
    ids=["a greater id", "an id of millions", "a negative id", "more merges"],
)
def test_the_needs_of_another_file_are_refused(other: bytes) -> None:
    with pytest.raises(LlmError, match="expected the file that was measured, got another one"):
        prepare_with_needs_of(FILE, other)
