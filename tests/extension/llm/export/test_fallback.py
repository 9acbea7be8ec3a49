"""Decoders with parts that fit no operator: slower programs with the model's own logits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from support.decoders import build
from support.tolerance import CODE_OF_A_ROW, F32, F32_LAYERS, assert_near

from executorch_py.extension.llm.export import export_folder
from executorch_py.extension.llm.export.choose_decoder import choose_decoder
from executorch_py.extension.llm.export.fusion_report import fusion_line
from executorch_py.extension.llm.export.hf_attention import UnsupportedDecoder
from executorch_py.extension.llm.export.hf_decoder import Decoder
from executorch_py.extension.llm.export.hf_layers import AllExperts, use_linear_layers
from executorch_py.extension.llm.export.hf_model import load_model
from executorch_py.extension.llm.export.hf_parts import parts_of, unused_layers
from executorch_py.extension.llm.export.quantized_linear import quantize_layers
from executorch_py.extension.llm.session import Session

N_TOKENS, CAPACITY = 20, 32
EXPERTS = {"num_local_experts": 4, "num_experts_per_tok": 2}
ITS_OWN = "its own code over a cache of all positions in f32, slower"
NO_INTERFACE = "passes no attention to the attention interface of transformers"
# Class's prefix, its configuration, tokens of each call, the beginning of a line of the report.
FAMILIES: dict[str, tuple[str, dict[str, Any], tuple[int, ...], str]] = {
    "alibi": ("Bloom", {}, (9, 1, 8, 2), f"layers 0-1 (BloomAttention) {NO_INTERFACE}: {ITS_OWN}"),
    "sinks, windows and experts": (
        "GptOss",
        {"head_dim": 16, "sliding_window": 6, **EXPERTS},
        (9, 1, 8, 2),
        f"layers 0-1 (GptOssAttention) has sinks (s_aux): {ITS_OWN}",
    ),
    "a state in one layer, attention in the other": (
        "Lfm2",
        {"layer_types": ["conv", "full_attention"]},
        (1,) * N_TOKENS,
        "layer 0 (Lfm2ShortConv) has a recurrent state: one token in a call, slower prompts",
    ),
    "states": (
        "Mamba",
        {"state_size": 8, "time_step_rank": 4},
        (1,) * N_TOKENS,
        "layers 0-1 (MambaMixer) has a recurrent state: one token in a call, slower prompts",
    ),
    "no cache": (
        "GPTNeo",
        {
            "num_layers": 2,
            "num_heads": 4,
            "attention_types": [[["global", "local"], 1]],
            "window_size": 6,
        },
        (9, 1, 8, 2),
        f"layers 0-1 {NO_INTERFACE}; GPTNeoForCausalLM: logits of a prompt in pieces: expected",
    ),
}


def model_of(prefix: str, more: dict[str, Any]) -> Any:
    """A model whose attention counts: weights of the default size would hide it."""
    model = build(prefix, more)
    generator = torch.Generator().manual_seed(1)
    for key, parameter in model.named_parameters():
        if parameter.dim() > 1 and "conv" not in key and "A_log" not in key:
            size = parameter.shape[-1] ** -0.5
            torch.nn.init.normal_(parameter, 0.0, size, generator=generator)
    return model


def tokens() -> torch.Tensor:
    return torch.randint(3, 300, (1, N_TOKENS), generator=torch.Generator().manual_seed(3))


def logits_of(model: Any) -> torch.Tensor:
    with torch.no_grad():
        result: torch.Tensor = model(tokens(), use_cache=False).logits[0]
    return result


def saved(folder: Path, prefix: str, more: dict[str, Any]) -> torch.Tensor:
    """The logits of a model, which is then in the folder."""
    model = model_of(prefix, more)
    model.save_pretrained(folder)
    return logits_of(model)


@pytest.mark.parametrize("name", FAMILIES)
def test_logits_are_those_of_eager_torch(tmp_path: Path, name: str) -> None:
    prefix, more, calls, line = FAMILIES[name]
    wanted = saved(tmp_path, prefix, more)
    lines: list[str] = []
    program = export_folder(tmp_path, capacity=CAPACITY, prefill=9, group=None, report=lines.append)
    assert any(found.startswith(line) for found in lines), lines
    session, at = Session(program.buffer), 0
    ids = tokens()[0].tolist()
    for n in calls:
        found = session.prefill(ids[at : at + n])
        at += n
        assert_near(torch.as_tensor(found), wanted[at - 1], F32_LAYERS)
    if session.interface.rings == ():  # caches of all positions, or none
        session.rewind(4)
        assert_near(torch.as_tensor(session.prefill(ids[4:])), wanted[-1], F32_LAYERS)
    session.rewind(0)  # what was read before is forgotten
    assert_near(torch.as_tensor(session.prefill(ids[: calls[0]])), wanted[calls[0] - 1], F32_LAYERS)


def test_a_recurrent_state_is_saved_and_is_empty_at_position_0(tmp_path: Path) -> None:
    prefix, more, _, _ = FAMILIES["states"]
    wanted = saved(tmp_path, prefix, more)
    session = Session(export_folder(tmp_path, capacity=CAPACITY, group=None).buffer)
    ids = tokens()[0].tolist()
    session.prefill(ids[:7])
    session.save(tmp_path / "state")
    session.prefill([5, 5])
    session.restore(tmp_path / "state")
    assert_near(torch.as_tensor(session.prefill(ids[7:])), wanted[-1], F32_LAYERS)
    method = session.program.reopened().load_method("forward")
    for _ in range(2):
        out = method.execute([tokens()[:, :1], torch.tensor([0])])[0]
        assert_near(torch.as_tensor(out)[0], wanted[0], F32_LAYERS)


def test_experts_are_linear_layers_over_all_of_them(tmp_path: Path) -> None:
    saved(tmp_path, "Mixtral", EXPERTS)
    lines: list[str] = []
    program = export_folder(tmp_path, capacity=CAPACITY, cache="f32", report=lines.append)
    experts = "experts of layers 0-1 (MixtralExperts): all 4 are computed for each token, slower"
    assert experts in lines
    found = torch.as_tensor(Session(program.buffer).prefill(tokens()[0].tolist()))[None]
    loaded = load_model(tmp_path)
    assert quantize_layers(loaded.model, 32) == {}
    decoder = Decoder(loaded.model, CAPACITY, layers=loaded.layers)
    with torch.no_grad():
        wanted = decoder(tokens(), torch.tensor([0]))
    assert_near(found, wanted, CODE_OF_A_ROW)


@pytest.mark.parametrize("prefix", ["Mixtral", "GptOss", "Qwen2Moe"])
def test_all_experts_give_the_sums_of_the_chosen_ones(prefix: str) -> None:
    model = model_of(prefix, {"num_experts": 4, "moe_intermediate_size": 32, **EXPERTS})
    wanted = logits_of(model)
    use_linear_layers(model)
    assert sum(isinstance(module, AllExperts) for module in model.modules()) == 2
    assert_near(logits_of(model), wanted, F32_LAYERS)


def test_layers_of_gpt2_that_store_weights_transposed_are_packed() -> None:
    torch.manual_seed(0)
    config = transformers.GPT2Config(n_embd=64, n_layer=2, n_head=4, vocab_size=300)
    model = transformers.GPT2LMHeadModel(config).eval()
    wanted = logits_of(model)
    use_linear_layers(model)
    assert_near(logits_of(model), wanted, F32)
    assert quantize_layers(model, 32) == {}


def test_layers_that_compute_more_or_whose_weight_is_used_alone_stay_float() -> None:
    model = build("OPT", {"ffn_dim": 128, "word_embed_proj_dim": 64})
    name = "model.decoder.embed_positions"
    assert quantize_layers(model, 32) == {
        name: "OPTLearnedPositionalEmbedding computes more than Embedding"
    }
    model = build("Mamba", {"state_size": 8, "time_step_rank": 32})
    alone = unused_layers(model)
    assert list(alone) == [f"backbone.layers.{i}.mixer.dt_proj" for i in range(2)]
    assert quantize_layers(model, 32, keep=alone) == dict.fromkeys(
        alone, "its weight is used alone"
    )


def test_a_part_that_cannot_be_exported_is_named(tmp_path: Path) -> None:
    saved(tmp_path, "Rwkv", {"attention_hidden_size": 64})
    words = "RwkvForCausalLM does not use the caches of transformers; without a cache: .*length"
    with pytest.raises(UnsupportedDecoder, match=words):
        export_folder(tmp_path, capacity=CAPACITY, group=None)


def test_parts_that_were_not_fused_are_named() -> None:
    model = build("GPTJ", {"rotary_dim": 8})
    _, graph = choose_decoder(model, parts_of(model), CAPACITY)
    line = fusion_line(graph.graph_module.graph)
    assert line == "fused: nothing; not fused: rotary embeddings of layers 0-1 (GPTJAttention)"
    model = build("Llama", {})
    quantize_layers(model, 32)
    _, graph = choose_decoder(model, parts_of(model), CAPACITY)
    line = fusion_line(graph.graph_module.graph)
    assert line == "fused: 2 rotary embeddings, 5 norms, 4 residuals"
