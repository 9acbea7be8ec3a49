"""`executorch_py llm chat`: a conversation on a terminal, or with questions from a pipe."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from executorch_py.atomic_file import replacing
from executorch_py.terminal_text import message_text, quoted

if TYPE_CHECKING:
    from executorch_py.extension.llm.chat import ChatTemplate
    from executorch_py.extension.llm.runner import TextRunner, TextStream

_QUOTES = '"""'
_MARK, _MORE = "> ", ". "  # before a line of a question
HELP = '''\
A line is a question. One that ends with a backslash goes on in the next line; lines between
""" and """ are one question. Ctrl-C stops an answer, Ctrl-D ends.
  /reset       begin anew, with the system message
  /save FILE   write the messages, as JSON
  /load FILE   go on from such a file
  /stats       tokens and speed of the last answer
  /help        show this text'''


def chat(options: argparse.Namespace) -> int:
    """Answer questions until the input ends. With questions of a pipe, an error ends it, too."""
    from executorch_py.extension.llm.runner import TextRunner

    runner = TextRunner(options.file, options.tokenizer, eos_ids=options.eos)
    conversation = Conversation(runner, _template(options.template, runner), options)
    on_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    if not on_terminal:
        for piped in questions(_piped_line):
            conversation.take(piped)
        return 0
    print(f"{runner.session.capacity} tokens of context; /help lists commands")
    with suppress(ImportError):
        import readline  # noqa: F401 with it, input() has keys that move in a line
    while True:
        try:
            question = read_question(input)
            if question is None:
                print()
                return 0
            _attempt(conversation, question)
        except KeyboardInterrupt:  # in a question, or before its answer begins
            print()


def _attempt(conversation: Conversation, question: str) -> None:
    """Takes a question; an error is a message, and the conversation goes on."""
    try:
        conversation.take(question)
    except BrokenPipeError:
        raise
    except (OSError, ValueError, RuntimeError, LookupError, TypeError) as error:
        print(message_text(str(error)), file=sys.stderr)


def _template(path: str | None, runner: TextRunner) -> ChatTemplate:
    """The template of a file or folder, by default the program's. A file has its tokens."""
    from executorch_py.extension.llm.chat import TEMPLATE_KEY, ChatTemplate

    if path is None:
        return ChatTemplate.of(runner.session)
    if Path(path).is_dir():
        return ChatTemplate.from_folder(path)
    text = Path(path).read_text("utf-8", "replace")
    if TEMPLATE_KEY not in runner.session.program.named_data:
        return ChatTemplate(text)
    own = ChatTemplate.of(runner.session)
    return ChatTemplate(text, bos_token=own.bos_token, eos_token=own.eos_token)


# ---- input


def read_question(read: Callable[[str], str]) -> str | None:
    """A question of one or more lines; None at the end of the input.

    `read` returns a line, given the mark before it, and raises EOFError at the end.
    """
    try:
        line = read(_MARK)
    except EOFError:
        return None
    lines = []
    try:
        if line.startswith(_QUOTES):
            line = line[len(_QUOTES) :]
            while not line.rstrip().endswith(_QUOTES):
                lines.append(line)
                line = read(_MORE)
            line = line.rstrip()[: -len(_QUOTES)]
        else:
            while line.endswith("\\"):
                lines.append(line[:-1])
                line = read(_MORE)
        lines.append(line)
    except EOFError:  # an end in a question ends it, too
        pass
    return "\n".join(lines).strip("\n")


def questions(read: Callable[[str], str]) -> Iterator[str]:
    """Questions until the end of the input."""
    question = read_question(read)
    while question is not None:
        yield question
        question = read_question(read)


def _piped_line(mark: str) -> str:
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line.rstrip("\n").rstrip("\r")


# ---- the conversation


class Conversation:
    """Messages so far, and the runner that answers them."""

    def __init__(
        self, runner: TextRunner, template: ChatTemplate, options: argparse.Namespace
    ) -> None:
        from executorch_py.extension.llm.sampler import SamplingOptions

        self._runner, self._template = runner, template
        self._limit = options.tokens
        self._sampling = SamplingOptions(
            temperature=options.temperature,
            top_k=options.top_k,
            top_p=options.top_p,
            min_p=options.min_p,
            seed=options.seed,
        )
        system = options.system
        self._start = [] if system is None else [{"role": "system", "content": system}]
        self.messages: list[dict[str, Any]] = list(self._start)
        self._last: TextStream | None = None

    def take(self, question: str) -> None:
        """Answers a question, or runs a command."""
        command, _, argument = question.partition(" ")
        if not question.strip():
            return
        if not question.startswith("/") or "\n" in question:
            self._answer(question)
            return
        commands: dict[str, Callable[[str], None]] = {
            "/help": lambda _: print(HELP),
            "/load": self._load,
            "/reset": self._reset,
            "/save": self._save,
            "/stats": self._stats,
        }
        if command not in commands:
            raise ValueError(
                f"command: expected one of {', '.join(commands)}, got {quoted(command)}"
            )
        commands[command](argument.strip())

    def _answer(self, question: str) -> None:
        asked = [*self.messages, {"role": "user", "content": question}]
        stream = self._runner.chat(
            asked,
            template=self._template,
            max_new_tokens=self._limit,
            sampling=self._sampling,
        )
        self._last = stream
        with _stopped_by_ctrl_c(stream):
            for piece in stream:
                print(message_text(piece), end="", flush=True)
        print(flush=True)
        if stream.finish_reason == "length":
            n = len(stream.tokens)
            print(f"(ended at {n} tokens: --tokens, or a full context)", file=sys.stderr)
        if stream.text:  # a question without an answer is forgotten
            self.messages = [*asked, {"role": "assistant", "content": stream.text}]

    def _reset(self, _: str) -> None:
        self.messages, self._last = list(self._start), None

    def _stats(self, _: str) -> None:
        print(speeds(self._last) if self._last is not None else "no answer yet")

    def _save(self, name: str) -> None:
        text = json.dumps(self.messages, ensure_ascii=False, indent=1)
        with replacing(_named(name, "/save")) as file:
            file.write(text.encode("utf-8", "replace") + b"\n")
        print(f"saved {len(self.messages)} messages")

    def _load(self, name: str) -> None:
        from executorch_py.extension.llm.chat import checked_messages

        try:
            found = json.loads(Path(_named(name, "/load")).read_bytes())
        except (ValueError, RecursionError) as error:
            if not name:
                raise
            raise ValueError(f"{name}: expected messages as JSON, got {error}") from None
        self.messages = checked_messages(found)
        print(f"loaded {len(self.messages)} messages")


def _named(name: str, command: str) -> str:
    if not name:
        raise ValueError(f"{command}: expected the name of a file, got none")
    return name


def speeds(stream: TextStream) -> str:
    """Tokens of a prompt and its text, and how fast they were, in two lines."""
    stats = stream.stats
    drafts = f", {stats.num_accepted_tokens} of drafts" if stats.num_draft_tokens else ""
    return (
        f"prompt   {stats.num_prompt_tokens} tokens, {stats.prefill_tokens_per_second:.1f} "
        f"tokens/s\ntext     {stats.num_generated_tokens} tokens{drafts}, "
        f"{stats.decode_tokens_per_second:.1f} tokens/s, ended by: {stream.finish_reason}"
    )


@contextmanager
def _stopped_by_ctrl_c(stream: TextStream) -> Iterator[None]:
    """Ctrl-C ends the stream at its next token, in place of the program."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, lambda *_: stream.stop())
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
