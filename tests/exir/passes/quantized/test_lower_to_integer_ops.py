"""A quantized program for this project's runtime computes with integers from the first quantize to
the last dequantize node, within one quantization step of the converted graph.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from support.low_bit_network import INDICES, TORCHAO
from support.tolerance import F32_LAYERS, assert_near
from torch import nn
from torch.export import Dim
from torch.nn import functional as F

from executorch_py.exir import ExecutorchBackendConfig, to_edge
from executorch_py.quantizer import (
    XNNPACKQuantizer,
    convert_pt2e,
    get_groupwise_quantization_config,
    get_symmetric_quantization_config,
    prepare_pt2e,
)

OWN = ExecutorchBackendConfig(own_operators=True)


def converted(model: nn.Module, inputs: tuple[torch.Tensor, ...], **how: Any) -> nn.Module:
    quantizer = XNNPACKQuantizer().set_global(get_symmetric_quantization_config(**how))
    prepared = prepare_pt2e(torch.export.export(model.eval(), inputs).module(), quantizer)
    for i in range(3):
        prepared(*(x + 0.1 * i for x in inputs))
    return convert_pt2e(prepared)


def instructions(program: Any) -> list[str]:
    """Operator names in order, own ones with a star."""
    plan = program.executorch_program.execution_plan[0]
    calls = [i.instr_args for i in plan.chains[0].instructions]
    names = [plan.operators[c.op_index].name for c in calls if hasattr(c, "op_index")]
    return [n.split("::")[1] + ("*" if n.startswith("executorch_py::") else "") for n in names]


def lowered(graph: nn.Module, inputs: tuple[torch.Tensor, ...]) -> Any:
    return to_edge(torch.export.export(graph, inputs)).to_executorch(OWN)


def output_step(program: Any) -> float:
    """The quantization step of the result: the scale with which it is dequantized."""
    plan = program.executorch_program.execution_plan[0]
    last = plan.chains[0].instructions[-1].instr_args
    assert "dequantize" in plan.operators[last.op_index].name
    return float(plan.values[last.args[1]].val.double_val)


class Net(nn.Module):
    """Layers by name, and a function that calls them."""

    def __init__(self, body: Callable[..., Any], **layers: nn.Module) -> None:
        super().__init__()
        self.body = body
        for name, layer in layers.items():
            self.add_module(name, layer)

    def forward(self, x: torch.Tensor) -> Any:
        return self.body(self, x)


def image(channels: int = 6) -> torch.Tensor:
    return torch.randn(2, channels, 9, 10, generator=torch.Generator().manual_seed(channels))


def rows() -> torch.Tensor:
    return torch.randn(3, 20, generator=torch.Generator().manual_seed(1))


def conv(*args: Any, **kwargs: Any) -> nn.Conv2d:
    torch.manual_seed(sum(a for a in args if isinstance(a, int)))
    return nn.Conv2d(*args, **kwargs)


def linear(*args: int) -> nn.Linear:
    torch.manual_seed(sum(args))
    return nn.Linear(*args)


IN, OUT = ["quantize_per_tensor", "_to_dim_order_copy"], ["_to_dim_order_copy"]

# Operators between the quantization of the input and the dequantization of the result; the model.
NETWORKS: dict[str, tuple[list[str], Callable[[Net, torch.Tensor], Any], dict[str, nn.Module]]] = {
    "a convolution and its activation": (
        ["qconvolution*"],
        lambda m, x: F.relu(m.c(x)),
        {"c": conv(6, 8, 3, padding=1)},
    ),
    "grouped and depthwise": (
        ["qconvolution*", "qconvolution*", "qconvolution*"],
        lambda m, x: m.p(F.hardtanh(m.d(F.relu6(m.c(x))), -1, 1)),
        {
            "c": conv(6, 8, 3, padding=1, groups=2, bias=False),
            "d": conv(8, 8, 3, stride=2, groups=8),
            "p": conv(8, 5, 1),
        },
    ),
    "a residual sum": (
        ["qconvolution*", "qconvolution*", "qadd*"],
        lambda m, x: F.relu(m.c(x) + m.d(x)),
        {"c": conv(6, 8, 1), "d": conv(6, 8, 3, padding=1)},
    ),
    "a gate": (
        ["qconvolution*", "qmean*", "qconvolution*", "qmul*"],
        lambda m, x: (lambda y: y * m.d(F.adaptive_avg_pool2d(y, 1)))(m.c(x)),
        {"c": conv(6, 8, 1), "d": conv(8, 8, 1)},
    ),
    "steps that are looked up": (
        ["qconvolution*", "qlookup*", "qconvolution*"],
        lambda m, x: m.d(F.hardswish(m.c(x))),
        {"c": conv(6, 8, 1), "d": conv(8, 5, 1)},
    ),
    "a pool and a join": (
        ["qconvolution*", "qconvolution*", "cat", "qmax_pool2d*"],
        lambda m, x: F.max_pool2d(torch.cat([m.c(x), m.d(x)], 1), 3, 2, 1),
        {"c": conv(6, 8, 1), "d": conv(6, 3, 1)},
    ),
}


def check(model: nn.Module, x: torch.Tensor, **how: Any) -> Any:
    """The program, whose result is within one quantization step of the converted graph's."""
    graph = converted(model, (x,), **how)
    program = lowered(graph, (x,))
    wanted, got = graph(x), program.run(x)
    assert got.shape == wanted.shape
    assert (got - wanted).abs().max() <= output_step(program) * 1.01
    assert wanted.unique().numel() > 5
    return program


