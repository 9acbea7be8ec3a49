"""Generation in C, without Python, beside a session: tests/c/example_generate.c."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from support.c_build import build_c
from support.decoder_files import OWN, file_with_start, own_file

from executorch_py.extension.llm.session import Session

IDS = [5, 17, 42, 3, 9, 11, 12, 44, 30, 31, 32]


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    program = build_c("release", "example_generate") / "example_generate"
    command = [str(program), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.mark.parametrize("name", OWN)
def test_c_generates_the_tokens_of_a_session(tmp_path: Path, name: str) -> None:
    path = own_file(tmp_path, name)
    done = run(path, 25, *IDS)
    assert (done.returncode, done.stderr) == (0, "")
    assert list(map(int, done.stdout.split())) == Session(path).generate(IDS, 25, stop=())


def test_c_takes_the_last_of_all_logits(tmp_path: Path) -> None:
    path = file_with_start(tmp_path / "a.pte", all_logits=True, one_token=False)
    done = run(path, 9, *IDS)
    assert list(map(int, done.stdout.split())) == Session(path).generate(IDS, 9, stop=())


def test_c_reports_an_id_beyond_the_table_and_a_full_context(tmp_path: Path) -> None:
    path = own_file(tmp_path, "Llama")
    for arguments in ((1, 300), (60, *IDS)):
        done = run(path, *arguments)
        assert done.returncode == 1 and "InvalidArgument" in done.stderr, done
