"""Helpers that scripts for upstream import: operator forms, symbolic sizes, data files, trees."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from support.tolerance import LAYERS_STEPS, assert_near, steps
from torch import nn
from torch.export import Dim, export
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

from executorch_py.backends.xnnpack.quantizer.xnnpack_quantizer import (
    XNNPACKQuantizer,
    get_symmetric_quantization_config,
)
from executorch_py.exir import EdgeProgramManager, to_edge, to_edge_transform_and_lower
from executorch_py.exir._serialize.data_serializer import DataEntry, DataPayload, DataSerializer
from executorch_py.exir._serialize.padding import aligned_size, pad_to, padding_required
from executorch_py.exir.dialects._ops import ops
from executorch_py.exir.graph_module import get_cond_while_submodules, get_scan_submodules
from executorch_py.exir.operator import convert
from executorch_py.exir.passes.quantize_io_pass import (
    QuantizeInputs,
    QuantizeOutputs,
    extract_io_quant_params,
    get_config_method_name,
    quantize_input,
    quantize_output,
)
from executorch_py.exir.schema import ScalarType, TensorShapeDynamism
from executorch_py.exir.sym_util import (
    collect_free_symbols,
    eval_expr,
    eval_shape,
    eval_shape_upper_bound,
    eval_upper_bound,
)
from executorch_py.exir.tensor import (
    determine_tensor_dynanism,
    get_scalar_type,
    scalar_type_enum,
    stride_from_dim_order,
)
from executorch_py.exir.tensor_layout import TensorLayout
from executorch_py.extension.flat_tensor.serialize.serialize import (
    FlatTensorConfig,
    FlatTensorHeader,
    FlatTensorSerializer,
)
from executorch_py.extension.pytree import from_str, tree_flatten, tree_map, tree_unflatten

aten = torch.ops.aten
X = torch.linspace(-1, 1, 24).reshape(3, 8)


def test_operators_lead_to_their_out_variants() -> None:
    assert convert.to_out_variant(aten.add.Tensor) == (aten.add.out, ("out",))
    assert convert.to_out_variant(aten.topk.default)[1] == ("values", "indices")
    assert convert.to_out_variant(aten.add.out) == (aten.add.out, ("out",))
    with pytest.raises(RuntimeError, match="Missing out variant for aten::item"):
        convert.to_out_variant(aten.item.default)
    with pytest.raises(AssertionError, match="expected an out variant"):
        convert.get_out_args_from_opoverload(aten.add.Tensor)


def test_operators_are_found_by_name_and_behind_dialects() -> None:
    assert convert.get_op_overload("aten::relu", "") is aten.relu.default
    assert convert.is_out_variant("aten::add", "out")
    assert convert.is_inplace_variant("aten::add_", "Tensor")
    assert not convert.is_inplace_variant("aten::add", "Tensor")
    assert convert.unwrap_op_overload(ops.edge.aten.add.Tensor) is aten.add.Tensor
    with pytest.raises(
        TypeError, match=r"expected an operator overload .*, got <built-in method add"
    ):
        convert.unwrap_op_overload(torch.add)
    with pytest.raises(RuntimeError, match="expected namespace::name"):
        convert.parse_qualified_opname("add")


def test_symbolic_sizes_have_a_seen_and_a_largest_value() -> None:
    class Half(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cat([x, x])

    shapes = ({0: Dim("n", min=2, max=10)},)
    ep = export(Half(), (torch.ones(4, 3),), dynamic_shapes=shapes)
    value = ep.graph.output_node().args[0][0].meta["val"]  # type: ignore[index,union-attr]
    assert eval_shape(value.shape) == [8, 3] and eval_shape_upper_bound(value.shape) == [20, 3]
    assert (eval_expr(7), eval_upper_bound(7)) == (7, 7)
    assert len(collect_free_symbols(value.shape)) == 1
    assert determine_tensor_dynanism(value.shape) == TensorShapeDynamism.DYNAMIC_BOUND
    assert determine_tensor_dynanism(X.shape) == TensorShapeDynamism.STATIC


def test_dtypes_have_names_in_the_file() -> None:
    assert scalar_type_enum(torch.bfloat16) is ScalarType.BFLOAT16
    assert get_scalar_type(ScalarType.INT) is torch.int32


def test_a_data_file_is_written_and_read() -> None:
    payload = DataPayload(
        buffers=[b"12345678", b"abc"],
        named_data={
            "a": DataEntry(0, 4, TensorLayout(ScalarType.FLOAT, [2], [0])),
            "b": DataEntry(1, 1, None),
            "again": DataEntry(0, 4, None),
        },
    )
    serializer = FlatTensorSerializer(FlatTensorConfig(segment_alignment=64))
    assert isinstance(serializer, DataSerializer)
    file = serializer.serialize(payload)
    header = FlatTensorHeader.from_bytes(bytes(file)[8:48])
    assert header.is_valid() and header.segment_base_offset % 64 == 0
    assert bytes(file)[8:12] == FlatTensorHeader.EXPECTED_MAGIC
    assert int.from_bytes(bytes(file)[12:16], "little") == FlatTensorHeader.EXPECTED_LENGTH
    found = serializer.deserialize(file)
    assert list(found.buffers) == payload.buffers
    assert found.named_data["a"].tensor_layout == payload.named_data["a"].tensor_layout
    assert found.named_data["again"].buffer_index == 0


def test_parts_of_a_file_are_padded() -> None:
    assert (padding_required(5, 4), padding_required(8, 4), aligned_size(9, 8)) == (3, 0, 16)
    assert pad_to(b"ab", 4) == b"ab\0\0"
    with pytest.raises(ValueError, match="5 bytes cannot be padded to 4"):
        pad_to(b"abcde", 4)


def test_trees_are_torchs() -> None:
    leaves, spec = tree_flatten({"a": [1, 2], "b": 3})
    assert leaves == [1, 2, 3]
    assert tree_unflatten(tree_map(lambda n: n * 2, leaves), spec) == {"a": [2, 4], "b": 6}
    assert from_str('[1, {"type": null, "context": null, "children_spec": []}]').is_leaf()


def test_bodies_are_found_by_their_operator() -> None:
    class Choice(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            result: torch.Tensor = torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))
            return result

    gm = to_edge(export(Choice(), (X,))).exported_program().graph_module
    assert len(get_cond_while_submodules(gm)) == 2 and get_scan_submodules(gm) == []


def quantized_edge() -> tuple[Any, EdgeProgramManager]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU()).eval()
    quantizer = XNNPACKQuantizer().set_global(get_symmetric_quantization_config())
    prepared = prepare_pt2e(export(model, (X,)).module(), quantizer)
    prepared(X)
    converted = convert_pt2e(prepared)
    return converted, to_edge_transform_and_lower(export(converted, (X,)))


def test_inputs_and_outputs_stay_quantized_and_tell_their_parameters() -> None:
    model, edge = quantized_edge()
    edge = edge.transform([QuantizeInputs(edge, [0]), QuantizeOutputs(edge, [0])])
    program = edge.to_executorch()
    names = [get_config_method_name(None, "input", 0, key) for key in ("scale", "zp", "dtype")]
    assert set(names) < program.config_methods
    settings = edge._config_methods
    assert settings is not None and settings["output0_dtype"] == ScalarType.CHAR
    scale, zero = settings["input0_scale"], settings["input0_zp"]
    codes = torch.clamp(torch.round(X / scale) + zero, -128, 127).to(torch.int8)
    result = program.run(codes)
    assert result.dtype == torch.int8
    real = (result.float() - settings["output0_zp"]) * settings["output0_scale"]
    assert_near(real, model(X), steps(2 * settings["output0_scale"]))


def test_a_caller_may_use_parameters_of_its_own() -> None:
    model, edge = quantized_edge()
    wish = {"scale": 0.02, "zp": 100, "dtype": torch.uint8}
    edge = edge.transform([QuantizeInputs(edge, {0: wish}, "forward")])
    codes = torch.clamp(torch.round(X / 0.02) + 100, 0, 255).to(torch.uint8)
    result = edge.to_executorch().run(codes)
    assert_near(result, model(X), LAYERS_STEPS)
    assert edge._config_methods is not None
    assert edge._config_methods["forward_input0_dtype"] == ScalarType.BYTE


def test_parameters_are_extracted_by_name() -> None:
    _, edge = quantized_edge()
    found = extract_io_quant_params(edge)
    (inputs,), (outputs,) = found["inputs"].values(), found["outputs"].values()
    assert (
        inputs.keys()
        == outputs.keys()
        == {
            "scale",
            "zero_point",
            "quant_min",
            "quant_max",
            "dtype",
        }
    )
    assert edge.exported_program().graph_signature.user_outputs[0] in found["outputs"]


def test_mistakes_in_quantized_programs_are_named() -> None:
    plain = to_edge(export(nn.ReLU(), (X,)))
    program = plain.exported_program()
    with pytest.raises(ValueError, match="input_index: expected at least 0 and less than 1, got 3"):
        quantize_input(program, 3)
    with pytest.raises(
        ValueError, match=r"input 0 .*: expected one quantize_per_tensor .*, got .*relu"
    ):
        quantize_input(program, 0)
    with pytest.raises(
        ValueError, match=r"output 0: expected dequantize_per_tensor .*, got .*relu"
    ):
        quantize_output(program, 0)
    with pytest.raises(
        ValueError, match="output_index: expected at least 0 and less than 1, got 1"
    ):
        QuantizeOutputs(plain, [1])(program.graph_module)
    with pytest.raises(AssertionError, match="expected arg_type 'input' or 'output'"):
        get_config_method_name("forward", "weight")
    _, edge = quantized_edge()
    with pytest.raises(AssertionError, match=r"scale, zp and dtype, got none for \['dtype'\]"):
        quantize_input(edge.exported_program(), 0, {"scale": 1.0, "zp": 0})


def test_dimensions_are_ordered_by_strides_that_have_an_order() -> None:
    from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode, ShapeEnv

    from executorch_py.exir.tensor import TensorSpec, dim_order_from_stride

    assert dim_order_from_stride((1, 12, 4)) == (1, 2, 0)
    with pytest.raises(RuntimeError, match="expected none of 0, got one in dimension 1"):
        dim_order_from_stride((3, 0, 1))
    env = ShapeEnv()
    u, v = env.create_unbacked_symint(), env.create_unbacked_symint()
    assert dim_order_from_stride((1, u)) == (1, 0)
    assert dim_order_from_stride((u, 2 * u, 1)) == (1, 0, 2)
    assert dim_order_from_stride((u, u)) == (0, 1)
    for undecided in ((u, v), (u, 64)):
        with pytest.raises(GuardOnDataDependentSymNode):
            dim_order_from_stride(undecided)
    with pytest.raises(RuntimeError, match="dimension 1"):
        dim_order_from_stride((u, 0, 1))
    expanded = torch.ones(2, 1, 1, 4).expand(2, 3, 5, 4)
    assert TensorSpec.from_tensor(expanded).dim_order == (0, 1, 2, 3)


def test_strides_are_a_list() -> None:
    assert stride_from_dim_order([2, 3, 4], [0, 2, 1]) == [12, 1, 3]
    assert stride_from_dim_order([], []) == []