@pytest.mark.parametrize("case", NETWORKS)
def test_a_network_of_images_stays_in_integers(case: str) -> None:
    between, body, layers = NETWORKS[case]
    program = check(Net(body, **layers), image(), is_per_channel=case != "a residual sum")
    assert instructions(program) == [*IN, *between, *OUT, "dequantize_per_tensor"]


def test_linear_layers_and_what_moves_rows_stay_in_integers() -> None:
    def body(m: Net, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(m.a(x)).reshape(3, 4, 4).transpose(1, 2)
        return m.b(y)

    program = check(Net(body, a=linear(20, 16), b=linear(4, 7)), rows(), is_per_channel=True)
    names = instructions(program)
    assert [n for n in names if n.endswith("*")] == ["qlinear*", "qlinear*"]
    assert [names[0], names[-1]] == ["quantize_per_tensor", "dequantize_per_tensor"]
    assert sum("quantize" in n for n in names) == 2
    assert not {"mul", "add", "addmm", "mm"} & set(names)


def test_one_dimensional_convolutions_are_images_of_one_row() -> None:
    torch.manual_seed(0)
    layers = {"c": nn.Conv1d(4, 6, 3, padding=2, dilation=2), "d": nn.Conv1d(6, 5, 2, stride=2)}
    x = torch.randn(2, 4, 20, generator=torch.Generator().manual_seed(2))
    program = check(Net(lambda m, x: m.d(F.relu(m.c(x))), **layers), x, is_per_channel=True)
    names = instructions(program)
    assert [n for n in names if n.endswith("*")] == ["qconvolution*", "qconvolution*"]
    assert names[names.index("qconvolution*") + 1] == "qconvolution*"


@pytest.mark.parametrize(
    ("kernel", "stride", "padding", "more"),
    [(2, 2, 0, 0), (3, 2, 1, 1), (4, 2, 1, 0), (3, 1, 0, 0)],
)
def test_transposed_convolutions_are_plain_ones(
    kernel: int, stride: int, padding: int, more: int
) -> None:
    torch.manual_seed(kernel)
    layer = nn.ConvTranspose2d(6, 5, kernel, stride, padding, more)
    program = check(Net(lambda m, x: F.relu(m.c(x)), c=layer), image(), is_per_channel=True)
    names = instructions(program)
    assert "qconvolution*" in names and "convolution" not in names


def test_batches_of_any_size_are_computed() -> None:
    _, body, layers = NETWORKS["a gate"]
    model, x = Net(body, **layers), image()
    dynamic = ({0: Dim("batch", min=1, max=5)},)
    quantizer = XNNPACKQuantizer().set_global(get_symmetric_quantization_config())
    exported = torch.export.export(model.eval(), (x,), dynamic_shapes=dynamic)
    prepared = prepare_pt2e(exported.module(), quantizer)
    prepared(x), prepared(x + 0.1)
    graph = convert_pt2e(prepared)
    program = to_edge(torch.export.export(graph, (x,), dynamic_shapes=dynamic)).to_executorch(OWN)
    assert {"qconvolution*", "qmean*", "qmul*"} <= set(instructions(program))
    for batch in (1, 2, 5):
        inputs = torch.cat([x, x, x])[:batch]
        assert (program.run(inputs) - graph(inputs)).abs().max() <= output_step(program) * 1.01


def test_parts_with_other_scales_are_joined_by_tables() -> None:
    """A pattern written by hand: quantizers give the operands of a concatenation one scale."""

    class Join(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            ops = torch.ops.quantized_decomposed
            parts = []
            for scale, zero_point in ((0.05, 3), (0.021, -7)):
                q = ops.quantize_per_tensor(x, scale, zero_point, -128, 127, torch.int8)
                parts.append(ops.dequantize_per_tensor(q, scale, zero_point, -128, 127, torch.int8))
            q = ops.quantize_per_tensor(torch.cat(parts), 0.05, 3, -128, 127, torch.int8)
            return ops.dequantize_per_tensor(q, 0.05, 3, -128, 127, torch.int8)

    x = torch.linspace(-8, 8, 300)
    program = lowered(Join(), (x,))
    names = instructions(program)
    assert names.count("qlookup*") == 1
    assert sum("quantize" in n for n in names) == 3
    assert torch.equal(program.run(x), Join()(x))


def test_attention_between_integer_layers_stays_whole() -> None:
    def body(m: Net, x: torch.Tensor) -> torch.Tensor:
        q, k, v = m.a(x).reshape(2, 5, 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
        return m.b(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(2, 5, 8))

    x = torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(3))
    program = check(Net(body, a=linear(8, 24), b=linear(8, 8)), x, is_per_channel=True)
    own = [n for n in instructions(program) if n.endswith("*")]
    assert own == ["qlinear*", "scaled_dot_product_attention*", "qlinear*"]


@pytest.mark.parametrize("is_per_channel", [True, False])
def test_a_dynamic_layer_multiplies_integers(is_per_channel: bool) -> None:
    model = Net(lambda m, x: m.b(F.gelu(m.a(x))), a=linear(20, 33), b=linear(33, 5))
    x = rows() if is_per_channel else rows().reshape(3, 1, 20).expand(3, 2, 20).contiguous()
    graph = converted(model, (x,), is_per_channel=is_per_channel, is_dynamic=True)
    program = lowered(graph, (x,))
    names = instructions(program)
    assert names.count("qlinear_float*") == 2
    assert not {n for n in names if n.startswith("dequantize")}
    assert_near(program.run(x), graph(x), F32_LAYERS)


@pytest.mark.parametrize(
    ("group", "bias"), [(32, True), (64, False), (128, True), (256, False), (None, True)]
)
def test_weights_of_4_bits_in_groups_are_multiplied_by_integers(
    group: int | None, bias: bool
) -> None:
    torch.manual_seed(0)
    layer, x = nn.Linear(256, 37, bias=bias).eval(), torch.randn(5, 256)
    sizes = ({0: Dim("rows", min=0, max=70)},)
    quantizer = XNNPACKQuantizer().set_global(get_groupwise_quantization_config(4, group))
    exported = torch.export.export(layer, (x,), dynamic_shapes=sizes)
    graph = convert_pt2e(prepare_pt2e(exported.module(), quantizer))
    edge = to_edge(torch.export.export(graph, (x,), dynamic_shapes=sizes))
    program = edge.to_executorch(OWN)
    names = instructions(program)
    assert names.count("qlinear_groups*") == 1
    assert not [n for n in names if "dequantize" in n or "embedding" in n or n == "linear"]
    assert len(program.buffer) < len(edge.to_executorch().buffer) + 4096
    for n in (0, 1, 5, 70):
        rows = 3 * torch.randn(n, 256) + 1
        assert_near(program.run(rows), graph(rows), F32_LAYERS)


@pytest.mark.parametrize("name", ["8da4w", "8da4w with zero points"])
def test_what_torchao_makes_4_bits_is_multiplied_by_integers(name: str) -> None:
    model = TORCHAO[name]()
    with torch.no_grad():
        program = lowered(model, (INDICES,))
        wanted = model(INDICES)
    names = instructions(program)
    assert names.count("qlinear_groups*") == 2
    assert not [n for n in names if "dequantize" in n or "embedding_4bit" in n or n == "linear"]
    # An activation between two integers may fall on either side.
    assert float((program.run(INDICES) - wanted).abs().max() / wanted.abs().max()) < 0.006


def test_steps_on_one_tensor_are_looked_up() -> None:
    """A pattern written by hand: quantizers mark few activations."""

    class Steps(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            ops = torch.ops.quantized_decomposed
            q = ops.quantize_per_tensor(x, 0.05, 3, -128, 127, torch.int8)
            y = ops.dequantize_per_tensor(q, 0.05, 3, -128, 127, torch.int8)
            y = F.hardswish(y) * torch.sigmoid(y)
            q = ops.quantize_per_tensor(y, 0.02, -100, -128, 127, torch.int8)
            return ops.dequantize_per_tensor(q, 0.02, -100, -128, 127, torch.int8)

    x = torch.linspace(-8, 8, 1000)
    program = lowered(Steps(), (x,))
    assert instructions(program) == ["quantize_per_tensor", "qlookup*", "dequantize_per_tensor"]
    assert torch.equal(program.run(x), Steps()(x))


def test_without_own_operators_nothing_changes() -> None:
    _, body, layers = NETWORKS["a residual sum"]
    graph = converted(Net(body, **layers), (image(),))
    program = to_edge(torch.export.export(graph, (image(),))).to_executorch()
    assert not [n for n in instructions(program) if n.endswith("*")]
