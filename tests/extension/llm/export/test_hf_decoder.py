"""Decoders of transformers with caches: logits of the runtime beside those of eager torch."""

from __future__ import annotations

import copy
from collections import Counter
from typing import Any

import pytest
import torch
from support.decoders import SCALED_ROPE, build
from support.tolerance import CODE_OF_A_ROW, F32_LAYERS, assert_near

from executorch_py.extension.llm.export.hf_attention import UnsupportedDecoder
from executorch_py.extension.llm.export.hf_decoder import Decoder, capture, export_decoder
from executorch_py.extension.llm.export.quantized_linear import quantize_layers
from executorch_py.runtime import Runtime

N_TOKENS, CAPACITY = 20, 32
LONG_ROPE = {
    "rope_type": "longrope",
    "rope_theta": 10000.0,
    "short_factor": [1.0 + i / 8 for i in range(8)],
    "long_factor": [2.0 + i for i in range(8)],
    "original_max_position_embeddings": 256,
    "factor": 2.0,
}
DYNAMIC_ROPE = {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 4.0}
INTERLEAVED: dict[str, tuple[str, dict[str, Any]]] = {
    "Cohere, interleaved rope": ("Cohere", {}),
    "GLM, interleaved rope of a part": ("Glm", {"head_dim": 16}),
    "Ernie 4.5, interleaved rope between casts": ("Ernie4_5", {"head_dim": 16}),
}
# Name -> the class's prefix, and what its configuration has beside the sizes below.
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "Llama": ("Llama", {}),
    "Llama, scaled rope, tied": (
        "Llama",
        {"rope_parameters": SCALED_ROPE, "tie_word_embeddings": True},
    ),
    "Llama, biases": ("Llama", {"attention_bias": True, "mlp_bias": True}),
    "Qwen2, biases of q, k and v": ("Qwen2", {}),
    "Qwen3, norms of q and k": ("Qwen3", {"head_dim": 32}),
    "Phi-3, joint projections": ("Phi3", {}),
    "Phi-4-mini, partial rope": ("Phi3", {"partial_rotary_factor": 0.5, "head_dim": 16}),
    "SmolLM3, layers without rope": ("SmolLM3", {"no_rope_layers": [1, 0]}),
    "Granite, scaled residuals": (
        "Granite",
        {"attention_multiplier": 0.3, "residual_multiplier": 0.5, "logits_scaling": 2.0},
    ),
    "OLMo 2, norms after layers": ("Olmo2", {}),
    "Mistral, windows": ("Mistral", {"sliding_window": 6}),
    "Gemma 2, windows and capped scores": (
        "Gemma2",
        {"sliding_window": 5, "head_dim": 16, "query_pre_attn_scalar": 20},
    ),
    "Gemma 3, two rotary tables": (
        "Gemma3",
        {
            "sliding_window": 7,
            "head_dim": 16,
            "layer_types": ["sliding_attention", "full_attention"],
        },
    ),
    "Phi-4-mini, long rope": ("Phi3", {"rope_parameters": LONG_ROPE}),
    **INTERLEAVED,
    "Qwen3, rope whose table is dynamic": ("Qwen3", {"rope_parameters": DYNAMIC_ROPE}),
    "Qwen2, a window of all positions": (
        "Qwen2",
        {"use_sliding_window": True, "sliding_window": 100, "max_window_layers": 0},
    ),
}

# What: the class's prefix, its configuration, words of the refusal.
REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "sinks": (
        "GptOss",
        {"num_local_experts": 2, "num_experts_per_tok": 2, "head_dim": 16},
        r"layers 0-1 \(GptOssAttention\) has sinks",
    ),
    "both directions": (
        "Gemma3",
        {"use_bidirectional_attention": True, "head_dim": 16},
        "use_bidirectional_attention: expected causal",
    ),
    "a mask of its own": ("Doge", {}, "DogeForCausalLM computes masks by itself"),
    "no interface": (
        "Bloom",
        {},
        r"layers 0-1 \(BloomAttention\) passes no attention to the attention interface",
    ),
    "no argument for positions": (
        "Bart",
        {"d_model": 64, "decoder_layers": 2, "decoder_attention_heads": 4, "is_decoder": True},
        "BartForCausalLM has no argument for positions",
    ),
    "a recurrent state": ("Mamba", {}, r"layers 0-1 \(MambaMixer\) has a recurrent state"),
}


