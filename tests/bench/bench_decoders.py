"""Language models with random weights of 4 bits, beside upstream's 8da4w and llama.cpp's Q4_0.

Medians by turns: reading a prompt of 128 and of 512 tokens at once, 64 single tokens behind 128,
and single tokens behind 2,000. In fresh processes: from opening a file in the page cache to the
first token of a prompt of 8, and the most memory of a process with a context of 2,048 that read 512
tokens. From a checkpoint to the saved file: seconds and memory of the commands.

Shapes have four layers and a small vocabulary; --full: all layers and words. .ci/setup.sh llama
builds llama.cpp; without it its column is left out. --folder keeps the files for the next run.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from decoder_files import SHAPES, matrix_weights, sizes_of, write_folder, write_gguf, write_meta
from peers import PAUSE_SECONDS, ROOT, report

from executorch_py import _C

HERE = Path(__file__).resolve().parent
PYTHONS = {
    "ours": ROOT / ".venv" / "bin" / "python",
    "upstream": ROOT / ".venv-upstream" / "bin" / "python",
    "llama.cpp": ROOT / ".venv-llama" / "bin" / "python",
}
CONTEXT, PREFILL, LONG = 2048, 512, 2000
READ_BYTES = 1 << 28
BITS = 4.5  # of a weight and its share of a scale
# Figure -> requests of a turn (the last is timed) and the tokens that it is for.
FIGURES: dict[str, tuple[list[tuple[str, int, int]], int]] = {
    "prefill 128": ([("read", 0, 128)], 128),
    "prefill 512": ([("read", 0, 512)], 512),
    "decode 64 behind 128": ([("read", 0, 128), ("steps", 128, 64)], 1),
}
LONG_PIECES = [("read", at, min(PREFILL, LONG - at)) for at in range(0, LONG, PREFILL)]
LONG_FIGURE = f"decode 32 behind {LONG:,}"
# Least speed, as a multiple of upstream's and of llama.cpp's.
BARS: dict[str, dict[str, tuple[float, float]]] = {
    "Llama 3.2 1B": {
        "prefill 128": (1.6, 2.4),
        "prefill 512": (1.75, 2.6),
        "decode 64 behind 128": (1.25, 1.05),
        LONG_FIGURE: (1.25, 1.05),
    },
    "Qwen3 0.6B": {
        "prefill 128": (1.9, 2.6),
        "prefill 512": (2.1, 2.5),
        "decode 64 behind 128": (1.48, 1.36),
        LONG_FIGURE: (1.25, 1.05),
    },
}


class Decoder:
    """A worker process with one side's file."""

    def __init__(self, side: str, path: Path, threads: int) -> None:
        self.side, self.path, self.threads = side, path, threads

    def __enter__(self) -> Decoder:
        self.process = subprocess.Popen(
            [PYTHONS[self.side], HERE / "decoder_worker.py", "--side", self.side],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": str(self.threads)},
        )
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    def ask(self, do: str, **request: Any) -> Any:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps({"do": do, **request}) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline() or '{"error": "the worker ended"}')
        if "error" in answer:
            raise RuntimeError(f"{self.side}: {do} {request}: {answer['error']}")
        return next(iter(answer.values()))

    def open(self) -> float:
        request = {"path": str(self.path), "threads": self.threads, "context": CONTEXT}
        return float(self.ask("open", **request))

    def turn(self, requests: list[tuple[str, int, int]]) -> float:
        return [float(self.ask(do, at=at, n=n)) for do, at, n in requests][-1]


# ---- files


def timed_command(command: list[str], folder: Path) -> dict[str, float]:
    """Seconds of a command that is run in a folder, and its most resident memory."""
    start = time.perf_counter()
    code = "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True); "
    code += "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    done = subprocess.run(
        [sys.executable, "-c", code, *command], capture_output=True, text=True, cwd=folder
    )
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command[:4])} …: {done.stderr[-2000:]}")
    kib = int(done.stdout.splitlines()[-1])
    return {"s": time.perf_counter() - start, "mb": kib / 1024}


