"""The server: a listening socket, a thread for each connection, and an orderly end."""

from __future__ import annotations

import socket
import socketserver
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from os import PathLike
from types import TracebackType
from typing import Any

from executorch_py.errors import InvalidArgument
from executorch_py.extension.llm.chat import TEMPLATE_KEY, ChatTemplate
from executorch_py.extension.llm.runner import TextRunner
from executorch_py.extension.llm.serve.access import Access, check_key, is_loopback
from executorch_py.extension.llm.serve.endpoints import Endpoints
from executorch_py.extension.llm.serve.handler import Handler, Limits, Site
from executorch_py.extension.llm.serve.session_pool import SessionPool
from executorch_py.extension.llm.session import Session
from executorch_py.extension.llm.tokenizer import Tokenizer
from executorch_py.runtime import Runtime

_STOP_SECONDS = 5.0  # for connections to end
_BUSY = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nRetry-After: 1\r\n"
    b"Connection: close\r\n\r\n"
)


def open_runners(
    program: str | PathLike[str],
    tokenizer: Tokenizer | str | PathLike[str] | None = None,
    sessions: int = 1,
    n_threads: int | None = None,
    eos_ids: Sequence[int] | None = None,
) -> list[TextRunner]:
    """Runners of one program, which share its weights and its tokenizer.

    `n_threads` are those of each runner, by default as many as this process has CPUs. `eos_ids` are
    those of TextRunner.
    """
    if sessions < 1:
        raise InvalidArgument(
            f"sessions: expected 1 or more, got {sessions} [InvalidArgument, error: 0x12]"
        )
    opened = Runtime.get().load_program(program, n_threads=n_threads)
    first = TextRunner(Session(opened), tokenizer, eos_ids=eos_ids)
    more = [
        TextRunner(Session(opened), first.tokenizer, eos_ids=eos_ids) for _ in range(sessions - 1)
    ]
    return [first, *more]


class LlmServer:
    """A server of one model's program, from `start()` to `stop()` or in a `with` block.

    `runners` answer a request each at a time. `port` 0 takes a free one. Chats need a `template`,
    by default the program's, if it carries one. Without `log`, lines go to
    standard error. OSError if the address is in use, InvalidArgument for an empty key.
    """

    def __init__(
        self,
        runners: Sequence[TextRunner],
        *,
        model: str = "model",
        host: str = "127.0.0.1",
        port: int = 8080,
        api_key: str | None = None,
        template: ChatTemplate | None = None,
        limits: Limits | None = None,
        log: Callable[[str], object] | None = None,
    ) -> None:
        check_key(api_key)
        limits = limits or Limits()
        self._listener = _Listener(host, port)
        address = self._listener.server_address
        self.host, self.port = str(address[0]), int(address[1])
        self._site = Site(
            endpoints=Endpoints(
                runners[0],
                SessionPool(runners, limits.waiting),
                model,
                template or _template_of(runners[0].session),
            ),
            access=Access(host, self.host, api_key),
            limits=limits,
            log=log or _to_stderr,
        )
        self._listener.site = self._site
        self._thread = threading.Thread(target=self._listener.run, name="llm serve", daemon=True)

    @property
    def url(self) -> str:
        """The address as clients write it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    @property
    def is_local(self) -> bool:
        """Whether only this machine reaches the server."""
        return is_loopback(self.host)

    def start(self) -> None:
        """Begins to answer, in threads."""
        self._thread.start()

    def stop(self) -> None:
        """Ends running answers within a token, then all connections."""
        self._site.closing.set()
        self._listener.end(self._thread)

    def __enter__(self) -> LlmServer:
        self.start()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()


class _Listener(socketserver.TCPServer):
    """Accepts connections, up to a limit, and knows those that are open."""

    allow_reuse_address = True
    request_queue_size = 128
    site: Site

    def __init__(self, host: str, port: int) -> None:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        found.sort(key=lambda one: one[0] != socket.AF_INET)  # of localhost, the usual address
        self.address_family = found[0][0]
        self._open: dict[threading.Thread, socket.socket] = {}
        self._lock = threading.Lock()
        super().__init__(found[0][4], Handler)  # type: ignore[arg-type]

    def run(self) -> None:
        self.serve_forever(poll_interval=0.1)

    def process_request(self, request: Any, client_address: Any) -> None:
        thread = threading.Thread(
            target=self._serve, args=(request, client_address), name="llm client", daemon=True
        )
        with self._lock:
            is_full = len(self._open) >= self.site.limits.connections
            if not is_full:
                self._open[thread] = request
        if is_full:
            request.settimeout(0.0)
            with suppress(OSError):
                request.send(_BUSY)
            self.shutdown_request(request)
        else:
            thread.start()

    def _serve(self, request: socket.socket, client_address: Any) -> None:
        try:
            Handler(self.site, request, client_address, self)
        except Exception as error:
            self.site.log(f"{client_address[0]}: {type(error).__name__}: {error}")
        finally:
            self.shutdown_request(request)
            with self._lock:
                del self._open[threading.current_thread()]

    def end(self, accepting: threading.Thread) -> None:
        """Accepts no more, wakes connections that wait for a request, and waits for all."""
        if accepting.is_alive():
            self.shutdown()
        self.server_close()
        with self._lock:
            threads = dict(self._open)
            for request in threads.values():
                with suppress(OSError):
                    request.shutdown(socket.SHUT_RD)
        end = time.monotonic() + _STOP_SECONDS
        for thread in threads:
            thread.join(max(0.0, end - time.monotonic()))


def _template_of(session: Session) -> ChatTemplate | None:
    has_one = TEMPLATE_KEY in session.program.named_data
    return ChatTemplate.of(session) if has_one else None


def _to_stderr(line: str) -> None:
    with suppress(OSError):  # a closed pipe ends no server
        print(line, file=sys.stderr, flush=True)
