"""`executorch_py llm chat`: on a terminal, and with questions from a pipe."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from support.chat_models import chat_file
from support.chat_templates import CHATML, turn
from support.paths import ROOT

from executorch_py.cli import llm_chat
from executorch_py.cli.main import main
from executorch_py.extension.llm.runner import TextRunner
from executorch_py.terminal_text import message_text

TOKENS = 6


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(chat_file(tmp_path_factory.mktemp("chat")))


def answers(path: str, *asked: str, system: str | None = None) -> list[str]:
    """The runner's own answers to some questions."""
    runner = TextRunner(path)
    talk = [] if system is None else [turn("system", system)]
    found = []
    for question in asked:
        talk.append(turn("user", question))
        found.append(runner.chat(talk, max_new_tokens=TOKENS))
        talk.append(turn("assistant", "".join(found[-1])))
    return [message_text(stream.text) for stream in found]


def piped(monkeypatch: pytest.MonkeyPatch, path: str, text: str, *options: str) -> int:
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    return main(["llm", "chat", path, "--tokens", str(TOKENS), *options])


def test_questions_of_a_pipe_are_answered_without_marks(
    path: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert piped(monkeypatch, path, "Hi\n\nAnd?\r\n") == 0
    assert capsys.readouterr().out == "".join(f"{text}\n" for text in answers(path, "Hi", "And?"))


def test_backslashes_and_quotes_make_one_question_of_lines(
    path: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert piped(monkeypatch, path, 'one\\\ntwo\n"""\n/three\n\nfour"""\nlast\\') == 0
    expected = answers(path, "one\ntwo", "/three\n\nfour", "last")
    assert capsys.readouterr().out == "".join(f"{text}\n" for text in expected)


def test_a_system_message_comes_first_and_stays_after_reset(
    path: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert piped(monkeypatch, path, "Hi\n/reset\nHi\n", "--system", "Be kind.") == 0
    expected = answers(path, "Hi", system="Be kind.")[0]
    assert capsys.readouterr().out == f"{expected}\n{expected}\n"


def test_messages_are_saved_and_loaded(
    path: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "talk é.json"
    assert piped(monkeypatch, path, f"Hi 漢\n/save {file}\n") == 0
    assert [m["role"] for m in json.loads(file.read_bytes())] == ["user", "assistant"]
    assert piped(monkeypatch, path, f"/load {file}\nAnd?\n") == 0
    found = capsys.readouterr().out.splitlines()
    expected = answers(path, "Hi 漢", "And?")
    assert "saved 2 messages" in found and "loaded 2 messages" in found
    assert "\n".join(found).endswith(expected[1])


def test_stats_tell_tokens_and_speed(
    path: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert piped(monkeypatch, path, "/stats\nHi\n/stats\n/help\n") == 0
    out = capsys.readouterr().out
    assert out.startswith("no answer yet\n")
    assert "tokens/s, ended by: length" in out and "/reset" in out


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "/nothing\n",
            "command: expected one of /help, /load, /reset, /save, /stats, got '/nothing'",
        ),
        ("/save\n", "/save: expected the name of a file, got none"),
        ("/load\n", "/load: expected the name of a file, got none"),
        ("/load pyproject.toml\n", "pyproject.toml: expected messages as JSON, got"),
        ("word " * 500 + "\n", "expected at most 400 tokens"),
    ],
)
def test_an_error_ends_questions_of_a_pipe(
    text: str,
    words: str,
    path: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(ROOT)
    assert piped(monkeypatch, path, text) == 1
    assert words in capsys.readouterr().err


def test_a_template_may_come_from_a_file(
    path: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "own.jinja").write_text(CHATML, "utf-8")
    assert piped(monkeypatch, path, "Hi\n", "--template", str(tmp_path / "own.jinja")) == 0
    assert capsys.readouterr().out == f"{answers(path, 'Hi')[0]}\n"
    (tmp_path / "own.jinja").write_text("{{ raise_exception('no turns') }}", "utf-8")
    assert piped(monkeypatch, path, "Hi\n", "--template", str(tmp_path / "own.jinja")) == 1
    assert "TemplateError: no turns" in capsys.readouterr().err


def test_ctrl_c_stops_the_answer_and_not_the_program(
    path: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(text: str) -> str:
        os.kill(os.getpid(), signal.SIGINT)
        return message_text(text)

    monkeypatch.setattr(llm_chat, "message_text", interrupted)
    monkeypatch.setattr("sys.stdin", io.StringIO("Hi\n/stats\n"))
    assert main(["llm", "chat", path]) == 0
    assert "ended by: stopped" in capsys.readouterr().out


# ---- a terminal


class Terminal:
    """The command on a terminal of its own."""

    def __init__(self, *arguments: str) -> None:
        self._here, there = pty.openpty()
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "dumb"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "executorch_py", "llm", "chat", *arguments],
            stdin=there,
            stdout=there,
            stderr=there,
            env=environment,
            start_new_session=True,
            preexec_fn=_own_terminal,
        )
        os.close(there)
        self.text = ""

    def until(self, wanted: str, seconds: float = 60) -> str:
        """The output up to this text that was not returned yet."""
        end = time.monotonic() + seconds
        while wanted not in self.text:
            assert time.monotonic() < end, f"{wanted!r} is missing in {self.text!r}"
            if select.select([self._here], [], [], 0.2)[0]:
                try:
                    self.text += os.read(self._here, 4096).decode("utf-8", "replace")
                except OSError:  # the program has ended
                    break
        found, _, self.text = self.text.partition(wanted)
        return found.replace("\r\n", "\n")

    def type(self, keys: str) -> None:
        os.write(self._here, keys.encode())

    def press(self, key: str, wanted: str) -> str:
        """As `until`, after a key that is pressed again while nothing comes: readline waits on
        where a signal came between its last look and its wait."""
        for _ in range(20):
            self.type(key)
            with contextlib.suppress(AssertionError):
                return self.until(wanted, seconds=3)
        raise AssertionError(f"{wanted!r} is missing in {self.text!r}")

    def end(self) -> int:
        """The exit code."""
        code = self.process.wait(timeout=60)
        os.close(self._here)
        return code


def _own_terminal() -> None:
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def test_a_terminal_has_marks_and_ends_with_ctrl_d(path: str) -> None:
    terminal = Terminal(path, "--tokens", str(TOKENS))
    assert "400 tokens of context; /help lists commands" in terminal.until("> ")
    terminal.type("one\\\n")
    terminal.until(". ")
    terminal.type("two\n")
    terminal.until("two\n" if "two\n" in terminal.text else "two\r\n")
    answer = terminal.until("\r\n> ")
    expected = answers(path, "one\ntwo")[0]
    assert answer.startswith(expected + "\n(ended at 6 tokens")
    terminal.type("/nothing\n")
    assert "command: expected one of" in terminal.until("\r\n> ")
    terminal.press("\x03", "> ")
    terminal.type("\x04")
    assert terminal.end() == 0


def test_ctrl_c_on_a_terminal_stops_an_answer(path: str) -> None:
    terminal = Terminal(path)
    terminal.until("> ")
    terminal.type("Hi\n")
    terminal.until("Hi\r\n")
    terminal.press("\x03", "\r\n> ")  # before the answer, in it, or after it
    terminal.type("/stats\n")
    terminal.until("/stats\r\n")
    assert "ended by: " in (found := terminal.until("\r\n> ")) or "no answer yet" in found
    terminal.type("\x04")
    assert terminal.end() == 0


def test_control_characters_of_an_answer_are_made_harmless(path: str) -> None:
    class Stream:
        finish_reason, text = "eos", "a\x1b[2Jb\a"

        def __iter__(self) -> Any:
            return iter([self.text])

    class Runner:
        def chat(self, *_: Any, **__: Any) -> Stream:
            return Stream()

    options = main_options(path)
    conversation = llm_chat.Conversation(Runner(), None, options)  # type: ignore[arg-type]
    out = io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdout", out)
        conversation.take("Hi")
    assert out.getvalue() == "a\\x1b[2Jb\\x07\n"


def main_options(path: str) -> Any:
    from executorch_py.cli.main import build_parser

    return build_parser().parse_args(["llm", "chat", path])
