"""`executorch_py llm export`: a folder becomes a program that generates the model's own tokens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from executorch_py.cli.main import main
from executorch_py.runtime import Runtime


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder `small` with a random model, in the working folder."""
    torch.manual_seed(0)
    config = transformers.Qwen3Config(
        vocab_size=300,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        bos_token_id=1,
        eos_token_id=[2, 7],
    )
    transformers.Qwen3ForCausalLM(config).save_pretrained(tmp_path / "small")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def constants(program: Any) -> dict[str, list[Any]]:
    names = [name for name in program.method_names if name not in ("forward", "verify")]
    return {name: program.load_method(name).execute([]) for name in names}


def test_the_exported_file_generates_the_tokens_of_the_model(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["llm", "export", "small", "--float", "--context", "24", "--prefill", "8"]
    assert main(arguments) == 0
    printed = capsys.readouterr()
    assert not printed.err
    lines = printed.out.splitlines()
    assert lines[0].startswith("Qwen3ForCausalLM: ") and lines[0].endswith(" weights")
    assert lines[-4] == "caches: 24 positions of f32, 0.0 MB; calls of up to 8 tokens"
    assert lines[-3] == "fused: 2 rotary embeddings, 9 norms"
    assert lines[-2] == "tokenizer: none beside the weights"
    assert lines[-1].startswith("saved small.pte: ")

    method = Runtime.get().load_program("small.pte").load_method("forward")
    tokens = [5, 17, 42]
    new = np.array([tokens])
    while len(tokens) < 20:
        logits = method.execute([new, np.array([len(tokens) - new.shape[1]])])[0]
        tokens.append(int(logits.argmax()))
        new = np.array([tokens[-1:]])
    model = transformers.Qwen3ForCausalLM.from_pretrained(folder / "small")
    wanted = model.generate(
        torch.tensor([[5, 17, 42]]), do_sample=False, max_length=20, eos_token_id=None
    )
    assert tokens == wanted[0].tolist()


def test_the_file_says_how_it_is_to_be_called(folder: Path) -> None:
    arguments = ["llm", "export", "small", "-o", "x.pte", "--context", "24", "--cache", "i8"]
    assert main(arguments) == 0
    found = constants(Runtime.get().load_program("x.pte"))
    kind = found.pop("get_cache_kind")
    assert [str(k) for k in kind] == ["i8"]
    assert {name: [int(v) for v in values] for name, values in found.items()} == {
        "get_max_seq_len": [24],
        "get_max_context_len": [24],
        "get_n_layers": [2],
        "get_vocab_size": [300],
        "get_cache_windows": [0, 0],
        "get_cache_slots": [24, 24],
        "use_kv_cache": [1],
        "use_sdpa_with_kv_cache": [0],
        "enable_dynamic_shape": [1],
        "get_bos_id": [1],
        "get_eos_ids": [2, 7],
    }


WRONG: dict[str, tuple[list[str], str]] = {
    "no folder": (["missing"], "MODEL: expected a folder with config.json and weights or a .gguf"),
    "no config": (["."], "MODEL: expected a folder with config.json and weights"),
    "context": (["small", "--context", "3"], "--context: expected 4 or more, got 3"),
    "prefill": (["small", "--prefill", "1"], "--prefill: expected 4 or more, got 1"),
    "group": (["small", "--group", "0"], "--group: expected 1 or more, got 0"),
    "output": (["small", "-o", "x.bin"], "--output: expected a name that ends in .pte"),
}


@pytest.mark.parametrize(("arguments", "message"), WRONG.values(), ids=WRONG)
def test_a_wrong_call_is_one_line_and_leaves_no_file(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert main(["llm", "export", *arguments]) == 1
    error = capsys.readouterr().err
    assert error.startswith("executorch_py llm: ") and len(error.splitlines()) == 1
    assert message in error
    assert not list(folder.glob("*.pte"))


def test_a_damaged_folder_is_one_line_that_names_the_file(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "small" / "model.safetensors").write_bytes(b"\xff" * 100)
    assert main(["llm", "export", "small"]) == 1
    error = capsys.readouterr().err
    assert len(error.splitlines()) == 1 and "model.safetensors" in error
    assert not list(folder.glob("*.pte"))


def test_bench_prints_speed_and_memory_of_a_file(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["llm", "export", "small", "--context", "24"]) == 0
    capsys.readouterr()
    arguments = ["llm", "bench", "small.pte", "--prompt", "16", "--steps", "8", "--rounds", "2"]
    assert main(arguments) == 0
    words = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert words == ["open", "prefill", "decode", "memory"]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--prompt", "20", "--steps", "5"], "within the context of 24 tokens, got 20 and 5"),
        (["--steps", "0"], "steps: expected 1 or more, got 0"),
    ],
)
def test_bench_refuses_what_the_context_has_no_room_for(
    folder: Path, capsys: pytest.CaptureFixture[str], more: list[str], message: str
) -> None:
    assert main(["llm", "export", "small", "--context", "24"]) == 0
    assert main(["llm", "bench", "small.pte", *more]) == 1
    assert message in capsys.readouterr().err
