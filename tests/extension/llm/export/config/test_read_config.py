"""Configurations of export_llm: files, texts, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from executorch_py.extension.llm.export.config.llm_config import (
    DtypeOverride,
    LlmConfig,
    ModelType,
)
from executorch_py.extension.llm.export.config.read_config import (
    ConfigError,
    checked,
    read_config,
)
from executorch_py.extension.llm.export.supported_keys import refuse_unsupported


def test_a_file_and_texts_that_win_over_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEIGHTS", "weights.pth")
    path = tmp_path / "config.yaml"
    path.write_text(
        "base:\n  model_class: qwen3_0_6b\n  checkpoint: ${oc.env:WEIGHTS}\n"
        "model:\n  dtype_override: bf16\nquantization:\n  embedding_quantize: 4,32\nexport:\n"
    )
    texts = ['+base.metadata="{\\"get_bos_id\\":1}"', "model.local_global_attention=[0, 16]"]
    config = read_config(path, [*texts, "model.use_kv_cache=True", "export.max_seq_length=64"])
    assert config.base.model_class is ModelType.qwen3_0_6b
    assert config.base.checkpoint == "weights.pth"
    assert config.base.metadata == '{"get_bos_id":1}'
    assert config.model.dtype_override is DtypeOverride.bf16
    assert config.model.local_global_attention == [0, 16]
    assert config.quantization.embedding_quantize == "4,32"
    assert (config.export.max_seq_length, config.export.max_context_length) == (64, 128)


def test_a_group_that_is_made_by_a_text() -> None:
    texts = ["base.lora_config.adapter_checkpoint=a.pt", "base.lora_config.target_modules=[q,v]"]
    lora = read_config(None, texts).base.lora_config
    assert lora is not None
    assert (lora.adapter_checkpoint, lora.target_modules) == ("a.pt", ["q", "v"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mode.use_kv_cache=true", "expected a group, got 'mode': did you mean 'model'?"),
        ("model.use_kv_cach=true", "expected a key of model, got 'use_kv_cach': did you mean"),
        ("backend.xnnpack.x=1", "expected a key of backend.xnnpack, got 'x': known are enabled"),
        ("model.use_kv_cache=yes", "model.use_kv_cache: expected true or false, got 'yes'"),
        ("export.max_seq_length=1.5", "export.max_seq_length: expected a int, got '1.5'"),
        ("base.model_class=llama32", "base.model_class: expected one of stories110m, .*llama3_2"),
        ("quantization.qmode=8d4w", "quantization.qmode: expected one of int8, .* got '8d4w'"),
        ("quantization.embedding_quantize=4", "expected '<bits>,<group size>' .* got '4'"),
        ("export.max_seq_length=200", "max_context_length: expected at least .* 200, got 128"),
        ("model.quantize_kv_cache=true", "expected model.use_kv_cache=true beside it, got false"),
        ("model.use_attention_sink=4", "expected '<sink size>,<window size>', got '4'"),
        ("base.lora_config.lora_rank=2", "base.lora_config: expected the key adapter_checkpoint"),
        ("model", "expected group.key=value, got 'model'"),
        ("base.params=${oc.env:NO_SUCH_VARIABLE}", "expected the environment variable NO_SUCH"),
    ],
)
def test_a_wrong_text_is_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_config(None, [text])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("base: 3\n", "base: expected a group of keys, got '3'"),
        ("- base\n", "expected groups of keys, got a list"),
        ("base: [\n", "expected a YAML file, got"),
        ("model:\n  use_kv_cache: 'yes'\n", "model.use_kv_cache: expected a bool, got"),
    ],
)
def test_a_wrong_file_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "config.yaml").write_text(text)
    with pytest.raises(ConfigError, match=message):
        read_config(tmp_path / "config.yaml")


def test_fields_that_were_set_later_are_checked() -> None:
    config = LlmConfig()
    config.model.use_kv_cache = "true"  # type: ignore[assignment]
    with pytest.raises(ConfigError, match=r"model\.use_kv_cache: expected a bool, got"):
        checked(config)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("base.use_lora=8", "base.use_lora: .*use_qat=true .*base.lora_config.*, got 8 and false"),
        ("backend.coreml.enabled=true", "backend.coreml.enabled: 'True' is not supported: .*xnn"),
        ("backend.coreml.ios=16", "backend.coreml.ios: '16' is not supported"),
        ("quantization.qmode=8da4w-gptq", "expected one of 8da4w, 4w, int8, got 8da4w-gptq"),
        ("quantization.group_size=64", "expected quantization.qmode beside it, got none"),
        ("quantization.embedding_quantize=3,32", "expected 2, 4 or 8 bits .* got '3,32'"),
        ("export.target=executorch", "export.target: expected executorch_py or executorch-1.5"),
        ("model.use_sdpa_with_kv_cache=true", "expected model.use_kv_cache=true beside it"),
        ("model.use_shared_embedding=true", "model.use_shared_embedding: expected false, or"),
        ("quantization.use_qat=true", "use_qat: expected base.preq_mode beside it, got none"),
        ("quantization.pt2e_quantize=qnn_8a8w", "'qnn_8a8w' is not supported: .*xnnpack_dynamic"),
        ("quantization.pt2e_quantize=xnnpack_dynamic", "backend.xnnpack.enabled=true beside it"),
    ],
)
def test_a_key_that_would_have_no_effect_is_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        refuse_unsupported(read_config(None, [text]))


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("quantization.qmode=8da4w", "expected fp32 beside quantization.qmode, got bf16"),
        ("export.target=executorch_py", "expected fp32, or export.target=executorch-1.5, got bf16"),
    ],
)
def test_halves_are_for_float_weights_of_upstreams_runtime(more: str, message: str) -> None:
    with pytest.raises(ConfigError, match=f"model.dtype_override: {message}"):
        refuse_unsupported(read_config(None, ["model.dtype_override=bf16", more]))


@pytest.mark.parametrize("name", ["generate_etrecord", "profile_memory"])
def test_graphs_alone_have_no_files_of_programs(name: str) -> None:
    with pytest.raises(ConfigError, match=f"export_only: expected false beside debug.{name}"):
        refuse_unsupported(read_config(None, ["export.export_only=true", f"debug.{name}=true"]))
