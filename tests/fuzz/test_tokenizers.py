"""Damaged tokenizers: thousands of seeded mutations of files in every format, and of prepared
images, end in an error or in texts, never in a crash or a hang.

The replayer does the work; half of its mutations are flipped bits and words, half change the text
of the file (mutate_tokenizer.c).
"""

from __future__ import annotations

from base64 import b64encode
from json import dumps
from pathlib import Path

import pytest
from fuzz.replayer import replay, replay_all
from support.piece_files import variants
from support.trained_tokenizers import trained

from executorch_py.extension.llm.tokenizer import Tokenizer

N_MUTATIONS = 200  # a file
TRAINED = ("WordPiece, BERT", "Unigram, normalized", "BPE with a suffix", "BPE without splitter")
PREPARED = ("Unigram, normalized", "BPE of bytes, GPT-4", "WordPiece, BERT")
_WORDS = [bytes([i]) for i in range(256)] + [b"th", b"the", b" the", b"aa", b"aaaa", b"\n\n"]


def tiktoken_file() -> bytes:
    lines = [b"%s %d" % (b64encode(word), rank) for rank, word in enumerate(_WORDS)]
    return b"\n".join(lines)


def tekken_file() -> bytes:
    config = {
        "pattern": r"\p{L}+|\s+|[^\s\p{L}]+",
        "default_vocab_size": len(_WORDS) + 20,
        "default_num_special_tokens": 20,
    }
    vocab = [
        {"rank": rank, "token_bytes": b64encode(word).decode()} for rank, word in enumerate(_WORDS)
    ]
    return dumps({"config": config, "vocab": vocab}).encode()


def corpus() -> dict[str, bytes]:
    files = {name: trained(name).to_str().encode() for name in TRAINED}
    images = {
        f"{name}, prepared": Tokenizer.from_bytes(trained(name).to_str().encode()).prepared
        for name in PREPARED
    }
    others = {"tiktoken": tiktoken_file(), "Tekken": tekken_file()}
    return (
        files | images | others | {name: variants()[name].sentencepiece() for name in PIECE_FILES}
    )


PIECE_FILES = tuple(sorted(variants())[:4])
NAMES = [
    *TRAINED,
    *(f"{name}, prepared" for name in PREPARED),
    "tiktoken",
    "Tekken",
    *PIECE_FILES,
]


@pytest.mark.parametrize("name", NAMES)
def test_a_damaged_tokenizer_is_an_error_or_works(c_build: Path, tmp_path: Path, name: str) -> None:
    path = tmp_path / "tokenizer"
    path.write_bytes(corpus()[name])
    found = replay(c_build / "fuzz_tokenizer", "--flips", str(N_MUTATIONS), str(path))
    assert found["inputs"] == N_MUTATIONS + 1
    assert found["loaded"] > 0.05 * N_MUTATIONS


def test_a_prepared_image_that_is_cut_is_an_error(c_build: Path, tmp_path: Path) -> None:
    image = Tokenizer.from_bytes(tiktoken_file()).prepared
    cuts = {*range(0, 512), *range(0, len(image), len(image) // 200)}
    found = replay_all(c_build / "fuzz_tokenizer", tmp_path, (image[:n] for n in sorted(cuts)))
    assert found["loaded"] == 0
