"""The example et_llm_run: the text of the Python runner, without Python, here and on aarch64."""

from __future__ import annotations

import platform
import shutil
import subprocess
from pathlib import Path

import pytest
from support.c_build import build_c
from support.decoder_files import CAPACITY, OWN, own_file
from support.trained_tokenizers import of_300_words

from executorch_py.extension.llm.runner import TextRunner
from executorch_py.extension.llm.sampler import SamplingOptions
from executorch_py.extension.llm.tokenizer import Tokenizer

PROMPT = "a prompt of words, a prompt of"


@pytest.fixture(scope="module", params=OWN)
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    prepared = Tokenizer.from_bytes(of_300_words()).prepared
    folder = tmp_path_factory.mktemp("run")
    return own_file(folder, request.param, verify=6, tokenizer=bytes(prepared))


def text_of(path: Path, *arguments: str, preset: str = "asan-ubsan", emulator: str = "") -> str:
    program = build_c(preset, "et_llm_run") / "et_llm_run"
    command = [*([emulator] if emulator else []), str(program), str(path), PROMPT, *arguments]
    done = subprocess.run(command, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode().removesuffix("\n")


@pytest.mark.parametrize("temperature", [0.0, 0.9])
def test_the_text_is_that_of_the_python_runner(path: Path, temperature: float) -> None:
    sampling = SamplingOptions(temperature=temperature)
    expected = TextRunner(path).generate(PROMPT, max_new_tokens=20, sampling=sampling)
    assert text_of(path, "20", str(temperature)) == expected.text


def test_without_a_number_of_tokens_the_text_fills_the_context(path: Path) -> None:
    expected = TextRunner(path).generate(PROMPT)
    assert len(expected.tokens) > 10 and len(expected.tokens) < CAPACITY
    assert text_of(path) == expected.text


@pytest.mark.skipif(
    platform.machine() == "aarch64" or shutil.which("qemu-aarch64") is None,
    reason="qemu-aarch64 is not installed",
)
def test_aarch64_gives_the_same_text(path: Path) -> None:
    emulated = text_of(path, "20", "0.9", preset="same-bits-aarch64", emulator="qemu-aarch64")
    assert emulated == text_of(path, "20", "0.9")


def test_a_program_without_a_tokenizer_is_refused_in_words(tmp_path: Path) -> None:
    program = build_c(target="et_llm_run") / "et_llm_run"
    command = [program, own_file(tmp_path, "Llama"), "a prompt"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1 and "NotFound: " in done.stderr and "tokenizer" in done.stderr
