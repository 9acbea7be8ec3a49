"""from_pretrained(folder, gguf_file=…): the tokens of the model in the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import pytest
import torch
from support.decoders import build

from executorch_py.optimum import ExecuTorchModelForCausalLM

IDS = [5, 17, 42]
PARTS = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "model.layers": "blk",
}
SIZES = {
    "block_count": "num_hidden_layers",
    "context_length": "max_position_embeddings",
    "embedding_length": "hidden_size",
    "feed_forward_length": "intermediate_size",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """A folder with a Qwen 2 in f32 as GGUF file, and the model."""
    path, model = tmp_path_factory.mktemp("gguf"), build("Qwen2", {})
    writer = gguf.GGUFWriter(path / "model.gguf", "qwen2")
    for key, name in SIZES.items():
        writer.add_uint32(f"qwen2.{key}", getattr(model.config, name))
    writer.add_float32("qwen2.attention.layer_norm_rms_epsilon", model.config.rms_norm_eps)
    for name, tensor in model.state_dict().items():
        for part, short in PARTS.items():
            name = name.replace(part, short)
        writer.add_tensor(name, tensor.numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path, model


@pytest.mark.parametrize("target", ["executorch_py", "executorch-1.5"])
def test_a_gguf_file_gives_the_tokens_of_its_model(folder: tuple[Path, Any], target: str) -> None:
    path, model = folder
    wanted = model.generate(
        torch.tensor([IDS]), max_new_tokens=9, do_sample=False, eos_token_id=None
    )
    found = ExecuTorchModelForCausalLM.from_pretrained(
        path, gguf_file="model.gguf", target=target, max_seq_len=32
    )
    assert found.generate(IDS, echo=True, max_seq_len=12) == wanted[0].tolist()


def test_a_missing_file_is_named(folder: tuple[Path, Any]) -> None:
    with pytest.raises(OSError, match=r"none\.gguf"):
        ExecuTorchModelForCausalLM.from_pretrained(folder[0], gguf_file="none.gguf")
