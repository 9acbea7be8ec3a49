"""LFM2 by export_llm: transformers' logits on the runtime, whatever the calls, for both targets."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from support import lfm2_checkpoints
from support.lfm2_checkpoints import PARAMS
from support.llama_checkpoints import PROMPT, steps
from support.tolerance import BF16_LAYERS, F32_LAYERS, LAYERS_STEPS, assert_near

from executorch_py.errors import InvalidArgument
from executorch_py.exir import ExecutorchProgramManager
from executorch_py.extension.llm.export.config.read_config import read_config
from executorch_py.extension.llm.export.export_llm import capture_llm, export_llm, main
from executorch_py.extension.llm.export.quantize_model import quantize_model
from executorch_py.extension.llm.model.model_args import args_of
from executorch_py.extension.llm.model.transformer import Limits, Transformer
from executorch_py.extension.llm.model.weights import load_weights, open_checkpoint
from executorch_py.extension.llm.session import Session
from executorch_py.runtime import Runtime

SIZES = ["export.max_seq_length=8", "export.max_context_length=24"]
CACHE = ["model.use_kv_cache=true"]
OWN = [*CACHE, "export.target=executorch_py"]
OPERATORS = [*CACHE, "model.use_sdpa_with_kv_cache=true"]
XNNPACK = [*OPERATORS, "backend.xnnpack.enabled=true", "backend.xnnpack.extended_ops=true"]
WEIGHTS = ["quantization.qmode=8da4w", "quantization.group_size=32"]
TABLE = ["quantization.embedding_quantize=4,32"]
CACHES = {"own": OWN, "tensors": CACHE, "operators": OPERATORS, "XNNPACK": XNNPACK}
QUANTIZED = {
    "own": [*OWN, *WEIGHTS, *TABLE],
    "XNNPACK": [*XNNPACK, *WEIGHTS, *TABLE],
}
PIECES = ((6,), (2, 4), (1, 5), (1, 1, 4), (1,) * 6)

Call = Callable[[list[int], int], torch.Tensor]


def exported(folder: Path, *overrides: str) -> ExecutorchProgramManager:
    return export_llm(read_config(None, [*lfm2_checkpoints.write(folder), *SIZES, *overrides]))


def eager_steps(model: Callable[[torch.Tensor], torch.Tensor]) -> list[torch.Tensor]:
    """Logits of a model that reads all tokens again in each call."""
    seen: list[int] = []

    def call(tokens: list[int], position: int) -> torch.Tensor:
        seen[position:] = tokens
        with torch.no_grad():
            return model(torch.tensor([seen]))

    return list(steps(call))


def call_of(program: ExecutorchProgramManager) -> Call:
    method = Runtime.get().load_program(program.buffer).load_method("forward")
    return lambda ids, at: method.execute([torch.tensor([ids]), torch.tensor([at])])[0]


def operators(program: ExecutorchProgramManager) -> list[str]:
    """Names of the operators that a call runs."""
    plan = program.executorch_program.execution_plan[0]
    calls = [entry.instr_args for entry in plan.chains[0].instructions]
    return [plan.operators[c.op_index].name for c in calls if hasattr(c, "op_index")]


def assert_same_bits(call: Call) -> list[torch.Tensor]:
    """Logits, which are the same for all pieces; each run begins with the last one's state."""
    found = [list(steps(call, pieces)) for pieces in PIECES]
    for others in found[1:]:
        assert all(torch.equal(*pair) for pair in zip(found[0], others, strict=True))
    return found[0]


@pytest.mark.parametrize("name", CACHES)
def test_logits_are_those_of_transformers_and_their_bits_do_not_depend_on_calls(
    name: str, tmp_path: Path
) -> None:
    found = assert_same_bits(call_of(exported(tmp_path, *CACHES[name])))
    model = lfm2_checkpoints.build()
    wanted = eager_steps(lambda ids: model(ids, use_cache=False).logits[:, -1])
    assert_near(found, wanted, F32_LAYERS)


@pytest.mark.parametrize("name", QUANTIZED)
def test_quantized_programs_compute_with_the_numbers_of_their_module(
    name: str, tmp_path: Path
) -> None:
    program = exported(tmp_path, *QUANTIZED[name])
    if name == "own":  # B, C and x, or queries, keys and values, are one call in each layer
        assert operators(program).count("executorch_py::joint_qlinear_groups") == 4
    found = assert_same_bits(call_of(program))
    model = Transformer(args_of(PARAMS, "params"), Limits(24, 24))
    load_weights(model, open_checkpoint(tmp_path))
    lines = quantize_model(model, read_config(None, [*SIZES, *QUANTIZED[name]]))
    assert not any("left in f32" in line for line in lines)
    conv = model.layers[0].conv
    assert isinstance(conv.conv, torch.nn.Conv1d)
    linear = (conv.B_proj, conv.C_proj, conv.x_proj, conv.out_proj)
    assert not any(isinstance(layer, torch.nn.Linear) for layer in linear)
    assert_near(found, eager_steps(model), LAYERS_STEPS)


def test_static_shapes_take_one_token_at_a_time(tmp_path: Path) -> None:
    model = lfm2_checkpoints.build()
    wanted = eager_steps(lambda ids: model(ids, use_cache=False).logits[:, -1])
    call = call_of(exported(tmp_path, *OWN, "model.enable_dynamic_shape=false"))
    assert_near(list(steps(call, (1,) * 6)), wanted, F32_LAYERS)


