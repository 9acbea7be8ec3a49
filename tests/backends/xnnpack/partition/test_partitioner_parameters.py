"""Names, parameters and defaults of upstream's XNNPACK package, which scripts import.

CONFIGS is recorded from upstream 1.5.1: class, module, operator, kinds of arithmetic by number, and
the namespace of the operator that must not be decomposed.
"""

from __future__ import annotations

import importlib
import inspect
from typing import Any

import pytest
import torch

from executorch_py.backends.xnnpack.partition.config import ALL_PARTITIONER_CONFIGS
from executorch_py.backends.xnnpack.partition.config.generic_node_configs import EluConfig

CONFIGS = """
AbsConfig generic_node abs.default 1
AddConfig generic_node add.Tensor 12
AddmmConfig gemm addmm.default 123
AvgPoolingConfig generic_node avg_pool2d.default 1
BMMConfig generic_node bmm.default 1
BatchNormConfig node _native_batch_norm_legit_no_training.default 1
CatConfig generic_node cat.default 12
CeilConfig generic_node ceil.default 1
ChooseQParamsAffineConfig quant_affine choose_qparams_affine.default 3 torchao
ClampConfig generic_node clamp.default 12
CloneConfig generic_node clone.default 1
CloneDimOrderConfig generic_node _clone_dim_order.default 1
ConstantPadConfig generic_node constant_pad_nd.default 1
ConvolutionConfig gemm convolution.default 123
CosConfig generic_node cos.default 1
DeQuantizeAffineConfig quant_affine dequantize_affine.default 3 torchao
DeQuantizedPerTensorConfig generic_node dequantize_per_tensor.default 2
DivConfig generic_node div.Tensor 1
ExpConfig generic_node exp.default 1
FloorConfig generic_node floor.default 1
GeluConfig generic_node gelu.default 1
HardswishConfig generic_node hardswish.default 1 aten
HardtanhConfig generic_node hardtanh.default 12
LeakyReLUConfig generic_node leaky_relu.default 1
LinearConfig gemm linear.default 123 aten
LogConfig generic_node log.default 1
MMConfig gemm mm.default 123
MaxDimConfig node max.dim 1
MaxPool2dConfig generic_node max_pool2d.default 12 aten
MaximumConfig generic_node maximum.default 1
MeanDimConfig generic_node mean.dim 12
MinimumConfig generic_node minimum.default 1
MulConfig generic_node mul.Tensor 12
NegConfig generic_node neg.default 1
PermuteConfig generic_node permute_copy.default 12
PowConfig generic_node pow.Tensor_Scalar 1
PreluConfig node prelu.default 1 aten
QuantizeAffineConfig quant_affine quantize_affine.default 3 torchao
QuantizedPerTensorConfig generic_node quantize_per_tensor.default 2
ReLUConfig generic_node relu.default 12
ReciprocalSquareRootConfig generic_node rsqrt.default 1
SigmoidConfig generic_node sigmoid.default 1
SinConfig generic_node sin.default 1
SliceCopyConfig generic_node slice_copy.Tensor 12
SoftmaxConfig generic_node _softmax.default 1
SquareRootConfig generic_node sqrt.default 1
SubConfig generic_node sub.Tensor 12
TanhConfig generic_node tanh.default 1
ToDimOrderCopyConfig generic_node _to_dim_order_copy.default 12
UnsqueezeCopyConfig generic_node unsqueeze_copy.default 12
UpsampleBilinear2dConfig generic_node upsample_bilinear2d.vec 1 aten
ViewCopyConfig generic_node view_copy.default 12
"""
ROWS = [row.split() for row in CONFIGS.strip().splitlines()]
PACKAGE = "executorch_py.backends.xnnpack"


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_a_config_is_about_the_operator_that_upstreams_is_about(row: list[str]) -> None:
    name, module, target_name, kinds, *whole = row
    path = f"{PACKAGE}.partition.config"
    cls: Any = getattr(importlib.import_module(f"{path}.{module}_configs"), name)
    assert cls is getattr(importlib.import_module(path), name)
    assert (cls.__name__, cls.__module__) == (name, f"{path}.{module}_configs")
    config = cls(force_non_static_weights_for_f32_linear=True, enable_bf16=True)
    assert config.target_name == target_name
    assert {str(kind.value) for kind in config.supported_precision_types()} == set(kinds)
    assert config.enabled_precision_types == config.supported_precision_types()
    assert config.force_non_static_weights_for_f32_linear and config.enable_bf16
    original = config.get_original_aten()
    expected: Any = torch.ops if whole else None
    for part in [*whole, *target_name.split(".")] if whole else []:
        expected = getattr(expected, part)
    assert original is expected


