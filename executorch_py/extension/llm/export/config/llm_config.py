"""The configuration of `export_llm`: upstream's groups, keys, defaults and import path.

Fields that upstream does not have are marked. Relations between keys are checked when a group is
made; export_llm refuses keys that it does not support.
"""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass, field
from enum import Enum


class ModelType(str, Enum):
    """Model classes; a class that is not supported is refused by export_llm."""

    stories110m = "stories110m"
    llama2 = "llama2"
    llama3 = "llama3"
    llama3_1 = "llama3_1"
    llama3_2 = "llama3_2"
    llama3_2_vision = "llama3_2_vision"
    static_llama = "static_llama"
    qwen2_5_0_5b = "qwen2_5_0_5b"
    qwen2_5_1_5b = "qwen2_5_1_5b"
    qwen2_5_coder_32b = "qwen2_5_coder_32b"
    qwen3_0_6b = "qwen3_0_6b"
    qwen3_1_7b = "qwen3_1_7b"
    qwen3_4b = "qwen3_4b"
    qwen3_5_0_8b = "qwen3_5_0_8b"
    qwen3_5_2b = "qwen3_5_2b"
    qwen3_5_4b = "qwen3_5_4b"
    phi_4_mini = "phi_4_mini"
    smollm2 = "smollm2"
    lfm2_350m = "lfm2_350m"
    lfm2_700m = "lfm2_700m"
    lfm2_1_2b = "lfm2_1_2b"
    lfm2_5_350m = "lfm2_5_350m"
    lfm2_5_1_2b = "lfm2_5_1_2b"


class PreqMode(str, Enum):
    """Checkpoints that are quantized already: how."""

    preq_8da4w = "8da4w"
    preq_8da4w_out_8da8w = "8da4w_output_8da8w"


@dataclass
class LoraConfig:
    """An adapter: its files, or the numbers of its configuration."""

    adapter_checkpoint: str
    adapter_config: str | None = None
    lora_rank: int = 0
    lora_alpha: int = 0
    target_modules: list[str] = field(default_factory=list)
    adapter_quant: str | None = None


@dataclass
class BaseConfig:
    """The model and its files."""

    model_class: ModelType = ModelType.llama3
    params: str | None = None
    checkpoint: str | None = None
    lora_config: LoraConfig | None = None
    tokenizer_path: str | None = None
    metadata: str | None = None
    use_lora: int = 0
    preq_mode: PreqMode | None = None
    preq_group_size: int = 32
    preq_embedding_quantize: str = "8,0"


class DtypeOverride(str, Enum):
    """Types of weights and activations."""

    fp32 = "fp32"
    fp16 = "fp16"
    bf16 = "bf16"


@dataclass
class ModelConfig:
    """Changes of the model's code: shapes, attention, caches, vocabulary."""

    dtype_override: DtypeOverride = DtypeOverride.fp32
    enable_dynamic_shape: bool = True
    use_shared_embedding: bool = False
    use_sdpa_with_kv_cache: bool = False
    expand_rope_table: bool = False
    use_attention_sink: str | None = None
    output_prune_map: str | None = None
    input_prune_map: str | None = None
    use_kv_cache: bool = False
    quantize_kv_cache: bool = False
    static_quantize_kv_cache: bool = False
    static_quantize_kv_cache_scale: float = 1 / 127
    local_global_attention: list[int] | None = None
    use_moe_quantized_op: bool = False

    def __post_init__(self) -> None:
        sink = self.use_attention_sink
        if sink is not None and re.fullmatch(r"\d+,\d+", sink) is None:
            raise ValueError(
                f"model.use_attention_sink: expected '<sink size>,<window size>', got {sink!r}"
            )
        for name in ("quantize_kv_cache", "static_quantize_kv_cache", "local_global_attention"):
            if getattr(self, name) and not self.use_kv_cache:
                raise ValueError(
                    f"model.{name}: expected model.use_kv_cache=true beside it, got false"
                )
        if self.static_quantize_kv_cache and self.quantize_kv_cache:
            raise ValueError(
                "model: expected one of quantize_kv_cache and static_quantize_kv_cache, got both"
            )
        if self.static_quantize_kv_cache and self.enable_dynamic_shape:
            raise ValueError(
                "model.static_quantize_kv_cache: expected model.enable_dynamic_shape=false "
                "beside it, got true"
            )