def test_without_a_cache_all_tokens_are_read_again(tmp_path: Path) -> None:
    program = exported(tmp_path, "debug.generate_full_logits=true")
    method = Runtime.get().load_program(program.buffer).load_method("forward")
    ids = torch.tensor([PROMPT])
    with torch.no_grad():
        wanted = lfm2_checkpoints.build()(ids, use_cache=False).logits
    assert_near(method.execute([ids])[0], wanted, F32_LAYERS)


def test_windows_and_sinks_are_of_the_layers_with_attention(tmp_path: Path) -> None:
    for option, limits in (
        ("model.local_global_attention=[0,3]", Limits(24, 24, windows=(0, 3, 0, 3))),
        ("model.use_attention_sink='2,3'", Limits(24, 24, windows=(3,) * 4, sink=2)),
    ):
        program = exported(tmp_path, *OPERATORS, option, "export.max_seq_length=6")
        model = Transformer(args_of(PARAMS, "params"), limits)
        load_weights(model, open_checkpoint(tmp_path))
        assert_near(list(steps(call_of(program), (1, 5))), eager_steps(model), F32_LAYERS)


def test_halves_are_the_dtype_of_states(tmp_path: Path) -> None:
    lines = [*lfm2_checkpoints.write(tmp_path), *SIZES, *CACHE, "model.dtype_override=bf16"]
    config = read_config(None, lines)
    graph = capture_llm(config)["forward"].module()
    states = [buffer for name, buffer in graph.named_buffers() if name.endswith("conv_state")]
    assert [state.dtype for state in states] == [torch.bfloat16] * 2
    wanted = steps(lambda ids, at: graph(torch.tensor([ids]), torch.tensor([at])), (2, 4))
    assert_near(list(steps(call_of(export_llm(config)), (2, 4))), list(wanted), BF16_LAYERS)


@pytest.mark.parametrize("target", [OWN, OPERATORS], ids=["own", "upstream's"])
def test_a_session_goes_back_to_0_only(target: list[str], tmp_path: Path) -> None:
    exported(tmp_path, *target).save(str(tmp_path / "model.pte"))
    session, again = (Session(tmp_path / "model.pte") for _ in range(2))
    session.prefill(PROMPT)
    with pytest.raises(InvalidArgument, match="rewind: expected 0, got 4: the program does not"):
        session.rewind(4)
    session.save(tmp_path / "kept.session")
    wanted = session.step(7)
    session.step(8)
    session.restore(tmp_path / "kept.session")
    assert session.step(7).tobytes() == wanted.tobytes()
    session.rewind(0)
    assert session.prefill(PROMPT[:3]).tobytes() == again.prefill(PROMPT[:3]).tobytes()


def test_adapters_are_beside_convolutions_too(tmp_path: Path) -> None:
    places, generator = lfm2_checkpoints.write(tmp_path), torch.Generator().manual_seed(1)
    tensors = dict(lfm2_checkpoints.build().state_dict())
    del tensors["lm_head.weight"]  # tied
    found = {}
    for layer in ("layers.0.conv.out_proj", "layers.1.self_attn.out_proj"):
        a, b = (torch.randn(n, generator=generator) / 8 for n in ((4, 64), (64, 4)))
        found[f"base_model.model.model.{layer}.lora_A.weight"] = a
        found[f"base_model.model.model.{layer}.lora_B.weight"] = b
        tensors[f"model.{layer}.weight"] += b @ a
    save_file(found, tmp_path / "adapter.safetensors")
    save_file(tensors, tmp_path / "merged.safetensors")
    group = "base.lora_config."
    lora = [f"{group}adapter_checkpoint={tmp_path / 'adapter.safetensors'}"]
    lora += [f"{group}lora_rank=4", f"{group}lora_alpha=4"]
    merged = f"base.checkpoint={tmp_path / 'merged.safetensors'}"
    ours, wanted = (
        call_of(export_llm(read_config(None, [*places, *SIZES, *OWN, *more])))(PROMPT, 0)
        for more in (lora, [merged])
    )
    assert_near(ours, wanted, F32_LAYERS)


def test_the_command_writes_a_file_of_the_model_class(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lfm2_checkpoints.write(tmp_path)
    (tmp_path / "config.yaml").write_text(
        f"""
base:
  model_class: lfm2_350m
  params: {tmp_path}/params.json
  checkpoint: {tmp_path}
  metadata: '{{"get_bos_id": 1, "get_eos_ids": [7]}}'
model:
  use_kv_cache: True
  use_sdpa_with_kv_cache: True
  dtype_override: fp32
quantization:
  qmode: 8da4w
  group_size: 32
backend:
  xnnpack:
    enabled: True
    extended_ops: True
export:
  max_seq_length: 8
  max_context_length: 24
  output_dir: {tmp_path}
"""
    )
    assert main(["--config", str(tmp_path / "config.yaml")]) == 0
    assert capsys.readouterr().out.count("saved") == 1
    program = Runtime.get().load_program(tmp_path / "lfm2_350m.pte")
    names = program.method_names
    assert "get_eos_ids" in names and "get_cache_kind" not in names
    assert program.load_method("get_n_layers").execute([]) == [4]


def test_the_command_says_which_type_of_a_layer_is_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for types, said in (
        (["conv"], "layer_types: expected 4 types, got 1"),
        (["conv", "convolution"] * 2, "layer_types: expected each one of full_attention, "),
    ):
        places = lfm2_checkpoints.write(tmp_path, {**PARAMS, "layer_types": types})
        assert main([*places, *SIZES]) == 1
        assert said in capsys.readouterr().err
