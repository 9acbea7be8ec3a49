"""The classes of pytorch_tokenizers: ids of their libraries, tokens around them, refusals."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from support.piece_files import TEXTS, variants
from support.trained_tokenizers import sample_texts, trained
from tokenizers import Tokenizer as Reference

from executorch_py.errors import InvalidArgument
from executorch_py.extension.llm.tokenizer import (
    HuggingFaceTokenizer,
    Llama2cTokenizer,
    TiktokenTokenizer,
    Tokenizer,
    get_tokenizer,
)
from executorch_py.extension.llm.tokenizer.named_tokenizers import llama_special_tokens


@pytest.fixture
def ranks(tmp_path: Path) -> Path:
    """The bytes, and a few words, as tiktoken stores them."""
    words = [bytes([byte]) for byte in range(256)] + [b"he", b"ll", b"hell", b" w", b"or"]
    path = tmp_path / "tokenizer.model"
    lines = [f"{base64.b64encode(word).decode()} {i}\n" for i, word in enumerate(words)]
    path.write_text("".join(lines))
    return path


def hugging_face(folder: Path) -> tuple[Path, Path, Reference]:
    reference = Reference.from_str(trained("BPE of bytes, GPT-4").to_str())
    reference.add_special_tokens(["<|begin|>", "<|end|>"])
    path, config = folder / "tokenizer.json", folder / "tokenizer_config.json"
    path.write_text(reference.to_str(), "utf-8")
    names = {"bos_token": {"content": "<|begin|>"}, "eos_token": "<|end|>"}
    config.write_text(json.dumps(names))
    return path, config, reference


def test_a_tokenizer_json_gives_the_ids_of_its_library(tmp_path: Path) -> None:
    path, config, reference = hugging_face(tmp_path)
    found = get_tokenizer(str(path), str(config))
    assert isinstance(found, HuggingFaceTokenizer) and found.n_words == reference.get_vocab_size()
    assert found.bos_id == reference.token_to_id("<|begin|>")
    assert found.eos_id == reference.token_to_id("<|end|>") and found.stop_tokens == [found.eos_id]
    for text in [*sample_texts(100), "a<|end|>b"]:
        ids = reference.encode(text).ids
        assert found.encode(text, bos=True, eos=True) == ids
        assert found.decode(ids) == reference.decode(ids)
    assert found.decode_token(ids[0]) == "a"
    assert get_tokenizer(path).bos_id is None


def test_a_file_of_ranks_has_the_special_tokens_of_llama_3(ranks: Path) -> None:
    found = get_tokenizer(ranks)
    assert isinstance(found, TiktokenTokenizer) and found.n_words == 261 + 256
    assert len(set(llama_special_tokens())) == 256
    assert found.special_tokens["<|eot_id|>"] == 261 + 9
    assert (found.bos_id, found.eos_id) == (261, 262)
    assert found.encode("hello", bos=True, eos=True) == [261, 258, ord("o"), 262]
    named = found.encode("<|eot_id|>", bos=False, eos=False, allowed_special="all")
    assert named == [270] and found.decode(named) == "<|eot_id|>"
    assert found.decode(named, skip_special_tokens=True) == ""
    assert 270 not in found.encode("<|eot_id|>", bos=False, eos=False)
    assert found.decode(found.encode("<|eot_id|> é", bos=False, eos=False)) == "<|eot_id|> é"


def test_names_that_are_not_allowed_are_refused(ranks: Path) -> None:
    found = TiktokenTokenizer(ranks)
    with pytest.raises(InvalidArgument, match=r"got '<\|eom_id\|>'; pass disallowed_special=\(\)"):
        found.encode("a <|eom_id|>", bos=False, eos=False, disallowed_special="all")
    with pytest.raises(InvalidArgument, match="allowed_special: expected 'all' or none"):
        found.encode("a", bos=False, eos=False, allowed_special={"<|eom_id|>"})
    own = TiktokenTokenizer(ranks, special_tokens=["<x>"])
    assert own.n_words == 262 and own.bos_id is None
    with pytest.raises(InvalidArgument, match="bos: expected False, as the tokenizer has no such"):
        own.encode("a", bos=True, eos=False)


@pytest.mark.parametrize("name", ["bpe, bytes", "unigram"])
def test_a_model_of_sentencepiece_has_its_ids(name: str, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.model"
    path.write_bytes(variants()[name].sentencepiece())
    found = get_tokenizer(path)
    assert isinstance(found, Llama2cTokenizer) and (found.bos_id, found.eos_id) == (1, 2)
    plain = Tokenizer.from_file(path)
    for text in TEXTS:
        ids = plain.encode(text, add_special_tokens=False)
        assert found.encode(text, bos=True, eos=True) == [1, *ids, 2]
        assert found.encode(text, bos=False, eos=False) == ids
        assert found.decode([1, *ids, 2]) == plain.decode(ids)
