"""Perplexity of language models with real weights: what few bits of weights and caches cost.

The text is the manual of Python's language, which Python ships. Of each window of tokens (--window)
the second half is predicted. One row each: transformers in f32 with the dequantized weights of the
GGUF file; this project in f32, and with the file's own codes and caches of f32, f16 and i8;
llama.cpp with the same file, if .ci/setup.sh llama built it. tokens_per_s is the speed of reading
windows.
Weights are downloaded once, into build/real-models.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from pydoc_data.topics import topics

import numpy as np
import torch
from bench_decoders import PYTHONS, Decoder
from peers import report

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from support.real_models import MODELS, gguf_file

from executorch_py.extension.llm.export import export_folder
from executorch_py.extension.llm.export.hf_model import cast_parameters, load_model
from executorch_py.extension.llm.session import Session

PIECE = 64  # longest call: its logits are memory


Losses = Callable[[list[int]], Sequence[float]]  # of the second half of a window


@dataclass(frozen=True)
class Text:
    """Ids of a text, in whole windows, and the id that begins one, for models that need it."""

    model: str
    ids: list[int]
    first: int | None
    window: int

    def compare(self, side: str, losses: Losses, **more: float) -> None:
        """Reports the perplexity of one side."""
        start, found = time.perf_counter(), []
        for at in range(0, len(self.ids), self.window):
            window = self.ids[at : at + self.window]
            found += losses(window if self.first is None else [self.first, *window[1:]])
        speed = len(self.ids) / (time.perf_counter() - start)
        value = f"{math.exp(float(np.mean(found))):.5f}"
        report(f"{self.model}, {side}", perplexity=value, tokens_per_s=speed, **more)


def text_of(name: str, path: Path, n_tokens: int, window: int) -> Text:
    """The text by the tokenizer of a GGUF file."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    text = "\n\n".join(topics[topic] for topic in sorted(topics))
    ids: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"][:n_tokens]
    first = tokenizer.bos_token_id if "gemma" in name else None
    return Text(name, ids[: len(ids) // window * window], first, window)


def losses_of(rows: torch.Tensor, window: list[int]) -> list[float]:
    """Losses of the second half of a window, from the logits after each of its tokens."""
    start = len(window) // 2
    targets, half = torch.tensor(window[start:]), rows[start - 1 : -1].double()
    found: list[float] = torch.nn.functional.cross_entropy(half, targets, reduction="none").tolist()
    return found


def compare_eager(text: Text, path: Path) -> None:
    """transformers computes; only the weights are read by this project."""
    model = load_model(path).model
    cast_parameters(model)
    model.set_attn_implementation("sdpa")

    def losses(window: list[int]) -> list[float]:
        with torch.no_grad():
            return losses_of(model(torch.tensor([window])).logits[0], window)

    text.compare("transformers, f32", losses)


def compare_ours(text: Text, path: Path, group: int | None, cache: str) -> None:
    program = export_folder(
        path, capacity=text.window, prefill=PIECE, cache=cache, group=group, all_logits=True
    )
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "decoder.pte"
        program.save(file)
        del program
        with Session(file) as session:

            def losses(window: list[int]) -> list[float]:
                session.rewind(0)
                return losses_of(torch.from_numpy(session.logits(window)), window)

            weights = "f32" if group is None else "4 bits"
            mb = file.stat().st_size / 1e6
            text.compare(f"weights of {weights}, cache of {cache}", losses, file_mb=mb)


def compare_llama_cpp(text: Text, path: Path, threads: int) -> None:
    with Decoder("llama.cpp", path, threads) as decoder:
        decoder.open()

        def losses(window: list[int]) -> list[float]:
            found: list[float] = decoder.ask("losses", ids=window, **{"from": text.window // 2})
            return found

        text.compare("llama.cpp", losses, file_mb=path.stat().st_size / 1e6)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="*", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--tokens", type=int, default=8_192)
    parser.add_argument("--window", type=int, default=512)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    for name in options.models:
        path = gguf_file(name)
        text = text_of(name, path, options.tokens, options.window)
        compare_eager(text, path)
        compare_ours(text, path, None, "f32")
        for cache in ("f32", "f16", "i8"):
            compare_ours(text, path, 32, cache)
        if PYTHONS["llama.cpp"].exists():
            compare_llama_cpp(text, path, options.threads)


if __name__ == "__main__":
    main()