def tokens(seed: int = 3) -> torch.Tensor:
    return torch.randint(3, 300, (1, N_TOKENS), generator=torch.Generator().manual_seed(seed))


def method_of(model: Any, **options: Any) -> Any:
    return method_of_decoder(Decoder(model, CAPACITY, **options))


def method_of_decoder(decoder: Decoder) -> Any:
    program = export_decoder(decoder)
    return Runtime.get().load_program(program.buffer).load_method("forward")


def kernel_calls(plan: Any) -> list[Any]:
    """The instructions of a plan that call operators."""
    instructions = (i for chain in plan.chains for i in chain.instructions)
    return [i for i in instructions if hasattr(i.instr_args, "op_index")]


def call(method: Any, ids: torch.Tensor, start: int) -> torch.Tensor:
    result: torch.Tensor = method.execute([ids, torch.tensor([start])])[0]
    return result


@pytest.mark.parametrize(("prefix", "more"), FAMILIES.values(), ids=FAMILIES)
def test_logits_are_those_of_eager_torch_for_a_prompt_and_each_next_token(
    prefix: str, more: dict[str, Any]
) -> None:
    model, ids = build(prefix, more), tokens()
    with torch.no_grad():
        wanted = model(ids, use_cache=False).logits
    method = method_of(model)
    found = [call(method, ids[:, :12], 0)]
    found += [call(method, ids[:, i : i + 1], i) for i in range(12, N_TOKENS)]
    assert_near(torch.cat(found), wanted[0, 11:], F32_LAYERS)


def test_a_model_is_the_same_after_its_export() -> None:
    model, ids = build("Llama", {}), torch.tensor([[3, 4, 5]])
    before = model(ids).logits
    export_decoder(Decoder(model, CAPACITY, prefill=8))
    assert model.config._attn_implementation == build("Llama", {}).config._attn_implementation
    assert torch.equal(copy.deepcopy(model)(ids).logits, before)


@pytest.mark.parametrize("more", [{}, {"partial_rotary_factor": 0.5, "head_dim": 16}])
def test_joint_projections_are_the_calls_of_separate_ones(more: dict[str, Any]) -> None:
    """A layer of Phi-3 takes as many calls as one of Llama."""
    kinds = []
    for prefix, sizes in (("Llama", {}), ("Phi3", more)):
        model = build(prefix, sizes)
        quantize_layers(model, 32)
        program = export_decoder(Decoder(model, CAPACITY)).executorch_program
        plan = program.execution_plan[0]
        names = [plan.operators[call.instr_args.op_index].name for call in kernel_calls(plan)]
        kinds.append(Counter(n for n in names if "qlinear" in n or "attention" in n))
    assert kinds[0] == kinds[1]


@pytest.mark.parametrize(("prefix", "more"), INTERLEAVED.values(), ids=INTERLEAVED)
def test_interleaved_rotations_are_part_of_attention(prefix: str, more: dict[str, Any]) -> None:
    graph = capture(Decoder(build(prefix, more), CAPACITY)).graph
    attention = torch.ops.executorch_py.cached_attention.default
    calls = graph.find_nodes(op="call_function", target=attention)
    names = [argument.name for argument in attention._schema.arguments]
    given = [dict(zip(names, call.args, strict=False)) for call in calls]
    assert len(given) == 2
    assert all(call["interleaved"] and call["cos"] is not None for call in given)
    assert not graph.find_nodes(op="call_function", target=torch.ops.aten.stack.default)


def test_a_dynamic_table_of_rope_is_refused_where_it_would_change() -> None:
    more = {"rope_parameters": DYNAMIC_ROPE, "max_position_embeddings": CAPACITY - 1}
    with pytest.raises(UnsupportedDecoder, match=r"at most max_position_embeddings, 31, .* got 32"):
        Decoder(build("Llama", more), CAPACITY)


def test_all_logits_are_returned_when_they_are_asked_for() -> None:
    model, ids = build("Llama", {}), tokens()
    with torch.no_grad():
        wanted = model(ids, use_cache=False).logits
    method = method_of(model, all_logits=True)
    found = torch.cat([call(method, ids[:, :9], 0), call(method, ids[:, 9:], 9)], 1)
    assert_near(found, wanted, F32_LAYERS)