@dataclass
class ExportConfig:
    """Sizes of the program, and its files."""

    max_seq_length: int = 128
    max_context_length: int = 128
    output_dir: str = "."
    output_name: str | None = None
    so_library: str | None = None
    export_only: bool = False
    foundation_weights_file: str | None = None
    lora_weights_file: str | None = None
    # Not upstream's. The runtime that the file is for: upstream's, or "executorch_py".
    target: str = "executorch-1.5"

    def __post_init__(self) -> None:
        for name in ("max_seq_length", "max_context_length"):
            if getattr(self, name) < 1:
                raise ValueError(f"export.{name}: expected 1 or more, got {getattr(self, name)}")
        if self.max_context_length < self.max_seq_length:
            raise ValueError(
                f"export.max_context_length: expected at least max_seq_length, "
                f"{self.max_seq_length}, got {self.max_context_length}"
            )


@dataclass
class DebugConfig:
    """Additional output."""

    profile_memory: bool = False
    profile_path: str | None = None
    generate_etrecord: bool = False
    generate_full_logits: bool = False
    verbose: bool = False


class Pt2eQuantize(str, Enum):
    """Quantizers of captured graphs."""

    xnnpack_dynamic = "xnnpack_dynamic"
    xnnpack_dynamic_qc4 = "xnnpack_dynamic_qc4"
    openvino_4wo = "openvino_4wo"
    openvino_8wo = "openvino_8wo"
    qnn_8a8w = "qnn_8a8w"
    qnn_16a16w = "qnn_16a16w"
    qnn_16a4w = "qnn_16a4w"
    coreml_c4w = "coreml_c4w"
    coreml_8a_c8w = "coreml_8a_c8w"
    coreml_8a_c4w = "coreml_8a_c4w"
    coreml_baseline_8a_c8w = "coreml_baseline_8a_c8w"
    coreml_baseline_8a_c4w = "coreml_baseline_8a_c4w"
    vulkan_8w = "vulkan_8w"
    tosa_8a8w = "tosa_8a8w"
    ethosu_8a8w = "ethosu_8a8w"
    ethosu_16a8w = "ethosu_16a8w"
    vgf_8a8w = "vgf_8a8w"
    vgf_16a8w = "vgf_16a8w"


class SpinQuant(str, Enum):
    """Kernels of the rotations of SpinQuant."""

    cuda = "cuda"
    native = "native"


class QuantizeScope(str, Enum):
    """Operators that a quantizer of captured graphs quantizes."""

    full = "full"
    linear = "linear"


QMODES = ("int8", "8da4w", "8da4w-gptq", "4w")
_TORCHAO_QMODES = re.compile(r"torchao:(8da|fpa)(\d+)w")


@dataclass
class QuantizationConfig:
    """Weights of linear layers (qmode) and of the embedding, and calibration."""

    qmode: str | None = None
    embedding_quantize: str | None = None
    pt2e_quantize: Pt2eQuantize | None = None
    group_size: int | None = None
    use_spin_quant: SpinQuant | None = None
    use_qat: bool = False
    quantize_scope: QuantizeScope = QuantizeScope.full
    calibration_tasks: list[str] | None = None
    calibration_limit: int | None = None
    calibration_seq_length: int | None = None
    calibration_data: str = "Once upon a time"
    use_hqq: bool = True

    def __post_init__(self) -> None:
        mode = self.qmode
        if mode is not None and mode not in QMODES and not _TORCHAO_QMODES.fullmatch(mode):
            raise ValueError(
                f"quantization.qmode: expected one of {', '.join(QMODES)}, torchao:8da<bits>w or "
                f"torchao:fpa<bits>w, got {mode!r}"
            )
        if self.embedding_quantize is not None:
            bits_and_group("quantization.embedding_quantize", self.embedding_quantize)


def bits_and_group(key: str, text: str) -> tuple[int, int]:
    """The numbers of "bits,group", which torchao's kernels precede with "torchao:"."""
    found = re.fullmatch(r"(?:torchao:)?(\d+),(\d+)", text)
    if found is None:
        raise ValueError(f"{key}: expected '<bits>,<group size>' such as '4,32', got {text!r}")
    return int(found[1]), int(found[2])


@dataclass
class XNNPackConfig:
    """XNNPACK: quantized linear layers, and with extended_ops all that it computes."""

    enabled: bool = False
    extended_ops: bool = False
    enable_bf16: bool = False


