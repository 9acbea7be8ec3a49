"""Clients that come together, leave, or are slow: none keeps a session, a thread or the others."""

from __future__ import annotations

import re
import socket
import struct
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from support.llm_server import (
    QUICK,
    BlockedRunner,
    Reply,
    SlowRunner,
    post,
    raw,
    received,
    request_bytes,
    runners,
    send,
    wait_for,
)

from executorch_py.extension.llm.serve import Limits, LlmServer
from executorch_py.extension.llm.serve.request_error import ClientGone, RequestError
from executorch_py.extension.llm.serve.session_pool import SessionPool

TEXT = "/v1/completions"
LONG = {"prompt": "a", "temperature": 0}  # until the context is full


@pytest.fixture
def log() -> list[str]:
    return []


@pytest.fixture
def slow(files: tuple[Path, Path], log: list[str]) -> Iterator[LlmServer]:
    """A server of one session, in which one request may wait."""
    made = runners(files, 1, SlowRunner)
    with LlmServer(made, port=0, limits=QUICK, log=log.append) as server:
        yield server


def pool_of(server: LlmServer) -> SessionPool:
    return server._site.endpoints._pool


def test_requests_at_once_get_the_answers_that_they_get_alone(files: tuple[Path, Path]) -> None:
    requests = [
        {"prompt": f"a prompt {i % 5}", "max_tokens": 20, "seed": i, "stream": i % 2 == 0}
        for i in range(24)
    ]

    def text(server: LlmServer, fields: dict[str, Any]) -> str:
        reply = post(server, TEXT, **fields)
        assert reply.status == 200
        if not fields["stream"]:
            return str(reply.json["choices"][0]["text"])
        return "".join(event["choices"][0]["text"] for event in reply.events[:-1])

    with LlmServer(runners(files, 1), port=0, log=lambda _: None) as server:
        alone = [text(server, fields) for fields in requests]
    with (
        LlmServer(runners(files, 3), port=0, log=lambda _: None) as server,
        ThreadPoolExecutor(12) as threads,
    ):
        assert list(threads.map(lambda fields: text(server, fields), requests)) == alone


def test_a_session_with_the_same_beginning_is_chosen(files: tuple[Path, Path]) -> None:
    made = runners(files, 3)
    pool = SessionPool(made, 1)

    def read(ids: list[int]) -> Any:
        with pool.lease(ids, lambda: False) as runner:
            runner.read(ids)
            return runner

    first, second = read([5, 6, 7, 8]), read([9, 10, 11])
    assert first is not second
    assert read([5, 6, 7, 8, 9]) is first and read([9, 10, 11, 12]) is second
    # A shared token is not worth the loss of a context, while another one is empty.
    third = read([5, 20, 21])
    assert third not in (first, second)
    assert read([9, 10, 11, 12, 13]) is second and read([5, 20, 21, 22]) is third


def test_requests_wait_in_their_order_and_no_more_than_allowed(files: tuple[Path, Path]) -> None:
    pool = SessionPool(runners(files, 1), 3)
    order: list[int] = []

    def take(i: int) -> None:
        with pool.lease([5], lambda: False):
            order.append(i)

    threads = [threading.Thread(target=take, args=(i,)) for i in range(3)]
    with pool.lease([5], lambda: False):
        for i, thread in enumerate(threads):
            thread.start()
            wait_for(lambda i=i: len(pool._waiting) == i + 1)
        with pytest.raises(RequestError) as found, pool.lease([5], lambda: False):
            pass
        assert found.value.status == 503 and not order
    for thread in threads:
        thread.join()
    assert order == [0, 1, 2] and pool.n_idle == 1
    with pool.lease([5], lambda: False):
        with pytest.raises(ClientGone), pool.lease([5], lambda: True):
            pass
        assert not pool._waiting


def test_a_busy_server_says_so(slow: LlmServer) -> None:
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(post, slow, TEXT, **LONG)
        wait_for(lambda: pool_of(slow).n_idle == 0)
        second = threads.submit(post, slow, TEXT, **LONG)
        wait_for(lambda: len(pool_of(slow)._waiting) == 1)
        third = post(slow, TEXT, **LONG)
        assert third.status == 503 and third.headers["Retry-After"] == "1"
        assert third.json["error"]["code"] == "server_busy"
        assert send(slow, "GET", "/health").status == 200
        assert first.result().status == second.result().status == 200


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_leaves_frees_its_session(
    slow: LlmServer, log: list[str], stream: bool
) -> None:
    connection = raw(slow, request_bytes(TEXT, **LONG, stream=stream))
    wait_for(lambda: pool_of(slow).n_idle == 0)
    if stream:
        assert b"200 OK" in connection.recv(1000)
    connection.close()
    began = time.monotonic()
    wait_for(lambda: pool_of(slow).n_idle == 1)
    assert time.monotonic() - began < 0.5
    assert post(slow, TEXT, prompt="a", max_tokens=1).status == 200
    wait_for(lambda: len(log) == 2)
    assert (" 200, " if stream else " 499, ") in log[0] and log[0].endswith("the client left")
    assert " tokens (0 cached), " in log[0]


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_leaves_stops_the_reading_of_its_prompt(
    files: tuple[Path, Path], stream: bool
) -> None:
    with LlmServer(runners(files, 1, BlockedRunner), port=0, log=lambda _: None) as server:
        connection = raw(server, request_bytes(TEXT, **LONG, stream=stream))
        wait_for(lambda: pool_of(server).n_idle == 0)
        if stream:  # the answer's head comes before its first token
            assert connection.recv(1000).startswith(b"HTTP/1.1 200 OK")
        connection.close()
        wait_for(lambda: pool_of(server).n_idle == 1)


