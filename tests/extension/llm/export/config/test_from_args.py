"""Configurations of export_llm from parsed command lines of older scripts."""

from __future__ import annotations

from argparse import Namespace

import pytest

from executorch_py.extension.llm.export.config import from_args
from executorch_py.extension.llm.export.config.llm_config import (
    DtypeOverride,
    LlmConfig,
    ModelType,
)
from executorch_py.extension.llm.export.config.read_config import ConfigError


def test_no_argument_leaves_the_defaults() -> None:
    assert LlmConfig.from_args(Namespace()) == LlmConfig()


def test_each_argument_sets_its_key() -> None:
    config = LlmConfig.from_args(
        Namespace(
            model="llama3_2",
            params=None,
            checkpoint="weights.pth",
            dtype_override="fp16",
            use_kv_cache=True,
            max_seq_length=64,
            max_context_length=256,
            quantization_mode="8da4w",
            group_size=64,
            use_spin_quant="",
            xnnpack=True,
            xnnpack_extended_ops=True,
            openvino_device="GPU",
            vgf_quantize_scope="linear",
            use_torchao_kernels=False,
            use_torchao_kernels_linear=True,
            verbose=True,
            of_another_script=3,
        )
    )
    assert config.base.model_class is ModelType.llama3_2
    assert (config.base.params, config.base.checkpoint) == (None, "weights.pth")
    assert config.model.dtype_override is DtypeOverride.fp16
    assert config.model.use_kv_cache and config.debug.verbose
    assert (config.export.max_seq_length, config.export.max_context_length) == (64, 256)
    assert (config.quantization.qmode, config.quantization.group_size) == ("8da4w", 64)
    assert config.backend.openvino.nncf_compression_group_size == 64
    assert config.backend.xnnpack.enabled and config.backend.xnnpack.extended_ops
    assert config.backend.openvino.device == "GPU"
    assert config.backend.vgf.quantize_scope == config.quantization.quantize_scope == "linear"
    assert config.backend.torchao.use_torchao_kernels_linear
    assert not config.backend.torchao.use_torchao_kernels_tied_embedding


def test_arguments_that_stand_for_several_keys() -> None:
    config = LlmConfig.from_args(Namespace(use_torchao_kernels=True, mlx=True))
    assert config.backend.torchao.use_torchao_kernels_linear
    assert config.backend.torchao.use_torchao_kernels_tied_embedding
    assert config.backend.mlx.enabled and config.model.use_kv_cache
    codes = Namespace(preq_mode="8da4w", preq_group_size=64, preq_embedding_quantize="8,0")
    assert LlmConfig.from_args(codes).base.preq_group_size == 64
    lora = LlmConfig.from_args(Namespace(adapter_checkpoint="a.pt", adapter_config="a.json"))
    assert lora.base.lora_config is not None
    assert lora.base.lora_config.adapter_config == "a.json"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({"adapter_checkpoint": "a.pt"}, "adapter_checkpoint: expected adapter_config beside it"),
        ({"model": "llama32"}, "base.model_class: expected one of stories110m, .*llama3_2"),
        ({"max_seq_length": 1.5}, "export.max_seq_length: expected a int, got '1.5'"),
    ],
)
def test_a_value_that_does_not_fit_is_refused(args: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        LlmConfig.from_args(Namespace(**args))


def test_each_key_of_the_table_is_one_of_the_configuration() -> None:
    for keys in from_args._KEYS.values():
        for key in keys:
            at = LlmConfig()
            for name in key.split("."):
                at = getattr(at, name)
