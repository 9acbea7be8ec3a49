"""Speed beside other runtimes: rounds by turns, a table, and what is said of missing peers."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from support.decoder_files import own_file

from executorch_py.cli.main import main
from executorch_py.extension.llm.session.speed import Round
from executorch_py.extension.llm.session.speed_beside import OURS, Comparison

# A peer that keeps its requests, and whose second round is the first that counts.
FAKE = """
import json, sys
print(json.dumps({begin}), flush=True)
for i, line in enumerate(sys.stdin):
    with open(sys.argv[1] + ".requests", "a") as file:
        file.write(line)
    {answer}
"""
TIMES = 'print(json.dumps({"first": i + 1.0, "prefill": 2.0, "decode": 4.0}), flush=True)'


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return own_file(tmp_path_factory.mktemp("program"), "Llama")


@pytest.fixture
def folder(program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "ours.pte").symlink_to(program)
    for name in ("model.gguf", "a,b.pte"):
        (tmp_path / name).write_bytes(b"")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def python_of(folder: Path, name: str, answer: str = TIMES, begin: object = None) -> str:
    """An executable that stands for the Python of a peer, and runs `FAKE`."""
    fake = folder / f"{name}.py"
    started = json.dumps(begin or {"ready": 1})
    fake.write_text(FAKE.replace("{begin}", started).replace("{answer}", answer))
    script = folder / f"{name}.sh"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{fake}" "$2"\n')
    script.chmod(0o755)
    return str(script)


COUNTS = ["--prompt", "6", "--steps", "4", "--rounds", "3", "--threads", "1"]


def bench(*more: str) -> int:
    return main(["llm", "bench", "ours.pte", *COUNTS, *more])


def test_peers_are_timed_by_turns_with_the_same_ids_and_threads(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pythons = [f"{name}={python_of(folder, name)}" for name in ("llama.cpp", "upstream")]
    more = [word for python in pythons for word in ("--python", python)]
    assert bench("--against", "llama.cpp=model.gguf,upstream=a,b.pte", *more) == 0
    lines = [line.split("  ") for line in capsys.readouterr().out.splitlines()]
    words = [[word.strip() for word in line if word] for line in lines]
    assert words[0] == ["ours", "llama.cpp", "upstream", "to llama.cpp", "to upstream"]
    assert [line[0] for line in words[1:]] == ["load to first token", "prefill 6", "decode 4"]
    # The median of rounds 2 to 4.
    assert [line[2] for line in words[1:]] == ["3000.0 ms", "3.0 tokens/s", "1.0 tokens/s"]

    requests = {
        name: [json.loads(line) for line in Path(f"{name}.requests").read_text().splitlines()]
        for name in ("llama.cpp", "upstream")
    }
    assert [len(of) for of in requests.values()] == [4, 4]
    first, other = (of[0] for of in requests.values())
    assert (first.pop("path"), other.pop("path")) == (
        str(folder / "model.gguf"),
        str(folder / "a,b.pte"),
    )
    assert first == other and len(first["ids"]) == 10
    assert (first["prompt"], first["threads"]) == (6, 1)


def test_the_table_has_our_speed_as_a_multiple_of_each_peers() -> None:
    sides = {OURS: Round(0.010, 0.1, 0.25), "llama.cpp": Round(0.025, 0.05, 0.5)}
    assert Comparison(128, 64, sides).lines() == [
        "                                ours        llama.cpp  to llama.cpp",
        "load to first token          10.0 ms          25.0 ms          2.50",
        "prefill 128          1280.0 tokens/s  2560.0 tokens/s          0.50",
        "decode 64             256.0 tokens/s   128.0 tokens/s          2.00",
    ]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (
            ["--against", "llama.cpp=model.gguf"],
            "llama.cpp: expected the package llama_cpp, got none: pip install llama-cpp-python, ",
        ),
        (["--against", "llama.cpp=none.gguf"], "llama.cpp: expected a file, got 'none.gguf'"),
        (["--against", "other=model.gguf"], "with a peer of llama.cpp, upstream, got 'other="),
        (["--against", "upstream"], "--against: expected PEER=FILE with a peer of"),
        (["--python", "upstream=python"], "--python: expected --against with it, got none"),
        (
            ["--against", "upstream=a,b.pte", "--python", "upstream=/no/python"],
            "upstream: expected a Python that runs, got '/no/python': No such file",
        ),
        (
            ["--against", "upstream=a,b.pte", "--steps", "5000"],
            "expected prompt and steps within the context",
        ),
    ],
)
def test_peers_that_cannot_run_are_named(
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    more: list[str],
    message: str,
) -> None:
    (folder / "llama_cpp.py").write_text('raise ModuleNotFoundError(name="llama_cpp")')
    monkeypatch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)
    assert bench(*more) == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("answer", "begin", "message"),
    [
        ("exit('out of memory')", None, "process (exit code 1): out of memory"),
        ('print(json.dumps({"error": "no such file"}), flush=True)', None, "upstream: no such"),
        (TIMES, {"missing": "torch"}, "upstream: expected the package torch, got none: pip inst"),
    ],
)
def test_a_peer_that_fails_says_why(
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    answer: str,
    begin: object,
    message: str,
) -> None:
    python = python_of(folder, "upstream", answer, begin)
    assert bench("--against", "upstream=a,b.pte", "--python", f"upstream={python}") == 1
    assert message in capsys.readouterr().err


# Functions of llama-cpp-python that write their calls down. Its vocabulary has 200 ids.
LLAMA_CPP = """
import types

def said(*words):
    with open("calls", "a") as file:
        print(*words, file=file)

def options():
    return types.SimpleNamespace()

def opened(model, options):
    said("context", options.n_ctx, options.n_threads, options.n_threads_batch)
    return 2

def decode(context, batch):
    said("decode", *batch)
    return 0

print("not an answer")
llama_backend_init = lambda: None
llama_model_default_params = llama_context_default_params = options
llama_model_load_from_file = lambda path, options: path == b"{path}"
llama_init_from_model = opened
llama_model_get_vocab = lambda model: 3
llama_vocab_n_tokens = lambda vocabulary: 200
llama_get_memory = lambda context: 4
llama_memory_seq_rm = lambda memory, sequence, begin, end: said("keep", begin)
llama_batch_get_one = lambda array, n: array[:n]
llama_decode = decode
llama_get_logits_ith = lambda context, i: [0.0]
llama_free = llama_model_free = lambda context: said("free")
"""


def test_llama_cpp_reads_a_prompt_twice_and_then_single_tokens(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "llama_cpp").mkdir()
    (folder / "llama_cpp" / "__init__.py").write_text("")
    fake = LLAMA_CPP.replace("{path}", str(folder / "model.gguf"))
    (folder / "llama_cpp" / "llama_cpp.py").write_text(fake)
    monkeypatch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)
    assert bench("--against", "llama.cpp=model.gguf") == 0
    calls = [line.split() for line in Path("calls").read_text().splitlines()]
    rounds = [i for i, call in enumerate(calls) if call[0] == "context"]
    assert len(rounds) == 4 and calls[rounds[1] - 2 : rounds[1]] == [["free"], ["free"]]
    assert calls[0] == ["context", "10", "1", "1"]
    read = [call[1:] for call in calls[: rounds[1]] if call[0] == "decode"]
    assert [len(ids) for ids in read] == [6, 6, 1, 1, 1, 1] and read[0] == read[1]
    assert all(int(token) < 200 for ids in read for token in ids)
    assert [call[1] for call in calls[: rounds[1]] if call[0] == "keep"] == list("006789")
    assert "to llama.cpp" in capsys.readouterr().out
