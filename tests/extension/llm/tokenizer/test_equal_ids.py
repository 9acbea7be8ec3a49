"""Tokenizers of every kind give the ids and texts of Hugging Face's tokenizers."""

from __future__ import annotations

import random

import pytest
from support.trained_tokenizers import ENGLISH, MAKERS, WITH_DECODER, sample_texts, trained

from executorch_py.extension.llm.tokenizer import Tokenizer


def ours(name: str) -> Tokenizer:
    return Tokenizer.from_bytes(trained(name).to_str().encode())


@pytest.mark.parametrize("name", MAKERS)
def test_ids_equal_those_of_tokenizers(name: str) -> None:
    tokenizer, reference = ours(name), trained(name)
    for text in sample_texts(2000):
        expected = reference.encode(text, add_special_tokens=False).ids
        assert tokenizer.encode(text, add_special_tokens=False) == expected, text


@pytest.mark.parametrize("name", WITH_DECODER)
def test_texts_equal_those_of_tokenizers(name: str) -> None:
    tokenizer, reference = ours(name), trained(name)
    draw = random.Random(1)
    for text in sample_texts(500):
        drawn = [draw.randrange(tokenizer.vocab_size) for _ in range(8)]
        for ids in (reference.encode(text).ids, drawn):
            assert tokenizer.decode(ids) == reference.decode(ids), ids
            with_special = reference.decode(ids, skip_special_tokens=False)
            assert tokenizer.decode(ids, skip_special_tokens=False) == with_special, ids


@pytest.mark.parametrize("name", ["WordPiece", "Unigram"])
def test_the_template_is_put_around_a_text(name: str) -> None:
    text = "a word and more"
    assert ours(name).encode(text) == trained(name).encode(text).ids


@pytest.mark.parametrize("name", ["BPE of bytes, GPT-4", "BPE without splitter", "Unigram"])
def test_a_long_text_and_runs_of_one_letter_have_equal_ids(name: str) -> None:
    tokenizer, reference = ours(name), trained(name)
    for text in (ENGLISH, " " * 30_000, "a" * 30_000, "\n" * 3000 + " \n" * 3000):
        expected = reference.encode(text, add_special_tokens=False).ids
        assert tokenizer.encode(text, add_special_tokens=False) == expected


def test_special_tokens_of_a_text_are_found_only_when_asked() -> None:
    name = "BPE of bytes, GPT-4"
    tokenizer, reference = ours(name), trained(name)
    special = reference.token_to_id("<|sp|>")
    assert special not in tokenizer.encode("a<|sp|>b")
    assert tokenizer.decode(tokenizer.encode("a<|sp|>b")) == "a<|sp|>b"
    assert special in tokenizer.encode("a<|sp|>b", parse_special=True)


def test_each_token_has_its_bytes() -> None:
    name = "BPE of bytes, GPT-4"
    tokenizer, reference = ours(name), trained(name)
    assert tokenizer.vocab_size == reference.get_vocab_size()
    assert tokenizer.token(reference.token_to_id("Ġthe")) == b" the"
    assert tokenizer.token(reference.token_to_id("Ã")) == b"\xc3"


@pytest.mark.parametrize("name", ["WordPiece, BERT", "Unigram, normalized", "BPE of bytes, GPT-4"])
def test_equal_files_have_equal_images(name: str) -> None:
    file = trained(name).to_str().encode()
    images = set()
    for size in (1000, 300_000, 2_000_000):
        _used = bytearray(b"\xa5") * size  # memory that was used before may come again
        del _used
        images.add(Tokenizer.from_bytes(file).prepared)
    assert len(images) == 1