def test_a_client_that_leaves_while_it_waits_gives_its_place_up(slow: LlmServer) -> None:
    first = raw(slow, request_bytes(TEXT, **LONG))
    wait_for(lambda: pool_of(slow).n_idle == 0)
    second = raw(slow, request_bytes(TEXT, **LONG))
    wait_for(lambda: len(pool_of(slow)._waiting) == 1)
    second.close()
    wait_for(lambda: not pool_of(slow)._waiting)
    first.close()
    wait_for(lambda: pool_of(slow).n_idle == 1)


def test_a_client_that_does_not_read_frees_its_session(
    files: tuple[Path, Path], log: list[str]
) -> None:
    with LlmServer(runners(files, 1), port=0, limits=QUICK, log=log.append) as server:
        server._listener.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", server.port))
        with connection:
            many = {"prompt": ["a"] * 100, "stream": True}
            connection.sendall(request_bytes(TEXT, **many) + request_bytes(TEXT, prompt="a"))
            wait_for(lambda: pool_of(server).n_idle == 0)
            wait_for(lambda: len(log) == 1, QUICK.write_seconds + 5)
            assert pool_of(server).n_idle == 1
            answer = received(connection)
        # The next request of the connection is not answered in the middle of a cut stream.
        assert answer.startswith(b"HTTP/1.1 200 OK") and answer.count(b"HTTP/1.1") == 1
        assert b"[DONE]" not in answer
        assert post(server, TEXT, prompt="a", max_tokens=1).status == 200


@pytest.mark.parametrize(
    ("data", "answer"),
    [
        (b"", b""),
        (b"POST /v1/compl", b""),
        (b"GET /health HTTP/1.1\r\nHost: local", b"HTTP/1.1 408 "),
        (request_bytes(TEXT, **LONG)[:-5], b"HTTP/1.1 408 "),
    ],
)
def test_a_client_that_sends_no_whole_request_is_let_go(
    slow: LlmServer, data: bytes, answer: bytes
) -> None:
    began = time.monotonic()
    connection = raw(slow, data)
    assert received(connection).startswith(answer)
    assert QUICK.read_seconds * 0.9 < time.monotonic() - began < 5
    assert pool_of(slow).n_idle == 1


def test_a_client_that_resets_its_connection_leaves_no_trace(
    slow: LlmServer, log: list[str]
) -> None:
    connection = raw(slow, request_bytes(TEXT, **LONG)[:-5])
    wait_for(lambda: slow._listener._open)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()
    wait_for(lambda: len(log) == 1)
    assert re.fullmatch(rf"127\.0\.0\.1 POST {TEXT} 499, [\d.]+ s, the client left", log[0])


def test_a_client_that_sends_a_byte_now_and_then_is_let_go(slow: LlmServer) -> None:
    connection = raw(slow, b"GET /health HTTP/1.1\r\nx: ")
    began = time.monotonic()
    with connection, pytest.raises(OSError):
        while time.monotonic() - began < 5:
            connection.sendall(b"a")
            time.sleep(0.05)
    assert time.monotonic() - began < 5


def test_a_connection_serves_one_request_after_the_other(files: tuple[Path, Path]) -> None:
    with LlmServer(runners(files, 1), port=0, log=lambda _: None) as server:
        one = request_bytes(TEXT, prompt="a", max_tokens=1)
        health = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        answers = received(raw(server, one + one + health))
        assert answers.count(b"HTTP/1.1 200 OK\r\n") == 3
        old = raw(server, one.replace(b"HTTP/1.1", b"HTTP/1.0").replace(b"}", b',"stream":true}'))
        old.close()


def test_a_client_of_http_1_0_gets_events_without_chunks(files: tuple[Path, Path]) -> None:
    request = request_bytes(TEXT, prompt="a", max_tokens=2, stream=True)
    with LlmServer(runners(files, 1), port=0, log=lambda _: None) as server:
        answer = received(raw(server, request.replace(b"HTTP/1.1", b"HTTP/1.0")))
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"Transfer-Encoding" not in head
    assert body.startswith(b"data: {") and body.endswith(b"data: [DONE]\n\n")


def test_connections_beyond_the_limit_are_refused(slow: LlmServer) -> None:
    idle = [raw(slow, b"") for _ in range(QUICK.connections)]
    wait_for(lambda: len(slow._listener._open) == QUICK.connections)
    assert received(raw(slow, b"")).startswith(b"HTTP/1.1 503 ")
    for connection in idle:
        connection.close()
    wait_for(lambda: not slow._listener._open)
    assert send(slow, "GET", "/health").status == 200


@pytest.mark.parametrize("stream", [True, False])
def test_the_end_of_a_server_ends_its_answers(files: tuple[Path, Path], stream: bool) -> None:
    made = runners(files, 1, SlowRunner)
    server = LlmServer(made, port=0, limits=Limits(waiting=4), log=lambda _: None)
    server.start()
    idle = raw(server, b"")
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(post, server, TEXT, **LONG, stream=stream)
        wait_for(lambda: pool_of(server).n_idle == 0)
        began = time.monotonic()
        server.stop()
        assert time.monotonic() - began < 2
        reply: Reply = running.result()
    assert received(idle) == b""
    error = reply.events[-1]["error"] if stream and reply.status == 200 else reply.json["error"]
    assert error["code"] == "server_stops"
    assert not any(thread.name.startswith("llm") for thread in threading.enumerate())
    with pytest.raises(ConnectionError):
        send(server, "GET", "/health")