class CoreMLQuantize(str, Enum):
    """Weights of Core ML."""

    b4w = "b4w"
    c4w = "c4w"


class CoreMLComputeUnit(str, Enum):
    """Processors of Core ML."""

    cpu_only = "cpu_only"
    cpu_and_gpu = "cpu_and_gpu"
    cpu_and_ne = "cpu_and_ne"
    all = "all"


@dataclass
class CoreMLConfig:
    """Core ML."""

    enabled: bool = False
    enable_state: bool = False
    preserve_sdpa: bool = False
    quantize: CoreMLQuantize | None = None
    ios: int = 15
    compute_units: CoreMLComputeUnit = CoreMLComputeUnit.cpu_only


@dataclass
class VulkanConfig:
    """Vulkan."""

    enabled: bool = False
    force_fp16: bool = False


@dataclass
class QNNConfig:
    """Qualcomm's QNN."""

    enabled: bool = False
    use_sha: bool = False
    soc_model: str = "SM8650"
    use_qnn_sha: bool = False
    optimized_rotation_path: str | None = None
    num_sharding: int = 0


@dataclass
class OpenvinoConfig:
    """OpenVINO."""

    enabled: bool = False
    device: str = "CPU"
    nncf_compression_group_size: int = 32
    openvino_awq: bool = False
    openvino_scale_estimation: bool = False


@dataclass
class TorchAOKernelsConfig:
    """torchao's kernels."""

    use_torchao_kernels_linear: bool = False
    use_torchao_kernels_tied_embedding: bool = False


@dataclass
class TosaConfig:
    """TOSA."""

    enabled: bool = False
    version: str = "TOSA-1.0+INT"


@dataclass
class EthosUConfig:
    """Arm Ethos-U."""

    enabled: bool = False
    target: str = "ethos-u85-128"
    memory_mode: str = "default"
    system_config: str = "default"
    extra_flags: list[str] = field(default_factory=list)


class VgfQuantizeScope(str, Enum):
    """Operators that are quantized for VGF."""

    full = "full"
    linear = "linear"


@dataclass
class VgfConfig:
    """VGF."""

    enabled: bool = False
    compile_spec: str | None = "TOSA-1.0+INT"
    compiler_flags: list[str] = field(default_factory=list)
    quantize_scope: VgfQuantizeScope = VgfQuantizeScope.full


@dataclass
class MLXConfig:
    """MLX."""

    enabled: bool = False


@dataclass
class BackendConfig:
    """Delegates."""

    xnnpack: XNNPackConfig = field(default_factory=XNNPackConfig)
    coreml: CoreMLConfig = field(default_factory=CoreMLConfig)
    vulkan: VulkanConfig = field(default_factory=VulkanConfig)
    qnn: QNNConfig = field(default_factory=QNNConfig)
    openvino: OpenvinoConfig = field(default_factory=OpenvinoConfig)
    torchao: TorchAOKernelsConfig = field(default_factory=TorchAOKernelsConfig)
    tosa: TosaConfig = field(default_factory=TosaConfig)
    ethosu: EthosUConfig = field(default_factory=EthosUConfig)
    vgf: VgfConfig = field(default_factory=VgfConfig)
    mlx: MLXConfig = field(default_factory=MLXConfig)


@dataclass
class MethodConfig:
    """A method of a program with several: its name and adapter."""

    method_name: str
    lora_config: LoraConfig | None = None
    export_seq_len: int | None = None


@dataclass
class MultimethodConfig:
    """Several methods in one program."""

    methods: list[MethodConfig] = field(default_factory=list)
    share_mutable_buffers: bool = False


@dataclass
class LlmConfig:
    """All groups."""

    base: BaseConfig = field(default_factory=BaseConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    export: ExportConfig = field(default_factory=ExportConfig)
    debug: DebugConfig = field(default_factory=DebugConfig)
    multimethod: MultimethodConfig = field(default_factory=MultimethodConfig)
    quantization: QuantizationConfig = field(default_factory=QuantizationConfig)
    backend: BackendConfig = field(default_factory=BackendConfig)

    @classmethod
    def from_args(cls, args: argparse.Namespace) -> LlmConfig:
        """The configuration of the arguments of older scripts' command lines."""
        from executorch_py.extension.llm.export.config.from_args import config_of_args

        return config_of_args(args)
