"""Text of language models: time of everything but the model, tokenizers' load, and drafts.

    python tests/bench/bench_text.py                       # without a model
    python tests/bench/bench_text.py --program smol.pte    # and drafts, of a program with `verify`

A token: a decoder that returns stored logits at once, so that the time is that of the loop, the
sampler and the decoding of 128,256 words. Load: the same vocabulary, prepared as in a program, and
as tokenizer.json beside the library `tokenizers`. Drafts: a text that quotes its prompt, and one
that is drawn at temperature 1, with and without a lookup by turns; the ratio is that of medians.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
from collections.abc import Callable

import numpy as np

from executorch_py import _C
from executorch_py.extension.llm.runner import TextRunner
from executorch_py.extension.llm.sampler import Sampler, SamplingOptions
from executorch_py.extension.llm.tokenizer import Tokenizer

WORDS = 128_256
TOKENS = 200
SAMPLINGS = {
    "greedy": SamplingOptions(temperature=0.0),
    "top-k 40, top-p 0.9": SamplingOptions(temperature=0.8, top_k=40, top_p=0.9),
    "top-p 0.9": SamplingOptions(temperature=0.8, top_p=0.9),
}
PARAGRAPH = (
    "The ferry leaves at seven from the old pier, and returns before noon when the tide allows it. "
    "Tickets are sold in the blue kiosk next to the bakery, which closes on Mondays and on public "
    "holidays. Children under six travel free, and bicycles need a ticket of their own. "
)


def vocabulary() -> dict[str, int]:
    """The 256 letters of bytes, and random words."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = [chr(byte) for byte in printable] + [chr(256 + i) for i in range(68)]
    draw, words = random.Random(0), dict.fromkeys(letters)
    while len(words) < WORDS:
        words["".join(draw.choices("abcdefghijklmnopqrstuvwxyzĠ", k=draw.randint(2, 9)))] = None
    return {word: i for i, word in enumerate(words)}


def tokenizer_json() -> str:
    """A byte-level tokenizer.json; of words that two others make, these are the merges."""
    words = vocabulary()
    merges = [
        [word[:1], word[1:]]
        for word in words
        if len(word) > 1 and word[:1] in words and word[1:] in words
    ]
    level = {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": True,
        "use_regex": True,
    }
    model = {"type": "BPE", "vocab": words, "merges": merges, "byte_fallback": False}
    return json.dumps(
        {
            "version": "1.0",
            "added_tokens": [],
            "pre_tokenizer": level,
            "decoder": level,
            "model": model,
        }
    )


class Stored:
    """A decoder that returns one of a few rows of logits."""

    capacity, longest, most_rows, vocabulary = 4096, 512, 1, WORDS

    def __init__(self) -> None:
        draw = np.random.default_rng(1)
        self.rows = [(draw.standard_normal(WORDS) * 3).astype(np.float32) for _ in range(8)]
        self.n = 0

    def keep(self, ids: list[int], /) -> int:
        return 0

    def read(self, ids: list[int], rows: int, /) -> np.ndarray:
        self.n += 1
        return self.rows[self.n % len(self.rows)]

    def rewind(self, position: int, /) -> None:
        raise AssertionError


def seconds(call: Callable[[], object], rounds: int = 7) -> float:
    """The median time of a call."""
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def token_rows(tokenizer: Tokenizer) -> None:
    decoder = Stored()
    for name, sampling in SAMPLINGS.items():
        sampler = Sampler(WORDS, sampling)

        def text(sampler: Sampler = sampler) -> None:
            loop = _C.new_generation(
                decoder, tokenizer.opened, sampler.opened, [1, 2], TOKENS, (), (), None, 0
            )
            while loop.next() is not None:
                pass

        print(f"a token, {name:22s} {seconds(text) / TOKENS * 1e3:7.3f} ms")


def load_rows(file: str, tokenizer: Tokenizer) -> None:
    prepared = bytes(tokenizer.prepared)
    print(f"open, prepared                  {seconds(lambda: Tokenizer(prepared)) * 1e3:7.3f} ms")
    own = seconds(lambda: Tokenizer.from_bytes(file.encode()))
    try:
        from tokenizers import Tokenizer as Reference
    except ImportError:
        print(f"load of tokenizer.json          {own * 1e3:7.1f} ms; `tokenizers` is not installed")
        return
    peer = seconds(lambda: Reference.from_str(file))
    print(
        f"load of tokenizer.json          {own * 1e3:7.1f} ms, {own / peer:.2f} of tokenizers' time"
    )


def draft_rows(path: str, rounds: int) -> None:
    runner = TextRunner(path, eos_ids=())
    quoting = (PARAGRAPH * 2 + PARAGRAPH[:20], SAMPLINGS["greedy"])
    drawn = ("The", SamplingOptions(temperature=1.0, seed=5))
    for name, (prompt, sampling) in {"quotes its prompt": quoting, "is drawn": drawn}.items():
        speeds: dict[str | None, list[float]] = {None: [], "lookup": []}
        for _ in range(rounds):
            for draft, found in speeds.items():
                text = runner.generate(prompt, max_new_tokens=120, sampling=sampling, draft=draft)
                found.append(text.stats.decode_tokens_per_second)
        plain, lookup = (statistics.median(found) for found in speeds.values())
        print(
            f"a text that {name:18s} {plain:7.1f} tokens/s, with drafts {lookup:7.1f}: "
            f"{lookup / plain:.2f} ({text.stats.num_accepted_tokens} of "
            f"{text.stats.num_draft_tokens} tokens of drafts taken)"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", metavar="PTE")
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    file = tokenizer_json()
    tokenizer = Tokenizer.from_bytes(file.encode())
    token_rows(tokenizer)
    load_rows(file, tokenizer)
    if options.program:
        draft_rows(options.program, options.rounds)


if __name__ == "__main__":
    main()
