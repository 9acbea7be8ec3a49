"""python -m executorch_py.optimum: the options of optimum-executorch's command."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.decoders import build

from executorch_py.optimum import ExecuTorchModelForCausalLM
from executorch_py.optimum.__main__ import main

IDS = [5, 17, 42]


def test_the_command_writes_the_file_of_from_pretrained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    build("Llama", {}).save_pretrained(tmp_path)
    command = ["export", "executorch", "--model", str(tmp_path), "--task", "text-generation"]
    command += ["--recipe", "xnnpack", "--output_dir", str(tmp_path / "out"), "--max_seq_len", "32"]
    command += ["--qlinear", "8da4w", "--qembedding", "8w", "--use_custom_sdpa"]
    assert main(command) == 0
    assert capsys.readouterr().out.startswith(f"saved {tmp_path / 'out' / 'model.pte'}: 0.1 MB")
    found = ExecuTorchModelForCausalLM.from_pretrained(tmp_path / "out")
    options = {"qlinear": "8da4w", "qembedding": "8w", "use_custom_sdpa": True}
    same = ExecuTorchModelForCausalLM.from_pretrained(tmp_path, max_seq_len=32, **options)
    assert found.program.sha256 == same.program.sha256
    assert found.generate(IDS, max_seq_len=9) == same.generate(IDS, max_seq_len=9)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--model", "none"], "--model: expected a folder of transformers, got 'none'"),
        (["--model", ".", "--qlinear", "2w"], 'qlinear: expected None or "8da4w"'),
        (["--model", ".", "--dtype", "float16"], 'dtype: expected "float32", or target='),
        (["--model", ".", "--max_seq_len", "1"], "max_seq_len: expected 4 or more, got 1"),
        (["--model", "."], "config.json"),
    ],
)
def test_a_failure_is_a_message(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    words: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["export", "executorch", "--output_dir", "out", *arguments]) == 1
    said = capsys.readouterr().err
    assert said.startswith("error: ") and words in said
    assert not (tmp_path / "out").exists()


def test_unknown_options_end_with_the_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["export", "executorch", "--model", ".", "--output_dir", "out", "--qliner", "8da4w"])
    assert "unrecognized arguments: --qliner" in capsys.readouterr().err
