"""`executorch_py llm run`, `llm tokenize` and `llm perplexity`."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from support.decoder_files import own_file
from support.trained_tokenizers import of_300_words
from tokenizers import Tokenizer as Reference
from tokenizers import processors

from executorch_py.cli.main import main
from executorch_py.extension.llm.runner import TextRunner
from executorch_py.extension.llm.session import Session, perplexity
from executorch_py.extension.llm.tokenizer import Tokenizer
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


def test_perplexity_is_that_of_the_session(
    files: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program, tokenizer = files
    text = "A text of words, é 漢字, that a model predicts. " * 9
    (tmp_path / "text.txt").write_text(text, "utf-8")
    arguments = ["llm", "perplexity", program, str(tmp_path / "text.txt")]
    assert main([*arguments, "--tokenizer", tokenizer, "--context", "32"]) == 0
    ids = Tokenizer.from_file(tokenizer).encode(text)
    found = perplexity(Session(program), ids, window=32)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"perplexity  {found.value:.4f} ± {found.error:.4f}"
    assert lines[1] == f"tokens      {len(ids)}, of which {found.n_tokens} predicted, 32 at a time"
    assert lines[2].endswith("tokens/s; export with --all-logits is faster")


def test_perplexity_begins_each_window_as_the_tokenizer_begins_a_text(
    files: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = Reference.from_str(of_300_words().decode())
    made.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 0)]
    )
    made.save(str(tmp_path / "begins.json"))
    (tmp_path / "text.txt").write_text("words " * 50)
    arguments = ["llm", "perplexity", files[0], str(tmp_path / "text.txt"), "--context", "16"]
    assert main([*arguments, "--tokenizer", str(tmp_path / "begins.json")]) == 0
    ids = Tokenizer.from_file(files[1]).encode("words " * 50)
    found = perplexity(Session(files[0]), ids, window=16, first=0)
    assert f"perplexity  {found.value:.4f} " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("content", "options", "words"),
    [
        (b"a", [], "tokens: expected 48 or more, one window, got 1"),
        (b"a" * 99, ["--context", "1"], "window: expected 2 to 48, the context's length, got 1"),
        (b"a\xff", [], "text.txt: expected a text in UTF-8, got byte 0xff at 1"),
    ],
)
def test_perplexity_names_a_wrong_text(
    content: bytes,
    options: list[str],
    words: str,
    files: tuple[str, str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "text.txt").write_bytes(content)
    arguments = ["llm", "perplexity", files[0], str(tmp_path / "text.txt")]
    assert main([*arguments, "--tokenizer", files[1], *options]) == 1
    assert words in capsys.readouterr().err
