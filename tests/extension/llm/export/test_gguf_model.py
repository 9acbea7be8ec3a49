"""GGUF files as models of transformers: the logits of the model that a file was written from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import pytest
import torch
from gguf import GGMLQuantizationType as Kind
from support.decoders import SCALED_ROPE, build
from support.tolerance import F32_LAYERS, assert_near

from executorch_py.extension.llm.checkpoint import CheckpointError
from executorch_py.extension.llm.export.export_folder import export_folder
from executorch_py.extension.llm.export.hf_decoder import Decoder
from executorch_py.extension.llm.export.hf_model import load_model
from executorch_py.extension.llm.export.quantized_linear import (
    QuantizedEmbedding,
    quantize_layers,
)
from executorch_py.runtime import Runtime

LONG_ROPE = {
    "rope_type": "longrope",
    "rope_theta": 10000.0,
    "short_factor": [1.0, 1.1, 1.3, 1.7],
    "long_factor": [1.5, 2.0, 4.0, 7.0],
    "original_max_position_embeddings": 16,
}
FACTORS = {"rope_factors_long.weight": "long_factor", "rope_factors_short.weight": "short_factor"}
# Name -> architecture of the file, class of the model, its configuration beside the sizes.
MODELS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "llama": ("llama", "Llama", {}),
    "llama, tied": ("llama", "Llama", {"tie_word_embeddings": True}),
    "llama, biases": ("llama", "Llama", {"attention_bias": True}),
    "llama, scaled rope": ("llama", "Llama", {"rope_parameters": SCALED_ROPE}),
    "qwen2": ("qwen2", "Qwen2", {}),
    "qwen3": ("qwen3", "Qwen3", {"head_dim": 32}),
    "phi3": ("phi3", "Phi3", {"partial_rotary_factor": 0.5}),
    "phi3, long rope": (
        "phi3",
        "Phi3",
        {
            "partial_rotary_factor": 0.5,
            "rope_parameters": LONG_ROPE,
            "original_max_position_embeddings": 16,
        },
    ),
    "gemma2": ("gemma2", "Gemma2", {"head_dim": 32, "sliding_window": 6}),
    "gemma3": ("gemma3", "Gemma3", {"head_dim": 32, "sliding_window": 6}),
}
PARTS = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.qkv_proj": "attn_qkv",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "mlp.gate_up_proj": "ffn_up",
    "input_layernorm": "attn_norm",
}
NORMS = {"post_attention_layernorm": "ffn_norm"}
GEMMA_NORMS = {
    "post_attention_layernorm": "post_attention_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}


def model_of(name: str) -> Any:
    """A model whose norms and biases are random, too."""
    model = build(*MODELS[name][1:])
    for key, parameter in model.named_parameters():
        if "norm" in key:
            torch.nn.init.uniform_(parameter, 0.5, 1.5)
        if key.endswith("bias"):
            torch.nn.init.uniform_(parameter, -0.5, 0.5)
    return model


def file_name(architecture: str, name: str) -> str:
    whole = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
    outer, _, leaf = name.rpartition(".")
    if outer in whole:
        return f"{whole[outer]}.{leaf}"
    _, _, layer, part = outer.split(".", 3)
    parts = PARTS | (GEMMA_NORMS if architecture.startswith("gemma") else NORMS)
    return f"blk.{layer}.{parts[part]}.{leaf}"


def stored(architecture: str, name: str, tensor: torch.Tensor, config: Any) -> torch.Tensor:
    """The tensor as llama.cpp's converter writes it."""
    heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}
    part = name.split(".")[-2]
    if architecture == "llama" and part in heads:
        rows = tensor.reshape(heads[part], 2, -1, *tensor.shape[1:])
        return rows.transpose(1, 2).reshape(tensor.shape)
    return tensor + 1 if architecture.startswith("gemma") and "norm" in part else tensor


