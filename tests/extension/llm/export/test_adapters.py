"""LoRA adapters and programs of several methods: logits of merged weights, shared caches, files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from support import llama_checkpoints
from support.llama_checkpoints import PARAMS, PROMPT
from support.tolerance import F32_LAYERS, LAYERS_STEPS, assert_near

from executorch_py.extension.llm.checkpoint import Checkpoint, CheckpointError
from executorch_py.extension.llm.export.config.read_config import ConfigError, config_of
from executorch_py.extension.llm.export.export_llm import export_llm
from executorch_py.extension.llm.model.model_args import args_of
from executorch_py.extension.llm.model.transformer import Limits, Transformer
from executorch_py.extension.llm.model.weights import load_weights
from executorch_py.runtime import Runtime

RANK, ALPHA = 4, 8
HF_PARAMS = {**PARAMS, "use_hf_rope": True}
SHAPES = {"q_proj": ("wq", 64, 64), "v_proj": ("wv", 32, 64)}
QUANTIZED = {
    "quantization": {"qmode": "8da4w", "group_size": 32},
    "backend": {"xnnpack": {"enabled": True, "extended_ops": True}},
}


def factors() -> dict[str, torch.Tensor]:
    """An adapter of the second layer, by PEFT's names."""
    generator = torch.Generator().manual_seed(1)
    made = {}
    for name, (_, rows, columns) in SHAPES.items():
        stem = f"base_model.model.model.layers.1.self_attn.{name}"
        made[f"{stem}.lora_A.weight"] = torch.randn(RANK, columns, generator=generator) / 4
        made[f"{stem}.lora_B.weight"] = torch.randn(rows, RANK, generator=generator) / 4
    return made


def write(folder: Path, **changes: Any) -> dict[str, Any]:
    """Files of a model and an adapter; the configuration's group for the adapter."""
    llama_checkpoints.write(folder, HF_PARAMS)
    torch.save({**factors(), **changes}, folder / "adapter.pth")
    numbers = {"r": RANK, "lora_alpha": ALPHA, "target_modules": list(SHAPES)}
    (folder / "adapter_config.json").write_text(json.dumps(numbers))
    return {
        "adapter_checkpoint": str(folder / "adapter.pth"),
        "adapter_config": str(folder / "adapter_config.json"),
    }


def entries(folder: Path, **groups: Any) -> dict[str, Any]:
    base = {"params": str(folder / "params.json"), "checkpoint": str(folder / "weights.pth")}
    return {
        **groups,
        "base": {**base, **groups.get("base", {})},
        "model": {"use_kv_cache": True, "use_sdpa_with_kv_cache": True},
        "export": {
            "max_seq_length": 8,
            "max_context_length": 24,
            **groups.get("export", {}),
        },
    }


def expected(adapted: bool) -> torch.Tensor:
    """Logits of the prompt, with the adapter's product added to the weights."""
    found = llama_checkpoints.tensors(HF_PARAMS)
    for name, (own, _, _) in SHAPES.items():
        stem = f"base_model.model.model.layers.1.self_attn.{name}"
        a, b = (factors()[f"{stem}.lora_{x}.weight"] for x in "AB")
        if adapted:
            found[f"layers.1.attention.{own}.weight"] += b @ a * (ALPHA / RANK)
    model = Transformer(args_of(HF_PARAMS, "params"), Limits(24, 8))
    load_weights(model, Checkpoint({n: (lambda n=n: found[n]) for n in found}, "tensors"))
    with torch.no_grad():
        result: torch.Tensor = model(torch.tensor([PROMPT]))
    return result


def logits(method: Any) -> torch.Tensor:
    result: torch.Tensor = method.execute([torch.tensor([PROMPT]), torch.tensor([0])])[0]
    return result


@pytest.mark.parametrize("target", ["executorch-1.5", "executorch_py"])
def test_an_adapter_adds_its_product_to_the_weights(target: str, tmp_path: Path) -> None:
    lora = write(tmp_path)
    config = entries(tmp_path, base={"lora_config": lora}, export={"target": target})
    program = Runtime.get().load_program(export_llm(config_of(config)).buffer)
    assert_near(logits(program.load_method("forward")), expected(True), F32_LAYERS)


def methods(lora: dict[str, Any]) -> dict[str, Any]:
    return {
        "methods": [{"method_name": "with_lora", "lora_config": lora}, {"method_name": "alone"}],
        "share_mutable_buffers": True,
    }


