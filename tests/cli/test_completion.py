"""Completion scripts: commands, options, values and files, as each shell reads them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from executorch_py.cli.completion import completion
from executorch_py.cli.main import build_parser, main


def complete(folder: Path, *words: str) -> set[str]:
    """Answers of bash for the last of some words."""
    script = completion(build_parser(), "bash")
    array = " ".join(f"'{word}'" for word in ("executorch_py", *words))
    asked = f"COMP_WORDS=({array}); COMP_CWORD={len(words)}; _executorch_py\n"
    done = subprocess.run(
        ["bash", "--norc", "-c", f'{script}\n{asked}printf "%s\\n" "${{COMPREPLY[@]}}"'],
        capture_output=True,
        text=True,
        cwd=folder,
        check=True,
        timeout=60,
    )
    assert not done.stderr
    return set(done.stdout.split())


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_completes_commands_options_values_and_files(tmp_path: Path) -> None:
    (tmp_path / "model.pte").write_bytes(b"")
    assert {"run", "inspect", "doctor", "export", "completion"} <= complete(tmp_path, "")
    assert complete(tmp_path, "in") == {"inspect"}
    assert complete(tmp_path, "run", "--sh") == {"--shape"}
    assert complete(tmp_path, "run", "mo") == {"model.pte"}
    assert complete(tmp_path, "export", "net:Model", "--backend", "") == {"portable", "xnnpack"}
    assert complete(tmp_path, "completion", "z") == {"zsh"}
    assert complete(tmp_path, "inspect", "--js") == {"--json"}
    actions = {"bench", "chat", "export", "perplexity", "run", "serve", "tokenize"}
    assert complete(tmp_path, "llm", "") == actions
    assert complete(tmp_path, "llm", "export", "--pre") == {"--prefill"}
    assert complete(tmp_path, "llm", "export", "model", "--cache", "") == {"f32", "f16", "i8"}
    assert complete(tmp_path, "llm", "export", "mo") == {"model.pte"}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_has_every_option_of_every_command(
    shell: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert script.startswith("# ") and "executorch_py completion" in script.splitlines()[0]
    for option in ("--shape", "--quantize", "--no-simd", "--example", "--json"):
        assert option.lstrip("-") in script
    if shutil.which(shell) is not None:
        subprocess.run([shell, "-n"], input=script, text=True, check=True, timeout=60)


def test_an_unknown_shell_is_a_usage_error() -> None:
    with pytest.raises(SystemExit) as caught:
        main(["completion", "csh"])
    assert caught.value.code == 2
