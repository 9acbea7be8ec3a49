"""`executorch_py llm run` and `llm tokenize`."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from support.decoder_files import own_file
from support.trained_tokenizers import of_300_words

from executorch_py.cli.main import main
from executorch_py.extension.llm.runner import TextRunner
from executorch_py.terminal_text import message_text


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    tokenizer = tmp_path / "tokenizer.json"
    tokenizer.write_bytes(of_300_words())
    return str(own_file(tmp_path, "Llama")), str(tokenizer)


def test_run_prints_the_text_of_the_runner(
    files: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    program, tokenizer = files
    arguments = ["llm", "run", program, "a prompt", "--tokenizer", tokenizer, "--tokens", "8"]
    assert main([*arguments, "--stats"]) == 0
    found = capsys.readouterr()
    stream = TextRunner(program, tokenizer).stream("a prompt", max_new_tokens=8)
    assert found.out == "".join(message_text(piece) for piece in stream) + "\n"
    assert "prompt   " in found.err and "ended by: " in found.err


def test_tokenize_prints_ids_and_bytes(
    files: tuple[str, str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("é"))
    assert main(["llm", "tokenize", files[1], "-"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "2 tokens of 300"


def test_a_wrong_tokenizer_file_is_named(
    tmp_path: Path, files: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    damaged = tmp_path / "damaged.json"
    damaged.write_text('{"model": {"type": "BPE"}}')
    assert main(["llm", "tokenize", str(damaged), "a"]) != 0
    assert "expected a model with a vocabulary, got none" in capsys.readouterr().err
