"""HTTP for the endpoints: requests read within limits, answers and events written, one log line.

Python's http.server parses heads. Each connection has a thread, and one request at a time.
"""

from __future__ import annotations

import io
import json
import socket
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from email.message import Message
from http import HTTPStatus
from http.client import HTTPMessage
from http.server import BaseHTTPRequestHandler
from typing import Any

from executorch_py.extension.llm.serve.access import Access
from executorch_py.extension.llm.serve.connection import DeadlineReader, has_left, linger
from executorch_py.extension.llm.serve.endpoints import OPEN, Answer, Endpoints, Event, Events
from executorch_py.extension.llm.serve.generation import Client
from executorch_py.extension.llm.serve.json_body import Fields, read_object
from executorch_py.extension.llm.serve.request_error import ClientGone, RequestError
from executorch_py.terminal_text import name_text, quoted

_LONGEST_LINE = 2**16
_GONE = 499  # nginx's status of a request whose client left, in the log only
_JSON = "application/json"
# Ends of lines for some readers of events, though not by the standard.
_LINE_ENDS = {0x85: "\\u0085", 0x2028: "\\u2028", 0x2029: "\\u2029"}


@dataclass(frozen=True)
class Limits:
    """Bounds of what a client may take."""

    body_bytes: int = 8 * 2**20
    read_seconds: float = 30.0
    """For a whole request, and between two of a connection."""
    write_seconds: float = 30.0
    """In which an answer's writes may wait for the client, all together."""
    connections: int = 128
    waiting: int = 32
    """Requests that wait for a session."""


