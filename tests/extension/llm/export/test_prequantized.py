"""Checkpoints that are quantized already: the logits of the same codes made at export."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from support import llama_checkpoints
from support.llama_checkpoints import PROMPT
from support.tolerance import F32_LAYERS, assert_near

from executorch_py.extension.llm.checkpoint import CheckpointError
from executorch_py.extension.llm.export.config.read_config import ConfigError, read_config
from executorch_py.extension.llm.export.export_llm import export_llm
from executorch_py.extension.llm.export.standard_quantized import WeightKind, quantize_rows
from executorch_py.runtime import Runtime

FIXED = ["export.max_seq_length=8", "export.max_context_length=24"]
CACHE = ["model.use_kv_cache=true", "model.use_sdpa_with_kv_cache=true"]
XNNPACK = ["backend.xnnpack.enabled=true"]
OWN = ["export.target=executorch_py"]
PREQ = ["base.preq_mode=8da4w", "base.preq_group_size=32"]
AT_EXPORT = [
    "quantization.qmode=8da4w",
    "quantization.group_size=32",
    "quantization.use_hqq=false",
    "quantization.embedding_quantize=8,0",
]


def write_quantized(folder: Path, **changes: Any) -> list[str]:
    """The checkpoint of llama_checkpoints, with codes and scales of every matrix."""
    texts = llama_checkpoints.write(folder)
    made: dict[str, torch.Tensor] = {}
    for name, tensor in llama_checkpoints.tensors().items():
        if tensor.dim() == 1:
            made[name] = tensor
            continue
        kind = WeightKind(8, 0) if name.startswith("tok_") else WeightKind(4, 32)
        codes, scales = quantize_rows(tensor, kind)
        made |= {name: codes, name.replace(".weight", ".scales"): scales}
    made |= changes
    torch.save({n: t for n, t in made.items() if t is not None}, folder / "weights.pth")
    return texts


def logits(texts: list[str], *more: str) -> torch.Tensor:
    program = export_llm(read_config(None, [*texts, *FIXED, *CACHE, *more]))
    method = Runtime.get().load_program(program.buffer).load_method("forward")
    result: torch.Tensor = method.execute([torch.tensor([PROMPT]), torch.tensor([0])])[0]
    return result


@pytest.mark.parametrize("target", [XNNPACK, OWN], ids=["XNNPACK", "own"])
def test_codes_of_a_checkpoint_are_kept(target: list[str], tmp_path: Path) -> None:
    wanted = logits(llama_checkpoints.write(tmp_path), *target, *AT_EXPORT)
    assert_near(logits(write_quantized(tmp_path), *target, *PREQ), wanted, F32_LAYERS)


def test_a_last_layer_of_8_bits(tmp_path: Path) -> None:
    codes, scales = quantize_rows(llama_checkpoints.tensors()["output.weight"], WeightKind(8, 0))
    texts = write_quantized(tmp_path, **{"output.weight": codes, "output.scales": scales})
    wanted = logits(texts, *OWN, "base.preq_mode=8da4w_output_8da8w")
    found = logits(texts, *XNNPACK, "base.preq_mode=8da4w_output_8da8w")
    assert_near(found, wanted, F32_LAYERS)


def test_rotated_inputs_of_w2_undo_rotated_weights(tmp_path: Path) -> None:
    from executorch_py.extension.llm.custom_ops import custom_ops as custom_ops

    texts = llama_checkpoints.write(tmp_path)
    wanted = logits(texts)
    tensors = llama_checkpoints.tensors()
    for name in tensors:
        if name.endswith(".w2.weight"):
            tensors[name] = torch.ops.llama.fast_hadamard_transform(tensors[name].contiguous())
    torch.save(tensors, tmp_path / "weights.pth")
    assert_near(logits(texts, "quantization.use_spin_quant=native"), wanted, F32_LAYERS)


QAT = [*PREQ, "quantization.use_qat=true", "base.use_lora=4"]
LAYERS = ("layers.0.attention.wq", "layers.1.attention.wk", "layers.1.feed_forward.w2", "output")


def matrices() -> dict[str, torch.Tensor]:
    """A and B of each layer in Meta's order of rows, bfloat16 as in its releases."""
    generator = torch.Generator().manual_seed(2)
    made = {}
    for layer in LAYERS:
        rows, columns = llama_checkpoints.tensors()[f"{layer}.weight"].shape
        for name, shape in {"A": (4, columns), "B": (rows, 4)}.items():
            random = torch.randn(*shape, generator=generator) / 8
            made[f"{layer}.adaptor.{name}.weight"] = random.to(torch.bfloat16)
    return made