def write(path: Path, name: str, model: Any, kind: Kind | None = None, **changes: Any) -> Path:
    """Writes a model; its matrices in blocks of a type, the table in Q8_0."""
    architecture, config = MODELS[name][0], model.config
    writer = gguf.GGUFWriter(path, changes.get("architecture", architecture))
    numbers = {
        "block_count": config.num_hidden_layers,
        "context_length": config.max_position_embeddings,
        "embedding_length": config.hidden_size,
        "feed_forward_length": config.intermediate_size,
        "attention.head_count": config.num_attention_heads,
        "attention.head_count_kv": config.num_key_value_heads,
        "attention.key_length": getattr(config, "head_dim", None),
        "attention.sliding_window": getattr(config, "sliding_window", None),
    }
    for key, value in numbers.items():
        if value is not None and key != changes.get("without"):
            writer.add_uint32(f"{architecture}.{key}", changes.get("sizes", {}).get(key, value))
    writer.add_float32(f"{architecture}.attention.layer_norm_rms_epsilon", config.rms_norm_eps)
    if architecture == "phi3":
        writer.add_uint32("phi3.rope.dimension_count", 8)
    if "long" in name:
        writer.add_uint32("phi3.rope.scaling.original_context_length", 16)
        writer.add_float32("phi3.rope.scaling.attn_factor", (1 + 5 / 4) ** 0.5)  # of 512 and 16
        for tensor_name, key in FACTORS.items():
            factors = torch.tensor(LONG_ROPE[key])[changes.get("factors", slice(None))]
            if tensor_name != changes.get("without"):
                writer.add_tensor(tensor_name, factors.numpy())
    if architecture == "gemma2":
        writer.add_float32("gemma2.attn_logit_softcapping", config.attn_logit_softcapping)
        writer.add_float32("gemma2.final_logit_softcapping", config.final_logit_softcapping)
    if architecture == "gemma3":
        writer.add_float32("gemma3.rope.freq_base", 1e6)
    writer.add_uint32("tokenizer.ggml.eos_token_id", 2)
    for key, tensor in model.state_dict().items():
        if key == "lm_head.weight" and config.tie_word_embeddings:
            continue
        values = stored(architecture, key, tensor, config).contiguous().numpy()
        if kind is None or values.ndim != 2:
            writer.add_tensor(file_name(architecture, key), values)
            continue
        block = Kind.Q8_0 if "embed" in key else kind
        blocks = gguf.quants.quantize(values, block)
        writer.add_tensor(file_name(architecture, key), blocks, raw_dtype=block)
    if "scaled" in name:
        plain = 1.0 / 10000.0 ** (torch.arange(0, 16, 2) / 16)
        writer.add_tensor("rope_freqs.weight", (plain / model.model.rotary_emb.inv_freq).numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def logits(model: Any, length: int = 20) -> torch.Tensor:
    ids = torch.randint(3, 300, (1, length), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        result: torch.Tensor = model(ids, use_cache=False).logits
    return result


@pytest.mark.parametrize("name", MODELS)
def test_a_file_gives_the_logits_of_the_model_that_it_was_written_from(
    tmp_path: Path, name: str
) -> None:
    model = model_of(name)
    whole = load_model(write(tmp_path / "m.gguf", name, model))
    assert not whole.unused and not whole.codes
    loaded = whole.model
    loaded.set_attn_implementation(model.config._attn_implementation)
    assert loaded.config.eos_token_id == 2
    for length in (20, 9):  # beyond the original length of LongRoPE, and within
        assert_near(logits(loaded, length), logits(model, length), F32_LAYERS)


@pytest.mark.parametrize("length", [9, 20])
def test_a_program_uses_the_rotary_factors_of_its_context(tmp_path: Path, length: int) -> None:
    model = model_of("phi3, long rope")
    path = write(tmp_path / "m.gguf", "phi3, long rope", model)
    program = export_folder(path, capacity=32, group=None)
    method = Runtime.get().load_program(program.buffer).load_method("forward")
    ids = torch.randint(3, 300, (1, length), generator=torch.Generator().manual_seed(1))
    found = method.execute([ids, torch.tensor([0])])[0]
    assert_near(found, logits(model, length)[:, -1], F32_LAYERS)


def test_rotary_factors_of_another_number_are_refused(tmp_path: Path) -> None:
    name = "phi3, long rope"
    path = write(tmp_path / "m.gguf", name, model_of(name), factors=slice(3))
    with pytest.raises(CheckpointError, match=r"rope_factors_.*expected shape \[4\], a factor"):
        load_model(path)


def test_a_missing_table_of_rotary_factors_is_named(tmp_path: Path) -> None:
    name = "phi3, long rope"
    path = write(tmp_path / "m.gguf", name, model_of(name), without="rope_factors_long.weight")
    with pytest.raises(CheckpointError, match=r"rope_factors_long\.weight': .* got none"):
        load_model(path)


def test_the_program_of_a_file_gives_the_logits_of_its_model(tmp_path: Path) -> None:
    model = model_of("llama")
    path = write(tmp_path / "m.gguf", "llama", model)
    program = export_folder(path, capacity=32, group=None)
    method = Runtime.get().load_program(program.buffer).load_method("forward")
    ids = torch.tensor([[5, 7, 299]])
    with torch.no_grad():
        wanted = model(ids, use_cache=False).logits[:, -1]
    assert_near(method.execute([ids, torch.tensor([0])])[0], wanted, F32_LAYERS)


def test_an_unknown_architecture_is_named_beside_the_known_ones(tmp_path: Path) -> None:
    path = write(tmp_path / "m.gguf", "llama", model_of("llama"), architecture="mamba")
    with pytest.raises(CheckpointError, match=r"expected one of llama, .*, got 'mamba'"):
        load_model(path)


@pytest.mark.parametrize("key", ["block_count", "embedding_length"])
def test_a_size_that_contradicts_the_tensors_is_refused_before_a_model_is_made(
    tmp_path: Path, key: str
) -> None:
    path = write(tmp_path / "m.gguf", "llama", model_of("llama"), sizes={key: 4_000_000_000})
    with pytest.raises(CheckpointError, match=rf"{key}: expected \d+ as in the tensors, got"):
        load_model(path)


def test_a_size_that_is_missing_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "m.gguf", "llama", model_of("llama"), without="block_count")
    with pytest.raises(
        CheckpointError, match=r"block_count: expected a positive number, got 'None'"
    ):
        load_model(path)


@pytest.mark.parametrize("tied", [False, True], ids=["two tables", "one table"])
@pytest.mark.parametrize("kind", [Kind.Q4_0, Kind.Q4_1, Kind.Q8_0])
def test_codes_of_a_file_are_packed_without_loss(tmp_path: Path, kind: Kind, tied: bool) -> None:
    name = "llama, tied" if tied else "llama"
    path = write(tmp_path / "m.gguf", name, model_of(name), kind)
    by_value, by_code = load_model(path).model, load_model(path, keep_codes=True)
    wanted = {
        f"{place}.weight": layer.weight
        for place, layer in by_value.named_modules()
        if isinstance(layer, torch.nn.Linear | torch.nn.Embedding)
    }
    assert set(by_code.codes) == set(wanted)
    assert quantize_layers(by_code.model, 32, codes=by_code.codes) == {}
    layers = dict(by_code.model.named_modules())
    for weight, values in wanted.items():
        packed = layers[weight.removesuffix(".weight")].packed
        table = QuantizedEmbedding(packed)
        assert torch.equal(table(torch.arange(packed.n_rows)), values), weight
    same = layers["lm_head"].packed is layers["model.embed_tokens"].packed
    assert same == tied


def test_a_file_of_codes_runs_as_its_layers_in_eager_torch(tmp_path: Path) -> None:
    path = write(tmp_path / "m.gguf", "llama", model_of("llama"), Kind.Q4_1)
    lines: list[str] = []
    program = export_folder(path, capacity=32, report=lines.append)
    assert lines[1] == (
        "linear layers and embeddings: 15 of 4 bits in groups of 32 with minimums; "
        "1 of 8 bits in groups of 32"
    )
    loaded = load_model(path, keep_codes=True)
    quantize_layers(loaded.model, 32, codes=loaded.codes)
    ids = torch.tensor([[5, 7, 299]])
    with torch.no_grad():
        wanted = Decoder(loaded.model, 32)(ids, torch.tensor([0]))
    method = Runtime.get().load_program(program.buffer).load_method("forward")
    assert_near(method.execute([ids, torch.tensor([0])])[0], wanted, F32_LAYERS)
