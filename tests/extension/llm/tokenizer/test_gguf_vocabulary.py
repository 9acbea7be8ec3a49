"""The vocabulary of a GGUF file gives the ids of the tokenizer that it was made of."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.piece_files import NORMAL, TEXTS, PieceFile, gguf_bytes, variants
from support.real_models import Unavailable, gguf_file
from support.trained_tokenizers import ENGLISH, sample_texts, trained
from tokenizers import Regex, models, pre_tokenizers
from tokenizers import Tokenizer as Reference

from executorch_py.extension.llm.tokenizer import Tokenizer

_SPLITS = {
    "gpt-2": [],
    "smollm": [r"\p{N}"],
    "llama-bpe": [
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
        r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    ],
    "qwen2": [
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|"
        r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    ],
    "deepseek-v3": [
        r"\p{N}{1,3}",
        "[一-龥\u3040-\u309f\u30a0-\u30ff]+",
        r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|"
        r" ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    ],
}


# Ids of SmolLM2 from llama-cpp-python 0.3.36.
RECORDED = [
    ("Hello, world! It's 2024.", [19556, 28, 905, 17, 657, 506, 216, 34, 32, 34, 36, 30]),
    (
        "  def f(x):\n\treturn x**2\n",
        [216, 753, 275, 24, 104, 727, 198, 197, 5406, 1792, 828, 34, 198],
    ),
    ("naïve café 漢字 🙂", [3546, 46494, 37366, 17097, 137, 112, 36518, 47526]),
    ("<|im_start|>user\n", [44, 108, 306, 79, 3738, 108, 46, 4093, 198]),
]


def byte_level() -> dict:
    return json.loads(trained("BPE of bytes, GPT-4").to_str())["model"]


def tokens_of(vocab: dict[str, int]) -> list[str]:
    return sorted(vocab, key=lambda token: vocab[token])


def merges_of(model: dict) -> list[str]:
    return [merge if isinstance(merge, str) else " ".join(merge) for merge in model["merges"]]


@pytest.mark.parametrize("pre", _SPLITS)
def test_byte_level_ids_equal_those_of_tokenizers(pre: str, tmp_path: Path) -> None:
    model = byte_level()
    tokens = tokens_of(model["vocab"])
    file = gguf_bytes(
        tmp_path / "file", "gpt2", tokens, [NORMAL] * len(tokens), pre=pre, merges=merges_of(model)
    )
    merges = [tuple(merge.split(" ")) for merge in merges_of(model)]
    whole = pre == "llama-bpe"
    reference = Reference(models.BPE(model["vocab"], merges, ignore_merges=whole))
    splits = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in _SPLITS[pre]]
    last = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=pre in ("gpt-2", "smollm"))
    reference.pre_tokenizer = pre_tokenizers.Sequence([*splits, last])
    tokenizer = Tokenizer.from_bytes(file)
    for text in (*sample_texts(500), ENGLISH[:50_000], "don't DON'T 1234567", "\n \n\n  x"):
        ids = tokenizer.encode(text, add_special_tokens=False)
        assert ids == reference.encode(text).ids, text
        assert tokenizer.decode(ids) == text


def test_an_unknown_name_of_patterns_is_refused_with_others(tmp_path: Path) -> None:
    file = gguf_bytes(tmp_path / "file", "gpt2", ["a"], [NORMAL], pre="none-such", merges=["a b"])
    with pytest.raises(RuntimeError, match=r"llama-bpe, qwen2, .* got 'none-such'"):
        Tokenizer.from_bytes(file)


def test_user_defined_tokens_are_found_in_any_text_and_control_tokens_when_asked(
    tmp_path: Path,
) -> None:
    model = byte_level()
    tokens = [*tokens_of(model["vocab"]), "<user>", "<control>"]
    kinds = [NORMAL] * (len(tokens) - 2) + [4, 3]
    user, control = len(tokens) - 2, len(tokens) - 1
    options = {"bos_token_id": control, "eos_token_id": user, "add_bos_token": True}
    file = gguf_bytes(
        tmp_path / "file", "gpt2", tokens, kinds, pre="gpt-2", merges=merges_of(model), **options
    )
    tokenizer = Tokenizer.from_bytes(file)
    ids = tokenizer.encode("a<user>b<control>")
    assert ids[0] == control and user in ids and control not in ids[1:]
    assert tokenizer.decode(ids) == "a<user>b<control>"
    assert tokenizer.encode("<control>", parse_special=True) == [control, control]


def test_many_merges_of_control_tokens_change_no_ids(tmp_path: Path) -> None:
    model = byte_level()
    control = [f"<{i}>" for i in range(40_000)]
    tokens = [*tokens_of(model["vocab"]), *control]
    kinds = [NORMAL] * len(model["vocab"]) + [3] * len(control)
    merges = merges_of(model) + [f"{token} a" for token in control]
    file = gguf_bytes(tmp_path / "file", "gpt2", tokens, kinds, pre="gpt-2", merges=merges)
    plain = gguf_bytes(
        tmp_path / "plain", "gpt2", tokens, kinds, pre="gpt-2", merges=merges_of(model)
    )
    tokenizer = Tokenizer.from_bytes(file)
    text = ENGLISH[:1000] + "<7>a"
    assert tokenizer.encode(text) == Tokenizer.from_bytes(plain).encode(text)


@pytest.mark.parametrize("name", ["bpe, spaces kept", "bpe, bytes", "bpe, no prefix"])
def test_scored_pieces_give_the_ids_of_sentencepiece(name: str, tmp_path: Path) -> None:
    file = variants()[name]
    # User-defined pieces are found in the text as it is, so that spaces are not put before them.
    pieces = tuple((text, score, 1 if kind == 4 else kind) for text, score, kind in file.pieces)
    file = PieceFile(
        pieces, byte_fallback=file.byte_fallback, dummy_prefix=file.dummy_prefix, trim=False
    )
    tokenizer = Tokenizer.from_bytes(file.gguf(tmp_path / "file"))
    reference = Tokenizer.from_bytes(file.sentencepiece())
    for text in TEXTS:
        ids = tokenizer.encode(text, add_special_tokens=False)
        expected = reference.encode(text)
        # llama.cpp does not join unknown tokens.
        assert [i for i in ids if i != 0] == [i for i in expected if i != 0], text
        assert tokenizer.encode(text) == [1, *ids]


@pytest.mark.parametrize("name", ["unigram", "unigram, spaces kept", "unigram, map"])
def test_unigram_models_give_the_ids_of_sentencepiece(name: str, tmp_path: Path) -> None:
    whole = variants()[name]
    pieces = tuple((text, score, 1 if kind == 4 else kind) for text, score, kind in whole.pieces)
    file = PieceFile(pieces, whole.model_type, trim=whole.trim, charsmap=whole.charsmap)
    tokenizer = Tokenizer.from_bytes(file.gguf(tmp_path / "file"))
    reference = Tokenizer.from_bytes(file.sentencepiece())
    for text in TEXTS:
        assert tokenizer.encode(text, add_special_tokens=False) == reference.encode(text)


def test_bert_ids_equal_those_of_tokenizers(tmp_path: Path) -> None:
    state = json.loads(trained("WordPiece, BERT").to_str())
    reference = Reference.from_str(json.dumps({**state, "added_tokens": []}))
    tokens = tokens_of(state["model"]["vocab"])
    unknown, cls, sep = (tokens.index(token) for token in ("[UNK]", "[CLS]", "[SEP]"))
    kinds = [3 if token in ("[UNK]", "[CLS]", "[SEP]") else NORMAL for token in tokens]
    written = [
        token if kind != NORMAL else token[2:] if token.startswith("##") else "▁" + token
        for token, kind in zip(tokens, kinds, strict=True)
    ]
    options = {"bos_token_id": cls, "seperator_token_id": sep, "unknown_token_id": unknown}
    tokenizer = Tokenizer.from_bytes(
        gguf_bytes(tmp_path / "file", "bert", written, kinds, **options)
    )
    for text in (*sample_texts(500), ENGLISH[:50_000]):
        expected = reference.encode(text, add_special_tokens=False).ids
        assert tokenizer.encode(text) == [cls, *expected, sep], text
        assert tokenizer.decode(expected, skip_special_tokens=False) == reference.decode(expected)


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    file = variants()["bpe"].gguf(tmp_path / "file")
    for n in range(4, len(file) - 40, 97):
        with pytest.raises(RuntimeError):
            Tokenizer.from_bytes(file[:n])
    place = file.index(b"tokenizer.ggml.tokens") + len("tokenizer.ggml.tokens") + 8
    huge = file[:place] + (2**61).to_bytes(8, "little") + file[place + 8 :]
    with pytest.raises(RuntimeError, match="expected an array of 2305843009213693952 items"):
        Tokenizer.from_bytes(huge)
    with pytest.raises(RuntimeError, match="version 2 or 3"):
        Tokenizer.from_bytes(b"GGUF" + bytes(20))
    unknown = file.replace(b"\5\0\0\0\0\0\0\0llama", b"\5\0\0\0\0\0\0\0rwkv7")
    with pytest.raises(RuntimeError, match="llama, gpt2, bert or t5, got 'rwkv7'"):
        Tokenizer.from_bytes(unknown)


def test_a_real_file_has_the_ids_of_llama_cpp() -> None:
    try:
        path = gguf_file("SmolLM2-135M-Instruct-Q4_1")
    except Unavailable as reason:
        pytest.skip(str(reason))
    with path.open("rb") as file:
        tokenizer = Tokenizer.from_bytes(file.read(4_000_000))
    for text, ids in RECORDED:
        assert tokenizer.encode(text, add_special_tokens=False) == ids
        assert tokenizer.decode(ids) == text
