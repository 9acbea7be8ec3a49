"""Text of language models: time of everything but the model, tokenizers' load, drafts, the start.

    python tests/bench/bench_text.py [--program smol.pte] [--rounds N]

A token: a decoder that returns stored logits at once, so that the time is that of the loop, the
sampler and the decoding of 128,256 words. Load: the same vocabulary, prepared as in a program, and
as tokenizer.json beside the library `tokenizers`. Drafts: a text that quotes its prompt, and one
that is drawn at temperature 1, with and without a lookup by turns; the ratio is that of medians.
Start: processes that import, load and generate one token. SmolLM2, which is downloaded once, unless
a program is named.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from peers import report

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from support.real_models import gguf_file

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

        report(f"text: a token of {WORDS:,} words, {name}", ms=seconds(text) / TOKENS * 1e3)


def load_rows(file: str, tokenizer: Tokenizer) -> None:
    prepared = bytes(tokenizer.prepared)
    opened = seconds(lambda: Tokenizer(prepared))
    report(f"text: open a prepared tokenizer of {WORDS:,} words", ms=opened * 1e3)
    own = seconds(lambda: Tokenizer.from_bytes(file.encode()))
    peers = {}
    try:
        from tokenizers import Tokenizer as Reference
    except ImportError:
        pass
    else:
        peers["to_tokenizers"] = own / seconds(lambda: Reference.from_str(file))
    report(f"text: load tokenizer.json of {WORDS:,} words", ms=own * 1e3, **peers)


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
        report(
            f"text: tokens of a text that {name}",
            per_s=plain,
            with_drafts=lookup,
            ratio=lookup / plain,
            drafted=text.stats.num_draft_tokens,
            taken=text.stats.num_accepted_tokens,
        )


START = """
import sys
from executorch_py.extension.llm.runner import TextRunner
runner = TextRunner(sys.argv[1], eos_ids=())
next(runner.stream("The capital of France is", max_new_tokens=1))
assert "torch" not in sys.modules
"""


def start_row(path: str) -> None:
    def start() -> None:
        subprocess.run([sys.executable, "-c", START, path], check=True)

    report("text: a process from its start to the first token", s=seconds(start))


def exported(folder: str) -> str:
    """SmolLM2 with methods that check drafts."""
    from executorch_py.extension.llm.export import export_folder

    path = Path(folder) / "smol.pte"
    program = export_folder(gguf_file("SmolLM2-135M-Instruct-Q4_1"), capacity=2048, verify=16)
    program.save(path)
    return str(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", metavar="PTE")
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    file = tokenizer_json()
    tokenizer = Tokenizer.from_bytes(file.encode())
    token_rows(tokenizer)
    load_rows(file, tokenizer)
    with tempfile.TemporaryDirectory() as folder:
        path = options.program or exported(folder)
        draft_rows(path, options.rounds)
        start_row(path)


if __name__ == "__main__":
    main()
