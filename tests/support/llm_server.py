"""Servers of small language models, and clients that speak HTTP without a library's help."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from executorch_py.extension.llm.chat import ChatTemplate
from executorch_py.extension.llm.runner import Stats, TextRunner, TextStream
from executorch_py.extension.llm.sampler import Drawn
from executorch_py.extension.llm.serve import Limits, LlmServer
from executorch_py.extension.llm.session import Session
from support.decoder_files import own_file
from support.trained_tokenizers import of_300_words

JSON = {"Content-Type": "application/json"}
SLOW_SECONDS = 0.03  # of each piece of a slow runner


def model_files(folder: Path) -> tuple[Path, Path]:
    """A decoder of random weights and a tokenizer for it."""
    tokenizer = folder / "tokenizer.json"
    tokenizer.write_bytes(of_300_words())
    return own_file(folder, "Llama"), tokenizer


def runners(files: tuple[Path, Path], n: int, kind: type[TextRunner] = TextRunner) -> list[Any]:
    """Runners whose texts do not end before their length, over one program."""
    first = kind(files[0], files[1], eos_ids=())
    program, tokenizer = first.session.program, first.tokenizer
    more = [kind(Session(program), tokenizer, eos_ids=()) for _ in range(n - 1)]
    return [first, *more]


class SlowRunner(TextRunner):
    """A runner that waits before each piece."""

    def stream(self, *arguments: Any, **options: Any) -> TextStream:
        return _Slow(super().stream(*arguments, **options))  # type: ignore[return-value]


class _Slow:
    def __init__(self, stream: TextStream) -> None:
        self._stream = stream

    def __iter__(self) -> Iterator[str]:
        for piece in self._stream:
            time.sleep(SLOW_SECONDS)
            yield piece

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


# Lines of a role and a text; it refuses a message "refuse", and shows its variable `mood`.
TEMPLATE = ChatTemplate(
    "{% for message in messages %}{% if message.content == 'refuse' %}"
    "{{ raise_exception('no such message') }}{% endif %}"
    "{{ message.role }}: {{ message.content }}\n{% endfor %}{{ mood }}"
)


class ScriptedRunner(TextRunner):
    """A runner that says the pieces that it was given, or raises."""

    pieces: list[str | Exception]

    def stream(self, prompt: Any, **_options: Any) -> TextStream:
        return _Scripted(self.pieces)  # type: ignore[return-value]


class _Scripted:
    def __init__(self, pieces: list[str | Exception]) -> None:
        self.pieces, self.tokens, self.text = pieces, list[int](), ""
        self.finish_reason: str | None = None
        self.stats, self.drawn = Stats(num_prompt_tokens=1), list[Drawn]()
        self._run = self._said()

    def _said(self) -> Iterator[str]:
        for piece in self.pieces:
            if isinstance(piece, Exception):
                raise piece
            self.text += piece
            self.tokens.append(0)
            yield piece
        self.finish_reason = "eos"

    def __iter__(self) -> Iterator[str]:
        return self._run

    def stop(self) -> None:
        self.pieces = []


class BlockedRunner(TextRunner):
    """A runner that reads its prompt until it is stopped."""

    def stream(self, prompt: Any, **_options: Any) -> TextStream:
        return _Blocked([])  # type: ignore[return-value]


class _Blocked(_Scripted):
    def __init__(self, pieces: list[str | Exception]) -> None:
        super().__init__(pieces)
        self._stopped = threading.Event()

    def _said(self) -> Iterator[str]:
        assert self._stopped.wait(60)
        self.finish_reason = "stopped"
        yield from ()

    def stop(self) -> None:
        self._stopped.set()


class Reply:
    """An answer, read whole."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status, self.headers = response.status, response.headers
        self.body = response.read()

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def events(self) -> list[Any]:
        """The objects of a stream of events, and its end as it stands."""
        parts = self.body.decode().split("\n\n")
        assert parts.pop() == "" and all(part.startswith("data: ") for part in parts)
        contents = [part.removeprefix("data: ") for part in parts]
        return [data if data == "[DONE]" else json.loads(data) for data in contents]


def send(server: LlmServer, method: str, path: str, body: Any = None, headers: Any = None) -> Reply:
    """The answer to one request, on a connection of its own; objects are sent as JSON."""
    data = json.dumps(body).encode() if isinstance(body, dict | list) else body
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    try:
        connection.request(method, path, data, JSON if headers is None else headers)
        return Reply(connection.getresponse())
    finally:
        connection.close()


def post(server: LlmServer, path: str, **fields: Any) -> Reply:
    """The answer to an object of these fields."""
    return send(server, "POST", path, fields)


def raw(server: LlmServer, data: bytes) -> socket.socket:
    """A connection on which these bytes were sent."""
    connection = socket.create_connection(("127.0.0.1", server.port), timeout=60)
    connection.sendall(data)
    return connection


def request_bytes(path: str, **fields: Any) -> bytes:
    """The bytes of a request."""
    body = json.dumps(fields).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"Content-Type: application/json\r\n\r\n" + body


def received(connection: socket.socket) -> bytes:
    """All that comes until the other side closes the connection."""
    data = b""
    with connection:
        while more := connection.recv(65536):
            data += more
    return data


def wait_for(condition: Any, seconds: float = 10.0) -> None:
    """Returns when a condition holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "expected the condition to hold in time"
        time.sleep(0.005)


QUICK = Limits(read_seconds=0.5, write_seconds=0.5, connections=8, waiting=1)