def test_a_prompt_in_pieces_gives_the_bits_of_the_prompt_at_once() -> None:
    model, ids = build("Llama", {}), tokens()
    method = method_of(model)
    at_once = call(method, ids, 0)
    call(method, ids[:, :7], 0)
    call(method, ids[:, 7:8], 7)
    assert torch.equal(call(method, ids[:, 8:], 8), at_once)


@pytest.mark.parametrize(
    "name", ["Phi-4-mini, partial rope", "Qwen3, norms of q and k", "Gemma 3, two rotary tables"]
)
def test_rotary_embeddings_are_computed_by_the_attention(name: str) -> None:
    graph = capture(Decoder(build(*FAMILIES[name]), CAPACITY)).graph
    attention = torch.ops.executorch_py.cached_attention.default
    calls = [node for node in graph.nodes if node.target is attention]
    assert len(calls) == 2
    for call in calls:
        assert call.args[3] is not None and call.args[4] is not None  # cos, sin
    assert not [node for node in graph.nodes if node.target is torch.ops.aten.neg.default]


@pytest.mark.parametrize("kind", ["f32", "f16", "i8"])
def test_windows_are_right_after_their_rings_wrapped(kind: str) -> None:
    model = build("Mistral", {"sliding_window": 6})
    ids = torch.randint(3, 300, (1, 60), generator=torch.Generator().manual_seed(3))
    with torch.no_grad():
        wanted = model(ids, use_cache=False).logits[0]
    decoder = Decoder(model, 64, prefill=9, cache=kind)
    assert decoder.get_buffer("key_cache_0").shape[2] == 1  # panels: 6 + 9 - 1 slots, padded to 16
    method = method_of_decoder(decoder)
    at = 0
    for n in (9, 1, 7, 9, 1, 1, 9, 9, 9, 5):
        found = call(method, ids[:, at : at + n], at)[0]
        at += n
        if kind == "f32":
            assert_near(found, wanted[at - 1], F32_LAYERS)
        else:  # keys and values are rounded
            error = (found - wanted[at - 1]).norm() / wanted[at - 1].norm()
            assert error < 1 / 50, at
    assert at == ids.shape[1]


@pytest.mark.parametrize(("prefix", "more", "reason"), REFUSED.values(), ids=REFUSED)
def test_attention_that_is_not_supported_is_refused_by_name(
    prefix: str, more: dict[str, Any], reason: str
) -> None:
    with pytest.raises(UnsupportedDecoder, match=reason):
        Decoder(build(prefix, more), CAPACITY)


@pytest.mark.parametrize("tied", [False, True], ids=["two tables", "one table"])
def test_quantized_layers_give_the_logits_of_the_same_module_in_eager_torch(tied: bool) -> None:
    model = build("Llama", {"tie_word_embeddings": tied})
    assert quantize_layers(model, 32) == {}
    decoder = Decoder(model, CAPACITY)
    method = Runtime.get().load_program(export_decoder(decoder).buffer).load_method("forward")
    n_near = 0
    for seed in range(12):
        with torch.no_grad():
            wanted = decoder(tokens(seed), torch.tensor([0]))
        got = call(method, tokens(seed), 0)
        # The last bit of a norm decides the code of an element between two of them.
        assert_near(got, wanted, CODE_OF_A_ROW)
        n_near += torch.allclose(torch.as_tensor(got), wanted, *F32_LAYERS)
    assert n_near >= 10


def test_a_table_that_two_layers_share_is_in_the_file_once() -> None:
    sizes = []
    for tied in (False, True):
        model = build("Llama", {"tie_word_embeddings": tied, "vocab_size": 4000})
        quantize_layers(model, 32)
        sizes.append(len(export_decoder(Decoder(model, CAPACITY)).buffer))
    table_bytes = 4000 * (64 // 2 + 64 // 32 * 2)
    assert sizes[0] - sizes[1] >= table_bytes


def test_layers_that_stay_float_are_named_with_the_reason() -> None:
    model = build("Llama", {"intermediate_size": 100})
    left = quantize_layers(model, 32, keep=("lm_head",))
    assert left == {
        "lm_head": "as asked",
        "model.layers.0.mlp.down_proj": "100 terms of a row are no multiple of 32",
        "model.layers.1.mlp.down_proj": "100 terms of a row are no multiple of 32",
    }
