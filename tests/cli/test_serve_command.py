"""`executorch_py llm serve`: from its first line to the signal that ends it."""

from __future__ import annotations

import http.client
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from support.llm_server import model_files

from executorch_py.cli.main import main


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_server_in_order(tmp_path: Path, number: signal.Signals) -> None:
    program, tokenizer = model_files(tmp_path)
    command = [sys.executable, "-m", "executorch_py", "llm", "serve", str(program), "--port", "0"]
    command += ["--tokenizer", str(tokenizer), "--sessions", "1", "--alias", "a\x1bname"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8"
    )
    with process:
        assert process.stdout is not None
        said = process.stdout.readline()
        found = re.fullmatch(r"a\\x1bname is served at http://127\.0\.0\.1:(\d+); .*\n", said)
        assert found, said
        connection = http.client.HTTPConnection("127.0.0.1", int(found[1]), timeout=60)
        connection.request("GET", "/health")
        assert connection.getresponse().read() == b'{"status":"ok"}'
        process.send_signal(number)
        out, errors = process.communicate(timeout=30)
        connection.close()
    assert process.returncode == 0 and out == ""
    assert re.fullmatch(r"127\.0\.0\.1 GET /health 200, [\d.]+ s\n", errors)


def test_wrong_arguments_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for option, value, words in [
        ("--port", "70000", "expected 0 to 65535, got 70000"),
        ("--sessions", "0", "expected 1 to 1024, got 0"),
        ("--waiting", "-1", "expected 0 to 1000000, got -1"),
    ]:
        assert main(["llm", "serve", str(tmp_path / "none.pte"), option, value]) == 1
        assert f"{option}: {words}" in capsys.readouterr().err


def test_a_key_is_read_from_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program, tokenizer = model_files(tmp_path)
    (tmp_path / "key").write_text("\nsecond line")
    arguments = ["llm", "serve", str(program), "--tokenizer", str(tokenizer), "--port", "0"]
    assert main([*arguments, "--api-key-file", str(tmp_path / "key")]) == 1
    assert "api_key: expected 1 character or more, got none" in capsys.readouterr().err


def test_an_address_in_use_is_a_message(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program, tokenizer = model_files(tmp_path)
    arguments = ["llm", "serve", str(program), "--tokenizer", str(tokenizer), "--port"]
    with socket.socket() as connection:
        connection.bind(("127.0.0.1", 0))
        connection.listen()
        assert main([*arguments, str(connection.getsockname()[1])]) == 1
    assert "in use" in capsys.readouterr().err
