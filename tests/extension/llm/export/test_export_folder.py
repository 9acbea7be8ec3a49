"""Folders of transformers as programs: weights of every dtype, tied tables, wrong folders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from support.tolerance import F32_LAYERS, assert_near

from executorch_py.extension.llm.checkpoint import CheckpointError
from executorch_py.extension.llm.export import export_folder
from executorch_py.runtime import Runtime

WEIGHTS = "model.safetensors"


def saved(folder: Path, dtype: torch.dtype = torch.float32, **more: Any) -> Any:
    """A small random Llama of this dtype, which is also in the folder."""
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=1,
        num_attention_heads=4,
        vocab_size=3000,
        **more,
    )
    model = transformers.LlamaForCausalLM(config).eval().to(dtype)
    model.save_pretrained(folder)
    return model


def logits_of(program: Any, ids: torch.Tensor) -> torch.Tensor:
    method = Runtime.get().load_program(program.buffer).load_method("forward")
    result: torch.Tensor = method.execute([ids, torch.tensor([0])])[0]
    return result


@pytest.mark.parametrize("tied", [False, True], ids=["two tables", "one table"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_a_folder_gives_the_logits_of_its_model_in_f32(
    tmp_path: Path, dtype: torch.dtype, tied: bool
) -> None:
    model = saved(tmp_path, dtype, tie_word_embeddings=tied).to(torch.float32)
    ids = torch.tensor([[5, 7, 2999]])
    with torch.no_grad():
        wanted = model(ids, use_cache=False).logits[:, -1]
    program = export_folder(tmp_path, capacity=16, group=None)
    assert_near(logits_of(program, ids), wanted, F32_LAYERS)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_a_float_table_that_two_layers_share_is_in_the_file_once(
    tmp_path: Path, dtype: torch.dtype
) -> None:
    saved(tmp_path, dtype, tie_word_embeddings=True)
    table_bytes = 3000 * 64 * 4
    assert len(export_folder(tmp_path, capacity=16, group=None).buffer) < 2 * table_bytes


def test_a_missing_tensor_is_named(tmp_path: Path) -> None:
    saved(tmp_path)
    tensors = load_file(tmp_path / WEIGHTS)
    del tensors["model.norm.weight"]
    save_file(tensors, tmp_path / WEIGHTS)
    with pytest.raises(CheckpointError, match=r"expected tensors \['model\.norm\.weight'\]"):
        export_folder(tmp_path)


def test_a_tensor_of_another_shape_is_named_with_both_shapes(tmp_path: Path) -> None:
    saved(tmp_path)
    tensors = load_file(tmp_path / WEIGHTS)
    tensors["model.norm.weight"] = torch.ones(65)
    save_file(tensors, tmp_path / WEIGHTS)
    with pytest.raises(CheckpointError, match=r"norm\.weight': expected shape \[64\], got \[65\]"):
        export_folder(tmp_path)


def test_a_capacity_of_too_few_positions_is_refused(tmp_path: Path) -> None:
    saved(tmp_path)
    with pytest.raises(ValueError, match="capacity: expected 4 or more, got 3"):
        export_folder(tmp_path, capacity=3)


def test_a_tensor_that_the_model_does_not_use_is_reported(tmp_path: Path) -> None:
    saved(tmp_path)
    tensors = load_file(tmp_path / WEIGHTS)
    tensors["vision.proj.weight"] = torch.ones(3)
    save_file(tensors, tmp_path / WEIGHTS)
    lines: list[str] = []
    export_folder(tmp_path, capacity=16, group=None, report=lines.append)
    assert "not used: ['vision.proj.weight']" in lines


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("group", [32, None], ids=["4 bits", "f32"])
@pytest.mark.parametrize(
    "name",
    [
        "model.layers.0.mlp.up_proj.weight",
        "model.layers.0.mlp.up_proj.bias",
        "model.norm.weight",
    ],
)
def test_weights_that_are_not_finite_are_refused_by_name(
    tmp_path: Path, name: str, group: int | None, bad: float
) -> None:
    saved(tmp_path, mlp_bias=True)
    tensors = load_file(tmp_path / WEIGHTS)
    tensors[name].reshape(-1)[5] = bad
    save_file(tensors, tmp_path / WEIGHTS)
    with pytest.raises(ValueError, match=f"{name}: expected finite numbers, got NaN or infinity"):
        export_folder(tmp_path, capacity=16, group=group)