@dataclass
class Site:
    """Parts that all connections of a server share."""

    endpoints: Endpoints
    access: Access
    limits: Limits
    log: Callable[[str], object]
    closing: threading.Event = field(default_factory=threading.Event)


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    _status = 0  # of the head that was sent

    def __init__(self, site: Site, connection: socket.socket, address: Any, server: Any) -> None:
        self._site = site
        super().__init__(connection, address, server)  # answers all requests of the connection

    def setup(self) -> None:
        super().setup()
        self._reader = DeadlineReader(self.connection)
        self.rfile = io.BufferedReader(self._reader)
        self._is_unread = False

    def finish(self) -> None:
        if self._is_unread:
            linger(self.connection)
        super().finish()

    # ---- one request

    def handle_one_request(self) -> None:
        """Reads a request and answers it; the base class calls this until `close_connection`."""
        self.close_connection = True
        self._reader.deadline = time.monotonic() + self._site.limits.read_seconds
        try:
            self.raw_requestline = self.rfile.readline(_LONGEST_LINE + 1)
        except OSError:
            return
        if not self.raw_requestline:
            return
        self._begin()
        try:
            if len(self.raw_requestline) > _LONGEST_LINE:
                self._is_unread = True
                self._send_error(RequestError(414, "path: expected a short one, got a longer one"))
            elif self.parse_request():
                self._respond()
        except TimeoutError:
            self._is_unread = True
            self._send_error(_too_slow())
        except (ClientGone, OSError):
            self._has_client = False
            self.close_connection = True
        finally:
            self._log()

    def _begin(self) -> None:
        self.command, self.path, self.requestline = "", "", ""
        self.request_version, self.headers = self.protocol_version, HTTPMessage()
        self._began = time.monotonic()
        self._write_seconds = self._site.limits.write_seconds
        self._status = 0
        self._has_client = self._is_whole = True
        self._expects_100 = self._is_chunked = False
        self._client = Client(self._is_gone)

    def handle_expect_100(self) -> bool:
        self._expects_100 = True  # answered when the length is known to be allowed
        return True

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """The base class calls this for a head that is no HTTP."""
        self._is_unread = True
        words = name_text(message or HTTPStatus(code).phrase)
        self._send_error(RequestError(code, f"request: expected HTTP/1.1, got: {words}"))

    def _respond(self) -> None:
        events: Events | None = None
        try:
            answer = self._answer()
            if isinstance(answer, dict):
                self._send_json(200, answer)
            else:
                events = answer
                self._send_events(events)
        except RequestError as error:
            self._send_error(error)
        except ClientGone:
            if not self._site.closing.is_set():
                raise
            self._send_error(RequestError(503, "the server stops", code="server_stops"))
        except TimeoutError:
            raise
        except Exception:  # a defect, or a program that fails: the server goes on
            self._site.log(traceback.format_exc().rstrip())
            self._send_error(RequestError(500, "the server failed; its log says why"))
        finally:
            if events is not None:
                events.close()

    def _answer(self) -> Answer:
        length = self._announced_length()
        self._is_unread = length != 0
        path = self.path.partition("?")[0]
        self._site.access.check(self.headers, path)
        endpoints = self._site.endpoints
        allowed = ["GET", "HEAD"] * (path in endpoints.get) + ["POST"] * (path in endpoints.post)
        if not allowed:
            known = ", ".join(sorted({*endpoints.get, *endpoints.post}))
            raise RequestError(404, f"path: expected one of {known}, got {quoted(path)}")
        if self.command not in allowed:
            words = " or ".join(allowed)
            error = RequestError(405, f"{path}: expected {words}, got {quoted(self.command)}")
            error.headers["Allow"] = ", ".join(allowed)
            raise error
        if self.command != "POST":
            return endpoints.get[path]()
        return endpoints.post[path](Fields(read_object(self._body(length))), self._client)

    # ---- reading

    def _announced_length(self) -> int | None:
        """The length of the body by its headers: None if they do not say it."""
        lengths = self.headers.get_all("Content-Length") or []
        if "Transfer-Encoding" in self.headers:
            return None
        if not lengths:
            return None if self.command in ("POST", "PUT", "PATCH") else 0
        text = lengths[0].strip()
        if len(set(lengths)) > 1 or not (text.isascii() and text.isdecimal()):
            self._is_unread = True
            raise RequestError(400, f"Content-Length: expected a number, got {quoted(text)}")
        return int(text) if len(text) < 20 else 10**20

    def _body(self, length: int | None) -> bytes:
        if length is None:
            raise RequestError(
                411, "Content-Length: expected the length of the body, got none", code="no_length"
            )
        most = self._site.limits.body_bytes
        if length > most:
            raise RequestError(
                413, f"body: expected at most {most} bytes, got {length}", code="body_too_long"
            )
        kind = self.headers.get("Content-Type")
        if kind is not None and _media_type(self.headers) != _JSON:
            raise RequestError(415, f"Content-Type: expected {_JSON}, got {quoted(kind)}")
        if self._expects_100:
            self._send(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = self.rfile.read(length)
        if len(body) < length:
            raise ClientGone("the client left before it had sent its request")
        self._is_unread = False
        return body

    def _is_gone(self) -> bool:
        return self._site.closing.is_set() or has_left(self.connection)

    # ---- writing

    def _send(self, data: bytes) -> None:
        """Writes all; ClientGone if the client has left, or kept the server waiting too long."""
        if self._write_seconds <= 0:
            raise ClientGone("the client reads its answer too slowly")
        began = time.monotonic()
        try:
            self.connection.settimeout(self._write_seconds)
            self.connection.sendall(data)
        except OSError as error:
            raise ClientGone(f"the client left: {error}") from None
        finally:
            self._write_seconds -= time.monotonic() - began

    def _send_head(self, status: int, headers: dict[str, str]) -> bytes:
        self._status = status
        phrase = HTTPStatus(status).phrase
        lines = [f"HTTP/1.1 {status} {phrase}", "Server: executorch_py"]
        lines.append(f"Date: {self.date_time_string()}")
        lines += [f"{name}: {value}" for name, value in headers.items()]
        keep = self._keeps_alive()
        lines.append(f"Connection: {'keep-alive' if keep else 'close'}")
        self.close_connection = not keep
        return "\r\n".join([*lines, "", ""]).encode()

    def _keeps_alive(self) -> bool:
        if self._is_unread or self._site.closing.is_set() or not self.command:
            return False
        wanted = (self.headers.get("Connection") or "").lower()
        return self.request_version == "HTTP/1.1" and "close" not in wanted

    def _send_json(self, status: int, value: Any, headers: dict[str, str] | None = None) -> None:
        body = _json(value)
        head = {"Content-Type": _JSON, "Content-Length": str(len(body)), **(headers or {})}
        data = self._send_head(status, head)
        self._send(data if self.command == "HEAD" else data + body)

    def _send_error(self, error: RequestError) -> None:
        if self._status and self._is_whole:
            raise ClientGone("the client left while its answer was written")
        if self._status:  # in the middle of a stream: its last event says so
            self._status = error.status
            self.close_connection = True
            self._send_event(error.body())
            self._end_events()
        else:
            self._send_json(error.status, error.body(), error.headers)

    def _send_events(self, events: Events) -> None:
        """Writes events as they come, in the format of server-sent events."""
        self._is_chunked = self.request_version == "HTTP/1.1"
        self._is_whole = False
        head = {"Content-Type": "text/event-stream", "Cache-Control": "no-cache"}
        for event in events:
            if not self._status:
                if self._is_chunked:
                    head["Transfer-Encoding"] = "chunked"
                data = self._send_head(200, head)
                self.close_connection |= not self._is_chunked
                self._send(data)
            if event is not OPEN:
                self._send_event(event)
        self._end_events()

    def _send_event(self, event: Event) -> None:
        data = b"data: " + (event.encode() if isinstance(event, str) else _json(event)) + b"\n\n"
        self._send(b"%x\r\n%s\r\n" % (len(data), data) if self._is_chunked else data)

    def _end_events(self) -> None:
        if self._is_chunked:
            self._send(b"0\r\n\r\n")

    # ---- the log

    def _log(self) -> None:
        usage = self._client.usage
        words = f"{self.command} {self.path}".strip() or "?"
        parts = [f"{self.client_address[0]} {name_text(words)} {self._status or _GONE}"]
        if usage.prompt:
            parts.append(f"{usage.prompt} + {usage.completion} tokens ({usage.cached} cached)")
        parts.append(f"{time.monotonic() - self._began:.3f} s")
        parts += ["the client left"] * (not self._has_client)
        self._site.log(", ".join(parts))

    def log_message(self, format: str, *args: Any) -> None:
        """The base class's own lines are not written: `_log` has all that they say."""


def _too_slow() -> RequestError:
    return RequestError(408, "request: expected all of it in time, got a part", code="timeout")


def _media_type(headers: Message) -> str:
    return (headers.get("Content-Type") or "").partition(";")[0].strip().lower()


def _json(value: Any) -> bytes:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.translate(_LINE_ENDS).encode()