def test_methods_share_weights_and_caches(tmp_path: Path) -> None:
    config = entries(tmp_path, multimethod=methods(write(tmp_path)))
    made = export_llm(config_of(config))
    alone = export_llm(config_of(entries(tmp_path)))
    weights = sum(t.nbytes for t in llama_checkpoints.tensors(HF_PARAMS).values())
    assert len(made.buffer) - len(alone.buffer) < weights // 3
    program = Runtime.get().load_program(made.buffer)
    for name, adapted in (("with_lora", True), ("alone", False)):
        assert_near(logits(program.load_method(name)), expected(adapted), F32_LAYERS)


@pytest.mark.parametrize("quantized", [False, True], ids=["f32", "8da4w"])
def test_weights_of_the_model_and_the_adapter_have_files(quantized: bool, tmp_path: Path) -> None:
    files = {"foundation_weights_file": "foundation", "lora_weights_file": "lora"}
    groups = {"multimethod": methods(write(tmp_path)), "export": files}
    made = export_llm(config_of(entries(tmp_path, **groups, **(QUANTIZED if quantized else {}))))
    made.save(str(tmp_path / "model.pte"))
    made.write_tensor_data_to_file(tmp_path)
    sizes = {name: (tmp_path / f"{name}.ptd").stat().st_size for name in ("foundation", "lora")}
    assert sizes["foundation"] > 20_000 and 3_000 < sizes["lora"] < 10_000
    data = [tmp_path / "foundation.ptd", tmp_path / "lora.ptd"]
    program = Runtime.get().load_program(tmp_path / "model.pte", data_path=data)
    whole = export_llm(
        config_of(
            entries(
                tmp_path, multimethod=methods(write(tmp_path)), **(QUANTIZED if quantized else {})
            )
        )
    )
    other = Runtime.get().load_program(whole.buffer)
    for name in ("with_lora", "alone"):
        ours, theirs = (logits(p.load_method(name)) for p in (program, other))
        assert_near(ours, theirs, LAYERS_STEPS if quantized else F32_LAYERS)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"x.lora_A.weight": torch.ones(4, 64)}, r"expected lora_A and lora_B .* got \['x.lora_A"),
        (
            {"layers.1.attention.wk.lora_a.weight": torch.ones(4, 64)},
            r"expected matrices of q_proj, v_proj \(target_modules\), got layers.1.attention.wk",
        ),
        (
            {"layers.0.attention.wq.lora_a.weight": torch.ones(4, 64)},
            "layers.0.attention.wq: expected lora_b, got none",
        ),
        (
            {"base_model.model.model.layers.1.self_attn.q_proj.lora_A.weight": torch.ones(3, 64)},
            r"wq.lora_a: expected shape \[4, 64\], got \[3, 64\]",
        ),
    ],
)
def test_an_adapter_that_does_not_fit_is_refused(
    changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    config = entries(tmp_path, base={"lora_config": write(tmp_path, **changes)})
    with pytest.raises(CheckpointError, match=message):
        export_llm(config_of(config))


@pytest.mark.parametrize(
    ("change", "message"),
    [({"use_dora": True}, "use_dora: expected False"), ({"r": "x"}, "expected r and lora_alpha")],
)
def test_an_adapter_s_configuration_is_checked(
    change: dict[str, Any], message: str, tmp_path: Path
) -> None:
    lora = write(tmp_path)
    numbers = {"r": RANK, "lora_alpha": ALPHA, **change}
    (tmp_path / "adapter_config.json").write_text(json.dumps(numbers))
    with pytest.raises(CheckpointError, match=message):
        export_llm(config_of(entries(tmp_path, base={"lora_config": lora})))


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (
            {"multimethod": {"methods": [{"method_name": "a"}, {"method_name": "a"}]}},
            "expected names that differ, got 'a'",
        ),
        ({"multimethod": {"share_mutable_buffers": True}}, "expected multimethod.methods beside"),
        ({"export": {"lora_weights_file": "lora"}}, "lora_weights_file: expected an adapter"),
        (
            {"base": {"lora_config": {"adapter_checkpoint": "a.pth"}}},
            "expected adapter_config, or lora_rank and lora_alpha",
        ),
        (
            {"multimethod": {"methods": [{"method_name": "a", "export_seq_len": 3}]}},
            r"methods\[0\].export_seq_len: '3' is not supported",
        ),
    ],
)
def test_methods_that_contradict_are_refused(
    groups: dict[str, Any], message: str, tmp_path: Path
) -> None:
    llama_checkpoints.write(tmp_path)
    with pytest.raises(ConfigError, match=message):
        export_llm(config_of(entries(tmp_path, **groups)))
