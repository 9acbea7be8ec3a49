"""Decoders of the Llama family: upstream runs programs of our export_llm, and we run upstream's."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from support import lfm2_checkpoints, llama_checkpoints
from support.llama_checkpoints import PROMPT, steps
from support.paths import UPSTREAM_PYTHON
from support.tolerance import F32_LAYERS, assert_near
from support.upstream_peer import Upstream

from executorch_py.extension.llm.export.config.read_config import read_config
from executorch_py.extension.llm.export.export_llm import export_llm
from executorch_py.extension.llm.session.speed_beside import compare
from executorch_py.runtime import Runtime

SIZES = ["export.max_seq_length=8", "export.max_context_length=24"]
CACHE = ["model.use_kv_cache=true"]
OPERATORS = [*CACHE, "model.use_sdpa_with_kv_cache=true"]
QUANTIZED = [
    *OPERATORS,
    "backend.xnnpack.enabled=true",
    "quantization.qmode=8da4w",
    "quantization.group_size=32",
]
CASES = {
    "tensors": CACHE,
    "operators": OPERATORS,
    "windows": [*OPERATORS, "model.local_global_attention=[0,3]"],
    "int8 caches": [*OPERATORS, "model.quantize_kv_cache=true"],
    "int8 windows": [
        *OPERATORS,
        "model.quantize_kv_cache=true",
        "model.local_global_attention=[0,3]",
    ],
    "sink": [*OPERATORS, "model.use_attention_sink='2,3'"],
    "8da4w": [*QUANTIZED, "quantization.embedding_quantize='4,32'"],
    "8da4w, all of XNNPACK": [*QUANTIZED, "backend.xnnpack.extended_ops=true"],
}
PIECES = (2, 4)


LFM2 = {
    "operators": OPERATORS,
    "XNNPACK": [*OPERATORS, "backend.xnnpack.enabled=true", "backend.xnnpack.extended_ops=true"],
    "8da4w": QUANTIZED,
}


def call_of(path: Path) -> Callable[[list[int], int], torch.Tensor]:
    method = Runtime.get().load_program(path).load_method("forward")
    return lambda ids, at: method.execute([torch.tensor([ids]), torch.tensor([at])])[0]


def tokens_of(logits: list[torch.Tensor]) -> list[int]:
    return [int(step.argmax()) for step in logits]


def assert_same_text(written: list[str], options: list[str], upstream: Upstream, at: Path) -> None:
    """Both runtimes have our file's tokens, and its logits unless rows are quantized."""
    config = read_config(None, [*written, *SIZES, *options])
    export_llm(config).save(str(at / "ours.pte"))
    (at / "ours.json").write_text(json.dumps(PIECES))
    upstream.ask("generate", "ours", at)
    theirs = torch.load(at / "ours.pt")
    ours = list(steps(call_of(at / "ours.pte"), PIECES))
    assert tokens_of(ours) == tokens_of(theirs)
    if "quantization.qmode=8da4w" not in options:
        assert_near(ours, theirs, F32_LAYERS)


@pytest.mark.parametrize("name", CASES)
def test_upstream_generates_our_tokens_from_our_file(
    name: str, upstream: Upstream, tmp_path: Path
) -> None:
    assert_same_text(llama_checkpoints.write(tmp_path), CASES[name], upstream, tmp_path)


@pytest.mark.parametrize("name", LFM2)
def test_upstream_generates_our_tokens_of_short_convolutions(
    name: str, upstream: Upstream, tmp_path: Path
) -> None:
    assert_same_text(lfm2_checkpoints.write(tmp_path), LFM2[name], upstream, tmp_path)


def test_upstream_s_file_of_short_convolutions_has_the_logits_of_ours(
    upstream: Upstream, tmp_path: Path
) -> None:
    places = lfm2_checkpoints.write(tmp_path)
    torch.save(lfm2_checkpoints.converted(lfm2_checkpoints.build()), tmp_path / "weights.pth")
    export_llm(read_config(None, [*places, *SIZES, *OPERATORS])).save(str(tmp_path / "ours.pte"))
    texts = ["base.model_class=lfm2_350m", places[0], f"base.checkpoint={tmp_path}/weights.pth"]
    (tmp_path / "theirs.json").write_text(json.dumps([*texts, *SIZES, *OPERATORS]))
    upstream.ask("export_llm", "theirs", tmp_path)
    ours, theirs = (list(steps(call_of(tmp_path / f"{n}.pte"), PIECES)) for n in ("ours", "theirs"))
    assert_near(ours, theirs, F32_LAYERS)


def test_we_generate_the_tokens_of_upstream_s_runtime_from_its_file(
    upstream: Upstream, tmp_path: Path
) -> None:
    places = llama_checkpoints.write(tmp_path, {**llama_checkpoints.PARAMS, "n_layers": 1})
    texts = [*places, *SIZES, *CASES["8da4w"]]
    (tmp_path / "theirs.json").write_text(json.dumps(["base.model_class=llama3_2", *texts]))
    upstream.ask("export_llm", "theirs", tmp_path)
    (tmp_path / "theirs.json").write_text(json.dumps(PIECES))
    upstream.ask("generate", "theirs", tmp_path)
    theirs = torch.load(tmp_path / "theirs.pt")
    ours = list(steps(call_of(tmp_path / "theirs.pte"), PIECES))
    assert len(ours) > len(PROMPT) and tokens_of(ours) == tokens_of(theirs)


def test_the_bench_times_both_runtimes_with_one_file(tmp_path: Path) -> None:
    config = read_config(None, [*llama_checkpoints.write(tmp_path), *SIZES, *OPERATORS])
    path = tmp_path / "ours.pte"
    export_llm(config).save(str(path))
    pythons = {"upstream": str(UPSTREAM_PYTHON)}
    found = compare(path, {"upstream": path}, pythons=pythons, prompt=12, steps=6, rounds=1)
    assert list(found.sides) == ["ours", "upstream"]
    assert all(min(side.first, side.prefill, side.decode) > 0 for side in found.sides.values())