def in_child(function: str, *arguments: Any) -> Any:
    """The result of a function of decoder_files.py, whose memory ends with its process."""
    code = (
        "import json, sys, decoder_files as files; from pathlib import Path; "
        f"print(json.dumps(files.{function}(*eval(sys.argv[1]))))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, repr(arguments).replace("PosixPath", "Path")],
        cwd=HERE,
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def files(name: str, small: bool, folder: Path) -> dict[str, Path]:
    """The file of each side; one that was there before is kept, and its export is not timed."""
    stem = folder / f"{name.replace(' ', '_')}{'_small' if small else ''}"
    checkpoint = Path(f"{stem}.hf")
    paths = {
        "ours": Path(f"{stem}.pte"),
        "upstream": Path(f"{stem}.upstream.pte"),
        "llama.cpp": Path(f"{stem}.gguf"),
    }
    if not (checkpoint / "config.json").exists():
        in_child(write_folder.__name__, name, small, checkpoint)
    if not paths["ours"].exists():
        command = [PYTHONS["ours"], "-m", "executorch_py", "llm", "export", checkpoint]
        command += ["--output", paths["ours"], "--context", CONTEXT, "--prefill", PREFILL]
        words = [str(word) for word in command]
        report(f"{name}, export, ours", **timed_command(words, folder))
    if not paths["upstream"].exists():
        meta = Path(f"{stem}.meta")
        settings = in_child(write_meta.__name__, name, small, checkpoint, meta)
        module = "executorch.extension.llm.export.export_llm"
        command = [str(PYTHONS["upstream"]), "-m", module, *settings, *UPSTREAM_SETTINGS]
        command += [f"export.output_name={paths['upstream'].name}"]
        report(f"{name}, export, upstream", **timed_command(command, folder))
    if PYTHONS["llama.cpp"].exists() and not paths["llama.cpp"].exists():
        in_child(write_gguf.__name__, *sizes_of(name, small), paths["llama.cpp"])
    return {side: path for side, path in paths.items() if path.exists()}


UPSTREAM_SETTINGS = [
    "model.use_kv_cache=true",
    "model.use_sdpa_with_kv_cache=true",
    "quantization.qmode=8da4w",
    "quantization.group_size=32",
    "quantization.embedding_quantize='4,32'",
    "backend.xnnpack.enabled=true",
    "backend.xnnpack.extended_ops=true",
    f"export.max_seq_length={PREFILL + 1}",
    f"export.max_context_length={CONTEXT}",
]


# ---- figures


def compare(name: str, subject: str, ms: dict[str, float], n_tokens: int, **more: Any) -> None:
    bars = BARS[name].get(subject)
    row: dict[str, Any] = {f"{side}_ms": value for side, value in ms.items()}
    row["tokens_per_s"] = n_tokens / ms["ours"] * 1e3
    for i, side in enumerate(("upstream", "llama.cpp")):
        if side in ms:
            row[f"speed_to_{side}"] = ms[side] / ms["ours"]
            if bars is not None:
                row[f"bar_{side}"] = bars[i]
    report(f"{name}, {subject}", **row, **more)


def speeds(name: str, small: bool, paths: dict[str, Path], options: argparse.Namespace) -> None:
    """Figures by turns, and the share of the time that the machine needs at least: to read the
    weights for a token, or to multiply them with all tokens, the last layer with the last only."""
    times: dict[str, dict[str, list[float]]] = {}
    rates: list[tuple[float, float]] = []  # bytes read, and integer operations, in a second
    with ExitStack() as stack:
        decoders = [
            stack.enter_context(Decoder(side, path, options.threads))
            for side, path in paths.items()
        ]
        for decoder in decoders:
            decoder.open()
            for requests, _ in FIGURES.values():
                decoder.turn(requests)
        for _ in range(options.rounds):
            for figure, (requests, _) in FIGURES.items():
                for decoder in decoders:
                    time.sleep(PAUSE_SECONDS)
                    ms = decoder.turn(requests)
                    times.setdefault(figure, {}).setdefault(decoder.side, []).append(ms)
            _, int8, [(bytes_per_s, _, _)] = _C.machine_rates(options.threads, (READ_BYTES,))
            rates.append((bytes_per_s, int8))
        for decoder in decoders:
            decoder.turn(LONG_PIECES)
        for _ in range(options.rounds):
            for decoder in decoders:
                time.sleep(PAUSE_SECONDS)
                ms = decoder.turn([("steps", LONG, 32)])
                times.setdefault(LONG_FIGURE, {}).setdefault(decoder.side, []).append(ms)
    read, products = (statistics.median(rate) for rate in zip(*rates, strict=True))
    report("this machine", read_gb_per_s=read / 1e9, int8_gop_per_s=products / 1e9)
    n_read, n_layers = matrix_weights(name, small)
    for figure, of in times.items():
        ms_of = {side: statistics.median(values) for side, values in of.items()}
        n_tokens = FIGURES[figure][1] if figure in FIGURES else 1
        if n_tokens == 1:
            limit = {"of_read_bandwidth": n_read * BITS / 8 / read}
        else:
            limit = {"of_int8_peak": 2 * n_tokens * n_layers / products}
        share = {key: seconds * 1e3 / ms_of["ours"] for key, seconds in limit.items()}
        compare(name, figure, ms_of, n_tokens, **share)


def first_token(name: str, paths: dict[str, Path], options: argparse.Namespace) -> None:
    times: dict[str, list[float]] = {side: [] for side in paths}
    memory: dict[str, float] = {}
    for i in range(options.opens + 1):
        for side, path in paths.items():
            with Decoder(side, path, options.threads) as decoder:
                ms = decoder.open() + decoder.turn([("read", 0, 8)])
                if i > 0:  # the first reads the file from the disk
                    times[side].append(ms)
                else:
                    decoder.turn([("read", 0, PREFILL), ("steps", PREFILL, 2)])
                    memory[side] = decoder.ask("memory")
    ms_of = {side: statistics.median(values) for side, values in times.items()}
    compare(name, "open to first token", ms_of, 8)
    report(
        f"{name}, memory with a context of {CONTEXT:,}",
        **{f"{side}_mb": value for side, value in memory.items()},
        file_mb=paths["ours"].stat().st_size / 1e6,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shapes", nargs="*", default=list(SHAPES), choices=list(SHAPES))
    parser.add_argument("--full", action="store_true", help="all layers and words")
    parser.add_argument("--folder", type=Path, help="where files are kept (default: nowhere)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--opens", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = (options.folder or Path(temporary)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        for name in options.shapes:
            small = not options.full
            paths = files(name, small, folder)
            bits = paths["ours"].stat().st_size * 8 / matrix_weights(name, small)[0]
            report(f"{name}, file", mb=paths["ours"].stat().st_size / 1e6, bits_per_weight=bits)
            speeds(name, small, paths, options)
            first_token(name, paths, options)


if __name__ == "__main__":
    main()
