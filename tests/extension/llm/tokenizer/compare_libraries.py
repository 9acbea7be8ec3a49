"""Tokenizers of real models beside their libraries, on megabytes of text of every script.

    python tests/extension/llm/tokenizer/compare_libraries.py [--megabytes N] [--only NAME...]

For each tokenizer: the bytes compared, and the texts whose ids, or whose text of the ids, differ;
of the first few, the place. Then the code points that Unicode's version here has not assigned, of
which the ids differ: libraries have newer versions. Needs tokenizers, tiktoken and sentencepiece.
The exit status is 1 if a text differs.
"""

from __future__ import annotations

import argparse
import random
import sys
import unicodedata
from collections.abc import Iterable, Iterator
from pathlib import Path
from pydoc_data.topics import topics

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from support.library_tokenizers import LIBRARIES, Library
from support.real_tokenizers import FILES

from executorch_py.extension.llm.tokenizer import Tokenizer

SHOWN = 3  # differences of each tokenizer
PAGE = 128  # code points of a script's part
EMOJI = ["👩‍👩‍👧‍👦", "🏳️‍🌈", "👍🏽", "🇩🇪🇫🇷", "1️⃣", "❤️", "🧑🏿‍🚀"]
MARKS = [chr(c) for c in range(0x300, 0x370)]
ENGLISH = "\n".join(topics.values())


def is_letter(code_point: int) -> bool:
    return unicodedata.category(chr(code_point)) not in ("Cn", "Cs", "Co")


ASSIGNED = [chr(c) for c in range(1, 0x32000) if is_letter(c)]


def fixed_texts(special: str) -> Iterator[str]:
    """Texts that each tokenizer gets once."""
    yield ENGLISH
    yield from (ENGLISH[i : i + 20_000].upper() for i in range(0, 200_000, 20_000))
    files = sorted(Path(random.__file__).parent.glob("*.py"))[:60]
    yield from (path.read_text(encoding="utf-8", errors="ignore") for path in files)
    for i in range(0, len(ASSIGNED), 5_000):
        part = ASSIGNED[i : i + 5_000]
        yield "".join(part)
        yield " ".join(part)
        yield "".join(f"a{letter}b" for letter in part)
    yield from (" " * 100_000, "\n" * 100_000, "a" * 100_000, " a" * 50_000, "é" * 50_000)
    yield special * 20 + "x" + special
    yield "".join(EMOJI) * 50


def random_texts(draw: random.Random) -> Iterator[str]:
    """Texts of 20,000 letters: words of one script, of any letters, marks, emoji and spaces."""
    pages: dict[int, list[str]] = {}
    for letter in ASSIGNED:
        pages.setdefault(ord(letter) // PAGE, []).append(letter)
    scripts = list(pages.values())
    kinds = [
        lambda: "".join(draw.choices(draw.choice(scripts), k=draw.randint(1, 60))),
        lambda: "".join(draw.choices(ASSIGNED, k=draw.randint(1, 40))),
        lambda: draw.choice(" \n\t,.-_=") * draw.randint(1, 30),
        lambda: "".join(draw.choices(EMOJI, k=draw.randint(1, 4))),
        lambda: "".join(c + draw.choice(MARKS) for c in draw.choices("aeiouAEIOU", k=8)),
        lambda: ENGLISH[(i := draw.randrange(len(ENGLISH) - 60)) : i + draw.randint(1, 60)],
    ]
    while True:
        parts: list[str] = []
        while sum(map(len, parts)) < 20_000:
            parts.append(draw.choice(kinds)())
        text = "".join(parts)
        yield unicodedata.normalize("NFD", text) if draw.random() < 0.25 else text


def difference(ours: Tokenizer, library: Library, text: str) -> str:
    """The place where ids or their texts differ; empty if they do not."""
    own = ours.encode(text, add_special_tokens=False, parse_special=library.finds_special)
    other = list(library.encode(text))
    if own != other:
        i = next((i for i, ids in enumerate(zip(own, other, strict=False)) if len(set(ids)) > 1), 0)
        near = ours.decode(own[max(0, i - 3) : i + 3])
        return f"ids from {i} on, near {near!r}: {own[i : i + 4]}, and {other[i : i + 4]}"
    if ours.decode(own) != library.decode(other):
        return f"the text of {len(own)} equal ids, which begins {text[:40]!r}"
    return ""


def ranges(code_points: Iterable[int]) -> str:
    """Code points as ranges."""
    found: list[list[int]] = []
    for c in code_points:
        if found and found[-1][1] == c - 1:
            found[-1][1] = c
        else:
            found.append([c, c])
    return ", ".join(f"U+{a:04X}" if a == b else f"U+{a:04X}–U+{b:04X}" for a, b in found)


def unassigned_that_differ(ours: Tokenizer, library: Library) -> list[int]:
    found = []
    for c in range(0x80, 0x32000):
        if unicodedata.category(chr(c)) != "Cn":
            continue
        text = f"a{chr(c)}{chr(c)}b {chr(c)}1"
        if ours.encode(text, add_special_tokens=False) != list(library.encode(text)):
            found.append(c)
    return found


def compare(name: str, megabytes: float) -> bool:
    """Compares one tokenizer with its library; prints what was found."""
    file = FILES[name]
    content = file.content()
    library = LIBRARIES[file.library](content, file.pattern)
    ours = Tokenizer.from_bytes(content, pattern=file.pattern)
    texts, draw = fixed_texts("<|endoftext|></s>[INST]"), random.Random(1)
    more = random_texts(draw)
    n_bytes, different = 0, 0
    while True:
        text = next(texts, None)
        if text is None:
            if n_bytes >= megabytes * 1e6:
                break
            text = next(more)
        n_bytes += len(text.encode())
        found = difference(ours, library, text)
        different += found != ""
        if found and different <= SHOWN:
            print(f"  {name}: {found}")
    print(f"{name}: {n_bytes:,} bytes, texts that differ: {different}", flush=True)
    others = unassigned_that_differ(ours, library)
    if others:
        print(f"  {len(others)} code points of newer versions of Unicode: {ranges(others)}")
    return different == 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=float, default=5.0, help="of each tokenizer")
    parser.add_argument("--only", nargs="+", default=list(FILES), choices=list(FILES))
    options = parser.parse_args()
    return 0 if all([compare(name, options.megabytes) for name in options.only]) else 1


if __name__ == "__main__":
    sys.exit(main())
