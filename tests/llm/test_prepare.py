"""et_tokenizer_prepare: needs of another file are recognised before memory depends on them."""

from __future__ import annotations

import json

import pytest
from support.llm_driver import LlmError, prepare_with_needs_of


def file_of(vocab: dict[str, int], merges: list[str]) -> bytes:
    model = {"type": "BPE", "vocab": vocab, "merges": merges}
    return json.dumps({"version": "1.0", "added_tokens": [], "model": model}).encode()


FILE = file_of({"a": 0, "b": 1, "ab": 2}, ["a b"])


def test_the_needs_of_the_file_are_enough() -> None:
    prepare_with_needs_of(FILE, FILE)


@pytest.mark.parametrize(
    "other",
    [
        file_of({"a": 0, "b": 1, "ab": 7}, ["a b"]),
        file_of({"a": 0, "b": 1, "ab": 9999999}, ["a b"]),
        file_of({"a": 0, "b": 1, "ab": 2}, ["a b"] * 100),
    ],
    ids=["a greater id", "an id of millions", "more merges"],
)
def test_the_needs_of_another_file_are_refused(other: bytes) -> None:
    with pytest.raises(LlmError, match=r"expected|got"):
        prepare_with_needs_of(FILE, other)
