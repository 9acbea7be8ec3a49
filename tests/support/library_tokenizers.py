"""The libraries that real tokenizers are made for, as functions from the bytes of a file."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Library:
    """A tokenizer of a library: the ids of a text, nothing put around, and the text of ids."""

    encode: Callable[[str], Sequence[int]]
    decode: Callable[[Sequence[int]], str]
    finds_special: bool = False  # tokens in the text, by their names


def tiktoken(content: bytes, pattern: str | None) -> Library:
    """A file of ranks, or a Tekken file, whose ids follow its special tokens."""
    import tiktoken

    first = 0
    if content[:1] == b"{":
        tekken = json.loads(content)
        config = tekken["config"]
        first = config["default_num_special_tokens"]
        vocab = tekken["vocab"][: config["default_vocab_size"] - first]
        ranks = {base64.b64decode(item["token_bytes"]): item["rank"] for item in vocab}
        pattern = config["pattern"]
    else:
        lines = (line.split() for line in content.splitlines() if line)
        ranks = {base64.b64decode(word): int(rank) for word, rank in lines}
    made = tiktoken.Encoding(
        "library", pat_str=pattern or "", mergeable_ranks=ranks, special_tokens={}
    )
    if first == 0:
        return Library(made.encode_ordinary, lambda ids: made.decode(list(ids)))
    return Library(
        lambda text: [i + first for i in made.encode_ordinary(text)],
        lambda ids: made.decode([i - first for i in ids]),
    )


def tokenizers(content: bytes, pattern: str | None) -> Library:
    from tokenizers import Tokenizer

    made = Tokenizer.from_str(content.decode())
    return Library(
        lambda text: made.encode_batch_fast([text], add_special_tokens=False)[0].ids,
        lambda ids: made.decode(list(ids)),
        finds_special=True,
    )


def sentencepiece(content: bytes, pattern: str | None) -> Library:
    import sentencepiece

    made = sentencepiece.SentencePieceProcessor(model_proto=content)
    return Library(made.encode, lambda ids: made.decode(list(ids)))


LIBRARIES = {"tiktoken": tiktoken, "tokenizers": tokenizers, "sentencepiece": sentencepiece}