def test_the_list_of_all_configs_is_upstreams() -> None:
    assert {config.__name__ for config in ALL_PARTITIONER_CONFIGS} == {row[0] for row in ROWS}
    assert EluConfig not in ALL_PARTITIONER_CONFIGS
    assert EluConfig.target_name == "elu.default"


PARAMETERS = {
    "XnnpackBackend.preprocess": "edge_program, compile_specs",
    "XnnpackDynamicallyQuantizedPartitioner": "**kwargs",
    "XnnpackPartitioner": "configs=None, config_precisions=None, per_op_mode=False, "
    "verbose=False, **kwargs",
    "get_xnnpack_edge_compile_config": "skip_dim_order=False",
    "get_xnnpack_executorch_backend_config": "additional_passes=None",
    "partition.config.gemm_configs.GEMMConfig": "**kwargs",
    "partition.config.generic_node_configs.GenericNodePartitionerConfig": "**kwargs",
    "partition.config.quant_affine_configs.QDQAffineConfigs": "**kwargs",
    "partition.config.xnnpack_config.XNNPartitionerConfig": "**kwargs",
    "partition.config.xnnpack_config.XNNPartitionerConfig.check_common_constraints": "self, "
    "node, ep",
    "partition.config.xnnpack_config.XNNPartitionerConfig.check_constraints": "self, node, ep",
    "partition.config.xnnpack_config.XNNPartitionerConfig.get_node_and_deps": "self, node, ep",
    "partition.config.xnnpack_config.XNNPartitionerConfig.get_original_aten": "self",
    "partition.config.xnnpack_config.XNNPartitionerConfig.get_partition": "self, node, ep",
    "partition.config.xnnpack_config.XNNPartitionerConfig.set_enabled_precision_types": "self, "
    "precision_types",
    "partition.xnnpack_partitioner.XnnpackFloatingPointPartitioner": "",
    "partition.xnnpack_partitioner.XnnpackQuantizedPartitioner": "",
    "quantizer.xnnpack_quantizer.XNNPACKQuantizer": "",
    "quantizer.xnnpack_quantizer.get_symmetric_quantization_config": "is_per_channel=False, "
    "is_qat=False, is_dynamic=False, act_qmin=-128, act_qmax=127, weight_qmin=-127, "
    "weight_qmax=127",
    "utils.configs.get_transform_passes": "additional_passes=None",
    "xnnpack_preprocess.XnnpackBackend": "",
}


def _found(path: str) -> Any:
    parts = [PACKAGE, *path.split(".")]
    for n in range(len(parts) - 1, 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:n]))
        except ImportError:
            continue
        for name in parts[n:]:
            found = getattr(found, name)
        return found
    raise AssertionError(path)


@pytest.mark.parametrize("path", PARAMETERS)
def test_parameters_have_upstreams_names_and_defaults(path: str) -> None:
    texts = [
        str(p.replace(annotation=inspect.Parameter.empty))
        for p in inspect.signature(_found(path)).parameters.values()
    ]
    assert ", ".join(texts) == PARAMETERS[path]


def test_kinds_of_arithmetic_have_upstreams_values() -> None:
    kinds = _found("partition.config.xnnpack_config.ConfigPrecisionType")
    assert {kind.name: kind.value for kind in kinds} == {
        "FP32": 1,
        "STATIC_QUANT": 2,
        "DYNAMIC_QUANT": 3,
    }