def merged() -> dict[str, torch.Tensor]:
    """The weights as their codes say them, with the adapters added."""
    made = {}
    for name, tensor in llama_checkpoints.tensors().items():
        made[name] = tensor
        if tensor.dim() > 1:
            kind = WeightKind(8, 0) if name.startswith("tok_") else WeightKind(4, 32)
            codes, scales = quantize_rows(tensor, kind)
            group = scales.to(torch.bfloat16).float().reshape(len(codes), -1, 1)
            made[name] = (codes.reshape(*group.shape[:2], -1) * group).reshape(tensor.shape)
    pairs = matrices()
    for layer in LAYERS:
        b, a = (pairs[f"{layer}.adaptor.{name}.weight"].float() for name in "BA")
        made[f"{layer}.weight"] = made[f"{layer}.weight"] + 2 * b @ a
    return made


@pytest.mark.parametrize("target", [XNNPACK, OWN], ids=["XNNPACK", "own"])
def test_adapters_of_a_quantized_checkpoint_are_added(target: list[str], tmp_path: Path) -> None:
    found = logits(write_quantized(tmp_path, **matrices()), *target, *QAT)
    texts = llama_checkpoints.write(tmp_path)
    torch.save(merged(), tmp_path / "weights.pth")
    wanted = logits(texts)  # products of floats: inputs have no 8 bits
    plain = logits(write_quantized(tmp_path), *target, *PREQ)
    assert (found - wanted).norm() < 0.02 * wanted.norm()
    assert (found - plain).norm() > 0.2 * plain.norm()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, r"expected matrices of adapters .* \(base.use_lora\), got none"),
        (
            {"output.adaptor.A.weight": torch.ones(4, 64)},
            r"output.adaptor.B.weight: expected a matrix \[300, 4\] .* got none",
        ),
        (
            matrices() | {"output.adaptor.A.weight": torch.ones(8, 64)},
            r"output.adaptor.A.weight: expected floats of shape \[4, 64\] .* shape \[8, 64\]",
        ),
    ],
)
def test_adapters_of_a_quantized_checkpoint_that_do_not_fit_are_refused(
    changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(CheckpointError, match=message):
        logits(write_quantized(tmp_path, **changes), *QAT)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"x.weight": torch.ones(2), "x.scales": torch.ones(2)},
            "x: expected a layer of the model",
        ),
        (
            {"output.scales": torch.ones(300, 1)},
            r"output.scales: expected \[300, 2\] for groups of 32, got \[300, 1\]",
        ),
        ({"output.scales": torch.full((300, 2), torch.nan)}, "output.scales: expected finite"),
        (
            {"output.weight": torch.full((300, 64), 9, dtype=torch.int8)},
            "output.weight: expected codes of 4 bits, got '9 to 9'",
        ),
        ({"output.weight": torch.ones(300, 64)}, "output.weight: expected int8 of shape"),
        ({"norm.weight": None}, r"expected tensors \['norm.weight'\]"),
    ],
)
def test_a_quantized_checkpoint_that_does_not_fit_is_refused(
    changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(CheckpointError, match=message):
        logits(write_quantized(tmp_path, **changes), *PREQ)


def test_a_float_checkpoint_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="expected scales of quantized layers"):
        logits(llama_checkpoints.write(tmp_path), *PREQ)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["base.preq_group_size=64"], "preq_group_size: expected base.preq_mode beside it"),
        ([*PREQ, "quantization.qmode=8da4w"], "qmode: expected none beside base.preq_mode"),
        ([*PREQ, "base.preq_embedding_quantize=4,32"], "expected 8 bits, got 4"),
        (["quantization.use_spin_quant=cuda"], "'cuda' is not supported: supported is native"),
        ([*QAT, "quantization.use_spin_quant=native"], "expected one of it and .*use_spin_quant"),
    ],
)
def test_keys_that_contradict_are_refused(texts: list[str], message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        logits(llama_checkpoints.write(tmp_path), *texts)
