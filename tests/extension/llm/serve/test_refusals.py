"""Requests that are refused: by name, with the status that HTTP has for it, and nothing breaks."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.llm_server import (
    JSON,
    post,
    raw,
    received,
    request_bytes,
    runners,
    send,
)

from executorch_py.extension.llm.serve import LlmServer

TEXT = "/v1/completions"
CHAT = "/v1/chat/completions"
N_DAMAGED = 400


@pytest.fixture(scope="module")
def server(files: tuple[Path, Path]) -> Iterator[LlmServer]:
    with LlmServer(runners(files, 1), model="tiny", port=0, log=lambda _: None) as server:
        yield server


FIELDS: list[tuple[str, dict[str, Any], str, str]] = [
    (TEXT, {}, "prompt", "expected a string, a list of strings, or ids of tokens, got null"),
    (TEXT, {"prompt": []}, "prompt", "expected one prompt or more, got an empty list"),
    (TEXT, {"prompt": ["a", 5]}, "prompt[1]", "expected a string, got int"),
    (TEXT, {"prompt": [5, "a"]}, "prompt[1]", "expected a whole number, got string"),
    (TEXT, {"prompt": [5, -1]}, "prompt[1]", "expected a number from 0 to 2147483647, got -1"),
    (TEXT, {"prompt": [300]}, "prompt", "expected ids from 0 to 299, got 300"),
    (TEXT, {"prompt": ""}, "prompt", "expected 1 token or more, got none"),
    (TEXT, {"prompt": "word " * 99}, "prompt", "expected at most 48 tokens, the size of the"),
    (TEXT, {"prompt": "word " * 9999}, "prompt", "expected at most 12288 bytes, for the context"),
    (TEXT, {"prompt": "\ud800"}, "prompt", "expected whole characters, got half a surrogate"),
    (TEXT, {"prompt": ["a"] * 1000}, "prompt", "expected at most 128 prompts, got 1000"),
    (TEXT, {"prompt": "a", "max_tokens": True}, "max_tokens", "a whole number, got bool"),
    (TEXT, {"prompt": "a", "max_tokens": -1}, "max_tokens", "from 0 to 2147483647, got -1"),
    (TEXT, {"prompt": "a", "max_tokens": 10**30}, "max_tokens", "got a longer one"),
    (TEXT, {"prompt": "a", "temperature": "1"}, "temperature", "a number, got string"),
    (TEXT, {"prompt": "a", "temperature": -1}, "temperature", "0 or more, got -1"),
    (TEXT, {"prompt": "a", "temperature": 10**400}, "temperature", "expected a finite number"),
    (TEXT, {"prompt": "a", "top_p": 1.5}, "top_p", "expected a number from 0 to 1, got 1.5"),
    (TEXT, {"prompt": "a", "seed": 2**64}, "seed", "expected a number from -1 to"),
    (TEXT, {"prompt": "a", "stop": [1]}, "stop[0]", "expected a string, got int"),
    (TEXT, {"prompt": "a", "stop": {}}, "stop", "a string or a list of strings, got object"),
    (TEXT, {"prompt": "a", "stream": 1}, "stream", "expected true or false, got int"),
    (TEXT, {"prompt": "a", "stream_options": {"x": 1}}, "stream_options.x", "an unknown one"),
    (TEXT, {"prompt": "a", "logit_bias": {"x": 1}}, "logit_bias", "expected ids of tokens"),
    (TEXT, {"prompt": "a", "logit_bias": {"1000": 1}}, "logit_bias", "expected ids below 300"),
    (TEXT, {"prompt": "a", "n": 2}, "n", "expected 1, as other values are not supported, got 2"),
    (TEXT, {"prompt": "a", "tools": [{}]}, "tools", "expected [], as other values are not"),
    (TEXT, {"prompt": "a", "grammar": "root"}, "grammar", "not supported, got 'root'"),
    (TEXT, {"prompt": "a", "echo": True}, "echo", "expected false, as other values are not"),
    (TEXT, {"prompt": "a", "frequenzy": 1}, "frequenzy", "expected a field that this endpoint"),
    ("/completion", {"prompt": ["a", "b"]}, "prompt", "expected one prompt, got 2"),
    (CHAT, {}, "messages", "expected one message or more, got none"),
    (CHAT, {"messages": "hello"}, "messages", "expected a list, got string"),
    (CHAT, {"messages": ["hello"]}, "messages[0]", "expected an object, got string"),
    (CHAT, {"messages": [{}]}, "messages[0].role", "expected a string, got null"),
    (CHAT, {"messages": [{"role": "robot"}]}, "messages[0].role", "expected one of system"),
    (
        CHAT,
        {"messages": [{"role": "user", "content": 5}]},
        "messages[0].content",
        "expected a string, got int",
    ),
    (
        CHAT,
        {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
        "messages[0].content[0].type",
        "expected 'text', the only kind supported, got 'image_url'",
    ),
    (
        CHAT,
        {"messages": [{"role": "user", "content": ""}], "response_format": {"type": "json"}},
        "response_format",
        "expected {'type': 'text'}, as other values are not supported, got object",
    ),
    ("/tokenize", {}, "content", "expected a string, got null"),
    ("/tokenize", {"content": "a", "with_pieces": 1}, "with_pieces", "true or false, got int"),
    ("/detokenize", {"tokens": "a"}, "tokens", "expected a list of ids, got string"),
    ("/detokenize", {"tokens": [1, 300]}, "tokens[1]", "expected an id from 0 to 299, got 300"),
]


@pytest.mark.parametrize(("path", "fields", "param", "words"), FIELDS)
def test_a_wrong_field_is_refused_by_its_name(
    server: LlmServer, path: str, fields: dict[str, Any], param: str, words: str
) -> None:
    reply = post(server, path, **fields)
    error = reply.json["error"]
    assert reply.status == 400 and error["type"] == "invalid_request_error"
    assert error["param"] == param and words in error["message"]
    assert error["message"].strip("'").startswith(f"{param}")


def test_fields_that_change_nothing_are_accepted(server: LlmServer) -> None:
    neutral = {"n": 1, "tools": [], "tool_choice": "auto", "response_format": {"type": "text"}}
    caller = {"user": "me", "metadata": {"a": "b"}, "store": False, "model": "gpt", "stop": None}
    other = {"min_keep": 0, "mirostat": 0.0, "frequency_penalty": None, "stop": "", "seed": -1}
    fields = {**neutral, **caller, **other}
    assert post(server, TEXT, prompt="a", max_tokens=1, **fields).status == 200


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "expected JSON"),
        (b"{", "expected JSON"),
        (b"[1]", "expected an object, got list"),
        (b'{"prompt": NaN}', "NaN is no JSON"),
        (b'{"prompt": "\xff"}', "expected UTF-8, got the byte 0xff at 12"),
        (b'{"prompt":' + b"[" * 10**6, "nested too deeply"),
        (b'{"prompt":' * 10**5, "nested too deeply"),
        (b'{"prompt": ' + b"9" * 10**5 + b"}", "expected JSON"),
    ],
)
def test_a_body_that_is_no_object_is_refused(server: LlmServer, body: bytes, words: str) -> None:
    reply = send(server, "POST", TEXT, body)
    assert reply.status == 400 and words in reply.json["error"]["message"]


def test_damaged_bodies_are_answered_or_refused(server: LlmServer) -> None:
    choose = random.Random(5)
    whole = [
        {"prompt": "a b", "max_tokens": 3, "temperature": 0.5, "stop": ["x"], "stream": False},
        {"prompt": [5, 6], "max_tokens": 3, "logit_bias": {"7": 2}, "stream": True, "seed": 3},
    ]
    found = set()
    for i in range(N_DAMAGED):
        body = bytearray(json.dumps(whole[i % 2]).encode())
        for _ in range(choose.randint(1, 3)):
            at = choose.randrange(len(body))
            kind = choose.randrange(3)
            piece = choose.choice([b"[", b"{", b'"', b"\xff", b"-1", b"1e999", b"null", b"\\u0"])
            body[at : at + (kind > 0)] = piece if kind < 2 else b""
        found.add(send(server, "POST", TEXT, bytes(body)).status)
    assert found == {200, 400}
    assert send(server, "GET", "/health").status == 200


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH", "OPTIONS", "BREW"])
def test_another_method_is_refused_with_those_that_are_allowed(
    server: LlmServer, method: str
) -> None:
    reply = send(server, method, TEXT)
    assert reply.status == 405 and reply.headers["Allow"] == "POST"
    reply = send(server, "POST", "/health", {})
    assert reply.status == 405 and reply.headers["Allow"] == "GET, HEAD"


def test_an_unknown_path_is_refused_with_those_that_are_known(server: LlmServer) -> None:
    for path in ("/", "/v1/embeddings", "/../etc/passwd", "/v1/completions/", "*"):
        reply = send(server, "POST", path, {})
        assert reply.status == 404 and "/v1/chat/completions" in reply.json["error"]["message"]


def test_a_long_body_is_refused_before_it_is_sent(server: LlmServer) -> None:
    for length in (2**30, 10**30):
        head = f"POST {TEXT} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n"
        for more in ("", "Expect: 100-continue\r\n"):
            connection = raw(server, f"{head}{more}\r\n".encode())
            connection.shutdown(1)
            assert received(connection).startswith(b"HTTP/1.1 413 ")


def test_a_client_that_asks_first_is_told_to_go_on(server: LlmServer) -> None:
    head, _, body = request_bytes(TEXT, prompt="a", max_tokens=1).partition(b"\r\n\r\n")
    more = b"\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n"
    connection = raw(server, head + more)
    assert connection.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
    connection.sendall(body)
    assert received(connection).startswith(b"HTTP/1.1 200 OK\r\n")


def test_a_body_without_a_known_length_or_type_is_refused(server: LlmServer) -> None:
    start = f"POST {TEXT} HTTP/1.1\r\nHost: localhost\r\n".encode()
    for head, status in [
        (b"", 411),
        (b"Transfer-Encoding: chunked\r\n", 411),
        (b"Content-Length: 2\r\nContent-Length: 3\r\n", 400),
        (b"Content-Length: -2\r\n", 400),
        (b"Content-Length: 1_0\r\n", 400),
        (b"Content-Length: 2\r\nContent-Type: text/plain\r\n", 415),
    ]:
        connection = raw(server, start + head + b"\r\n{}")
        connection.shutdown(1)
        assert received(connection).startswith(f"HTTP/1.1 {status} ".encode())
    charset = {"Content-Type": "application/json; charset=utf-8"}
    assert send(server, "POST", TEXT, {"prompt": "a", "max_tokens": 1}, charset).status == 200


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"hello\r\n\r\n", 400),
        (b"GET / HTTP/9.9\r\n\r\n", 505),
        (b"GET /" + b"a" * 10**5 + b" HTTP/1.1\r\n\r\n", 414),
        (b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 1000 + b"\r\n", 431),
        (b"GET / HTTP/1.1\r\na: " + b"a" * 10**5 + b"\r\n\r\n", 431),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),  # TLS
    ],
)
def test_a_head_that_is_no_http_is_refused(server: LlmServer, data: bytes, status: int) -> None:
    connection = raw(server, data)
    connection.shutdown(1)
    answer = received(connection)
    assert answer.startswith(f"HTTP/1.1 {status} ".encode())
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["message"]


def test_pages_of_other_origins_are_refused(server: LlmServer) -> None:
    own = f"localhost:{server.port}"
    for headers, status in [
        ({"Host": own}, 200),
        ({"Host": f"127.0.0.1:{server.port}"}, 200),
        ({"Host": "[::1]:80"}, 200),
        ({"Host": own, "Origin": f"http://{own}"}, 200),
        ({"Host": "rebound.example"}, 403),
        ({"Host": "localhost.rebound.example"}, 403),
        ({"Host": "[::1"}, 403),
        ({"Host": own, "Origin": "https://page.example"}, 403),
        ({"Host": own, "Origin": f"http://localhost:{server.port + 1}"}, 403),
        ({"Host": own, "Origin": "null"}, 403),
    ]:
        reply = send(server, "POST", "/tokenize", {"content": "a"}, {**JSON, **headers})
        assert reply.status == status, headers
        assert not any(name.startswith("Access-Control") for name in reply.headers)


def test_a_key_is_needed_if_there_is_one(files: tuple[Path, Path]) -> None:
    with LlmServer(runners(files, 1), port=0, api_key="sécret", log=lambda _: None) as server:
        for key, status in [
            (None, 401),
            ("Bearer wrong", 401),
            ("Bearer sécret".encode().decode("latin-1"), 200),
            ("Basic sécret".encode().decode("latin-1"), 401),
        ]:
            headers = {} if key is None else {"Authorization": key}
            reply = send(server, "GET", "/v1/models", None, headers)
            assert reply.status == status
            assert status == 200 or reply.headers["WWW-Authenticate"] == "Bearer"
        assert send(server, "GET", "/health", None, {}).status == 200


def test_the_log_has_no_control_characters(files: tuple[Path, Path]) -> None:
    lines: list[str] = []
    with LlmServer(runners(files, 1), port=0, log=lines.append) as server:
        received(raw(server, b"GET /\x1b[2J\x07\xe2\x80\xae HTTP/1.0\r\n\r\n"))
        post(server, TEXT, prompt="a secret", max_tokens=2)
    assert len(lines) == 2 and all(line.isprintable() for line in lines)
    assert "\\x1b[2J\\x07" in lines[0] and " 404, " in lines[0]
    assert f"POST {TEXT} 200, " in lines[1] and "tokens (0 cached)" in lines[1]
    assert "secret" not in lines[1]
