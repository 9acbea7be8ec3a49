"""Small tokenizers of every kind, trained by tokenizers of Hugging Face on Python's own pages."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from functools import cache
from pydoc_data.topics import topics
from typing import Any

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

from support.llm_charsmap import make_charsmap

ENGLISH = "\n".join(topics.values())
_LETTERS = [*"abcdefgh tTQZ.,'!?é漢字🙂\u0301 \n\t12345_-▁\x00\u200b\xa0", "  ", "the "]
_ADDED = ["foo bar", "WORD", " LS", "RS ", "<|sp|>"]


def _trained(
    model: Any, splitter: Any, trainer: Any, decoder: Any = None, normalizer: Any = None
) -> Tokenizer:
    made = Tokenizer(model)
    made.pre_tokenizer = splitter
    if decoder is not None:
        made.decoder = decoder
    if normalizer is not None:
        made.normalizer = normalizer
    made.train_from_iterator(ENGLISH.split("\n"), trainer)
    return made


def _wordpiece() -> Tokenizer:
    special = ["[UNK]", "[CLS]", "[SEP]"]
    made = _trained(
        models.WordPiece(unk_token="[UNK]"),
        pre_tokenizers.Whitespace(),
        trainers.WordPieceTrainer(vocab_size=3000, special_tokens=special),
        decoders.WordPiece(),
    )
    made.post_processor = processors.BertProcessing(("[SEP]", 2), ("[CLS]", 1))
    return made


def _bert() -> Tokenizer:
    special = ["[UNK]", "[CLS]", "[SEP]"]
    return _trained(
        models.WordPiece(unk_token="[UNK]"),
        pre_tokenizers.BertPreTokenizer(),
        trainers.WordPieceTrainer(vocab_size=3000, special_tokens=special),
        decoders.WordPiece(),
        normalizers.BertNormalizer(),
    )


def _unigram(splitter: Any, normalizer: Any = None) -> Tokenizer:
    made = _trained(
        models.Unigram(),
        splitter,
        trainers.UnigramTrainer(
            vocab_size=3000, unk_token="<unk>", special_tokens=["<unk>", "<s>", "</s>"]
        ),
        decoders.Metaspace(),
        normalizer,
    )
    made.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 1), ("</s>", 2)]
    )
    return made


def _word_level() -> Tokenizer:
    return _trained(
        models.WordLevel(unk_token="[UNK]"),
        pre_tokenizers.BertPreTokenizer(),
        trainers.WordLevelTrainer(special_tokens=["[UNK]"]),
    )


def _with_suffix() -> Tokenizer:
    return _trained(
        models.BPE(unk_token="<unk>", end_of_word_suffix="</w>", fuse_unk=True),
        pre_tokenizers.BertPreTokenizer(),
        trainers.BpeTrainer(vocab_size=3000, end_of_word_suffix="</w>", special_tokens=["<unk>"]),
        decoders.BPEDecoder(suffix="</w>"),
    )


def _byte_level(splitter: Any, normalizer: Any = None) -> Tokenizer:
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    return _trained(
        models.BPE(),
        splitter,
        trainers.BpeTrainer(vocab_size=3000, initial_alphabet=alphabet, special_tokens=["<|end|>"]),
        decoders.ByteLevel(),
        normalizer,
    )


def _without_splitter() -> Tokenizer:
    """As Llama 2: BPE of the whole text, and bytes for letters that are no tokens."""
    learned = _trained(
        models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True),
        pre_tokenizers.Metaspace(),
        trainers.BpeTrainer(
            vocab_size=3000,
            special_tokens=["<unk>", *(f"<0x{i:02X}>" for i in range(256))],
        ),
    )
    # The tokens of bytes are tokens of the model only.
    state = json.loads(learned.to_str())
    state["added_tokens"] = state["added_tokens"][:1]
    state["pre_tokenizer"] = None
    made = Tokenizer.from_str(json.dumps(state))
    made.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    made.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    return made


def _split(behavior: str, invert: bool) -> Tokenizer:
    splitter = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r"\s+|\d"), behavior, invert),
            pre_tokenizers.Punctuation("contiguous"),
        ]
    )
    trainer = trainers.BpeTrainer(vocab_size=1500, special_tokens=["<unk>"])
    return _trained(models.BPE(unk_token="<unk>"), splitter, trainer)


_GPT4 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_BEHAVIORS = ("removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous")
MAKERS: dict[str, Callable[[], Tokenizer]] = {
    "WordPiece": _wordpiece,
    "Unigram": lambda: _unigram(pre_tokenizers.Metaspace()),
    "Unigram of words": lambda: _unigram(
        pre_tokenizers.Sequence(
            [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(prepend_scheme="first")]
        )
    ),
    "Unigram, normalized": lambda: _unigram(
        pre_tokenizers.Metaspace(),
        normalizers.Sequence(
            [
                normalizers.Replace(Regex(" {2,}"), " "),
                normalizers.Strip(),
                normalizers.NFKD(),
                normalizers.StripAccents(),
                normalizers.Lowercase(),
                normalizers.Precompiled(make_charsmap({"é": "e", "ﬁ": "fi"})),
            ]
        ),
    ),
    "WordPiece, BERT": _bert,
    "WordLevel": _word_level,
    "BPE with a suffix": _with_suffix,
    "BPE of bytes, GPT-2": lambda: _byte_level(pre_tokenizers.ByteLevel(add_prefix_space=True)),
    "BPE of bytes, NFC": lambda: _byte_level(
        pre_tokenizers.ByteLevel(add_prefix_space=False), normalizers.NFC()
    ),
    "BPE of bytes, digits": lambda: _byte_level(
        pre_tokenizers.Sequence(
            [
                pre_tokenizers.Digits(individual_digits=True),
                pre_tokenizers.ByteLevel(add_prefix_space=False),
            ]
        )
    ),
    "BPE of bytes, GPT-4": lambda: _byte_level(
        pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(Regex(_GPT4), "isolated"),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        )
    ),
    "BPE without splitter": _without_splitter,
    **{
        f"Split {behavior}{', inverted' if invert else ''}": lambda b=behavior, i=invert: _split(
            b, i
        )
        for behavior in _BEHAVIORS
        for invert in (False, True)
    },
}

WITH_DECODER = [n for n in MAKERS if n != "WordLevel" and not n.startswith("Split")]


@cache
def trained(name: str) -> Tokenizer:
    """A tokenizer by its name, with added tokens of every kind."""
    made = MAKERS[name]()
    made.add_tokens(
        [
            "foo bar",
            AddedToken("WORD", single_word=True),
            AddedToken("LS", lstrip=True),
            AddedToken("RS", rstrip=True),
        ]
    )
    made.add_special_tokens(["<|sp|>"])
    made.encode_special_tokens = True
    return made


def sample_texts(count: int, seed: int = 3) -> list[str]:
    """Parts of English text, and random letters between added tokens."""
    draw = random.Random(seed)
    texts = []
    for i in range(count):
        if i % 2:
            texts.append("".join(draw.choices(_LETTERS * 3 + _ADDED, k=draw.randint(0, 25))))
        else:
            at = draw.randint(0, len(ENGLISH) - 200)
            texts.append(ENGLISH[at : at + draw.randint(1, 150)])
    return texts


def of_300_words() -> bytes:
    """A tokenizer.json of bytes with 300 ids."""
    return of_words(300)


@cache
def of_words(count: int) -> bytes:
    """A tokenizer.json of bytes with so many ids."""
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    made = _trained(
        models.BPE(),
        pre_tokenizers.ByteLevel(add_prefix_space=False),
        trainers.BpeTrainer(
            vocab_size=count, initial_alphabet=alphabet, special_tokens=["<s>", "</s>", "<|sp|>"]
        ),
        decoders.ByteLevel(),
    )
    return made.to_str().encode()
