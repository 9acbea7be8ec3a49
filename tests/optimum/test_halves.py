"""dtype: logits of eager torch in float16 and bfloat16, in files for upstream's runtime."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from support.decoders import build
from support.tolerance import BF16_LAYERS, assert_near
from support.upstream_peer import Upstream
from transformers import AutoModelForCausalLM

from executorch_py.optimum import ExecuTorchModelForCausalLM

IDS, LENGTH = [5, 17, 42, 3, 9, 60, 61, 7], 24
WINDOW = 6  # of the layers: shorter than the prompt
HALVES = {"float16": (torch.float16, 5, "f16"), "bfloat16": (torch.bfloat16, 15, "bf16")}
ATTENTION: dict[str, dict[str, Any]] = {
    "written by index": {},
    "fused attention": {"attn_implementation": "custom_sdpa"},
    "fused caches": {"use_custom_kv_cache": True},
    "kernels": {"use_custom_kv_cache": True, "recipe": "portable"},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small model whose layer has a window."""
    path = tmp_path_factory.mktemp("halves")
    more = {"sliding_window": WINDOW, "eos_token_id": 299, "initializer_range": 0.1}
    model = build("Mistral", {**more, "num_hidden_layers": 1})
    with torch.no_grad():
        model.lm_head.weight /= 2  # logits below 2, where a step of bfloat16 is 2**-7
    model.save_pretrained(path)
    return path


def eager(folder: Path, dtype: torch.dtype, window: int | None = WINDOW) -> torch.Tensor:
    """The logits [1, tokens, vocabulary] of transformers."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, sliding_window=window)
    with torch.no_grad():
        logits: torch.Tensor = model.eval()(torch.tensor([IDS])).logits
    return logits


@cache
def exported(folder: Path, dtype: str, **options: Any) -> ExecuTorchModelForCausalLM:
    return ExecuTorchModelForCausalLM.from_pretrained(
        folder, export=True, max_seq_len=LENGTH, target="executorch-1.5", dtype=dtype, **options
    )


@pytest.mark.parametrize("options", ATTENTION.values(), ids=ATTENTION)
@pytest.mark.parametrize("name", HALVES)
def test_logits_are_those_of_eager_torch_in_the_dtype(
    folder: Path, name: str, options: dict[str, Any]
) -> None:
    half, number, kind = HALVES[name]
    wanted = eager(folder, half)
    assert not torch.allclose(wanted, eager(folder, half, window=None), *BF16_LAYERS)
    found = exported(folder, name, **options)
    assert_near(found(torch.tensor([IDS])), wanted, BF16_LAYERS)
    # A prompt in pieces, so that keys come from the caches.
    session = found.session
    rows = [session.logits(IDS[:3]), session.logits(IDS[3:])]
    assert_near(torch.from_numpy(rows[1]), wanted[0, 3:].to(torch.float32), BF16_LAYERS)
    new = found.generate(IDS, max_seq_len=LENGTH)
    assert len(new) == LENGTH - len(IDS) and new[0] == int(rows[1][-1].argmax())
    constants = {
        name: found.program.load_method(name).execute([])[0]
        for name in ("get_dtype", "get_cache_kind")
    }
    assert constants == {"get_dtype": number, "get_cache_kind": kind}


def test_a_file_in_halves_has_half_the_weights_and_caches(folder: Path) -> None:
    sizes = [
        exported(folder, dtype, use_custom_kv_cache=True).program._program.nbytes
        for dtype in ("float16", "float32")
    ]
    assert sizes[0] < 0.62 * sizes[1]


@pytest.mark.interop
@pytest.mark.parametrize("options", [*ATTENTION.values()][1:], ids=[*ATTENTION][1:])
@pytest.mark.parametrize("name", HALVES)
def test_upstream_computes_the_same_logits_in_halves(
    folder: Path, tmp_path: Path, upstream: Upstream, name: str, options: dict[str, Any]
) -> None:
    found = exported(folder, name, **options)
    (tmp_path / "model.pte").write_bytes(found.program._program.buffer())
    torch.save([[torch.tensor([IDS]), torch.arange(len(IDS))]], tmp_path / "model.inputs.pt")
    upstream.ask("run_decoder", "model", tmp_path)
    ((out,),) = torch.load(tmp_path / "model.pt")
    assert out.dtype is HALVES[name][0]
    assert_near(out, found(torch.tensor([IDS])), BF16_LAYERS)
