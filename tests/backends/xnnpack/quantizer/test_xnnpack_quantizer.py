"""XNNPACKQuantizer: annotated operators, precedence of settings, results within a few steps."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from support.tolerance import EXACT, SMALL_LAYER_STEPS, assert_near
from torch import fx, nn
from torch.nn import functional as F

from executorch_py.backends.xnnpack import XnnpackPartitioner
from executorch_py.exir import EdgeProgramManager, to_edge, to_edge_transform_and_lower
from executorch_py.quantizer import (
    AnnotationError,
    QuantizationConfig,
    XNNPACKQuantizer,
    calibrate,
    convert_pt2e,
    get_symmetric_quantization_config,
    prepare_pt2e,
)
from executorch_py.quantizer.patterns import LIMITS

aten = torch.ops.aten
STATIC = get_symmetric_quantization_config(is_per_channel=True)
DYNAMIC = get_symmetric_quantization_config(is_per_channel=True, is_dynamic=True)


class Two(nn.Module):
    """Two modules of one class, one of another, and a sum."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)
        self.c = nn.Sequential(nn.Conv1d(1, 4, 3), nn.ReLU())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.c((self.a(x) + self.b(x)).unsqueeze(1))


def converted(model: nn.Module, quantizer: XNNPACKQuantizer, *shape: int) -> fx.GraphModule:
    torch.manual_seed(1)
    data = [torch.randn(shape) for _ in range(4)]
    exported = torch.export.export(model.eval(), (data[0],))
    prepared = prepare_pt2e(exported.module(), quantizer)
    calibrate(prepared, data)
    return convert_pt2e(prepared)


def quantized_names(graph: fx.GraphModule) -> set[str]:
    """The names of operators on integers: with quantized weights, or operands and result."""
    nodes = [n for n in graph.graph.nodes if n.op == "call_function" and not is_conversion(n)]
    return {node.name for node in nodes if has_integers(node)}


def is_conversion(node: fx.Node) -> bool:
    return "quantize" in str(node.target)


def has_integers(node: fx.Node) -> bool:
    operands = [n for n in node.all_input_nodes if "dequantize" in str(n.target)]
    if any(n.args[0].op == "get_attr" for n in operands):
        return True
    after = list(node.users)
    after = list(after[0].users) if len(after) == 1 and after[0].target in LIMITS else after
    return bool(operands) and any(is_conversion(n) for n in after)


def limits_on_image(limit: Callable[[torch.Tensor], torch.Tensor]) -> nn.Module:
    class Limited(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.conv = nn.Conv2d(3, 4, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return limit(self.conv(x))

    return Limited()


def test_all_that_is_supported_is_marked() -> None:
    graph = converted(Two(), XNNPACKQuantizer().set_global(STATIC), 4, 8)
    assert {"linear", "linear_1", "add", "conv1d", "unsqueeze"} <= quantized_names(graph)


@pytest.mark.parametrize(
    ("name", "limit"),
    [("relu", F.relu), ("relu6", F.relu6), ("hardtanh", lambda x: F.hardtanh(x, -1, 2))],
)
def test_a_limit_is_part_of_what_it_follows(
    name: str, limit: Callable[[torch.Tensor], torch.Tensor]
) -> None:
    graph = converted(limits_on_image(limit), XNNPACKQuantizer().set_global(STATIC), 2, 3, 6, 6)
    conv = next(n for n in graph.graph.nodes if n.target is aten.conv2d.default)
    assert next(iter(conv.users)).target in LIMITS


def test_a_name_counts_before_a_type_before_an_operator_before_all() -> None:
    def marked(quantizer: XNNPACKQuantizer) -> set[str]:
        return quantized_names(converted(Two(), quantizer, 4, 8)) - {"unsqueeze"}

    assert marked(XNNPACKQuantizer().set_module_name("a", STATIC)) == {"linear"}
    assert marked(XNNPACKQuantizer().set_module_type(nn.Linear, STATIC)) == {"linear", "linear_1"}
    assert marked(XNNPACKQuantizer().set_operator_type(aten.conv1d, STATIC)) == {"conv1d"}
    without_b = XNNPACKQuantizer().set_global(STATIC).set_module_name("b", None)
    assert "linear_1" not in marked(without_b) and "linear" in marked(without_b)
    no_linear = XNNPACKQuantizer().set_global(STATIC).set_operator_type(aten.linear, None)
    assert marked(no_linear) == {"add", "conv1d"}
    by_name = XNNPACKQuantizer().set_module_type(nn.Linear, None).set_module_name("a", STATIC)
    assert marked(by_name) == {"linear"}


def test_a_filter_says_which_nodes() -> None:
    quantizer = XNNPACKQuantizer().set_global(STATIC).set_filter_function(lambda n: n.name == "add")
    assert quantized_names(converted(Two(), quantizer, 4, 8)) - {"unsqueeze"} == {"add"}


def test_an_operator_that_cannot_be_quantized_is_refused() -> None:
    with pytest.raises(
        ValueError, match=r"runs quantized, one of .*aten.linear.default.*, got aten.softmax"
    ):
        XNNPACKQuantizer().set_operator_type(aten.softmax, STATIC)


def test_scales_of_run_time_are_for_products_alone() -> None:
    graph = converted(Two(), XNNPACKQuantizer().set_global(DYNAMIC), 4, 8)
    assert quantized_names(graph) == {"linear", "linear_1"}
    assert any("choose_qparams" in str(n.target) for n in graph.graph.nodes)


class Positions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rows, self.last = nn.Parameter(torch.randn(9, 8)), nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(x + self.rows[torch.arange(x.shape[0]) + 2])


def test_numbers_added_to_positions_stay_numbers() -> None:
    graph = converted(Positions(), XNNPACKQuantizer().set_global(STATIC), 4, 8)
    assert quantized_names(graph) >= {"linear"}


class Numbers(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x + 1.5) * 0.25 + torch.arange(6)


def test_numbers_become_constants_and_integers_stay_what_they_are() -> None:
    graph = converted(Numbers(), XNNPACKQuantizer().set_global(STATIC), 4, 6)
    assert quantized_names(graph) == {"add", "mul"}
    x = torch.randn(4, 6)
    assert (graph(x) - Numbers()(x)).abs().max() < 0.05


class Images(nn.Module):
    """A residual block with a concatenation, a pool, a mean, a transposed convolution."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.deep, self.up = nn.Conv2d(8, 8, 3, 1, 1, groups=8), nn.ConvTranspose2d(8, 8, 2, 2)
        self.last = nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.relu(self.norm(self.first(x)))
        x = F.max_pool2d(F.relu6(self.deep(x)) + x, 2)
        x = torch.cat([self.up(x), self.up(x) * 2], 1)
        return self.last(x.mean((2, 3)))


def test_a_network_of_images_is_one_delegate_within_steps_of_eager() -> None:
    model = Images().eval()
    graph = converted(model, XNNPACKQuantizer().set_global(STATIC), 2, 3, 8, 8)
    x = torch.randn(2, 3, 8, 8)
    edge = to_edge_transform_and_lower(
        torch.export.export(graph, (x,)), partitioner=[XnnpackPartitioner()]
    )
    assert len(edge.delegation_summary().delegates) == 1
    found = edge.to_executorch().run(x)
    reference = graph(x)
    assert (torch.as_tensor(found) - reference).abs().max() <= 2 * step(graph)
    assert (reference - model(x)).abs().max() < 0.1 * model(x).abs().max()


def step(graph: fx.GraphModule) -> float:
    """The scale of the result."""
    output = next(n for n in graph.graph.nodes if n.op == "output")
    return float(output.all_input_nodes[0].args[1])


@pytest.mark.parametrize("switch", ["is_per_channel", "is_qat", "is_dynamic"])
def test_a_configuration_has_upstreams_switches(switch: str) -> None:
    config = get_symmetric_quantization_config(**{switch: True})
    assert isinstance(config, QuantizationConfig)
    assert config.is_qat == (switch == "is_qat")
    assert (config.output_activation is None) == (switch == "is_dynamic")
    per_channel = config.weight.qscheme is torch.per_channel_symmetric
    assert per_channel == (switch == "is_per_channel")


def test_upstreams_path_gives_the_same_quantizer() -> None:
    from executorch_py.backends.xnnpack.quantizer import xnnpack_quantizer as theirs

    assert theirs.XNNPACKQuantizer is XNNPACKQuantizer
    assert theirs.get_symmetric_quantization_config is get_symmetric_quantization_config


@pytest.mark.parametrize(
    "bounds",
    [{"act_qmin": 0, "act_qmax": 255}, {"weight_qmin": -300}, {"act_qmin": 5, "act_qmax": 5}],
)
def test_bounds_beyond_int8_are_refused(bounds: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="expected a range within -128 … 127"):
        get_symmetric_quantization_config(**bounds)


class Joined(nn.Module):
    """Twice a concatenation, of which some operands may have no elements."""

    def forward(self, *parts: torch.Tensor) -> torch.Tensor:
        joined = torch.cat(parts, 0)
        return joined + joined


@pytest.mark.parametrize("lower", [to_edge_transform_and_lower, to_edge])
@pytest.mark.parametrize("rows", [(0, 1, 3, 0), (2, 0)])
def test_a_concatenation_with_empty_operands_is_quantized(
    rows: tuple[int, ...], lower: Callable[..., EdgeProgramManager]
) -> None:
    torch.manual_seed(0)
    parts = tuple(torch.randn(n, 2, 3) for n in rows)
    quantizer = XNNPACKQuantizer().set_global(STATIC)
    prepared = prepare_pt2e(torch.export.export(Joined(), parts).module(), quantizer)
    calibrate(prepared, [parts, tuple(-part for part in parts)])
    model = convert_pt2e(prepared)
    assert quantized_names(model) == {"cat", "add"}
    edge = lower(torch.export.export(model, parts)).to_backend(XnnpackPartitioner())
    assert all(record.delegate for record in edge.delegation_summary().records)
    found = edge.to_executorch().run(*parts)
    assert_near(found, model(*parts), EXACT)
    assert_near(found, Joined()(*parts), SMALL_LAYER_STEPS)


def test_a_concatenation_of_empty_operands_alone_stays_as_it_is() -> None:
    parts = (torch.zeros(0, 2), torch.zeros(0, 2))
    quantizer = XNNPACKQuantizer().set_global(STATIC)
    with pytest.raises(AnnotationError, match="has no elements"):
        prepare_pt2e(torch.export.export(Joined(), parts).module(), quantizer)


class Rotated(nn.Module):
    """Halves of transposed heads, changed places, as for positions by rotation."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        heads = (x + 1).view(2, 5, 4, 6).transpose(1, 2)
        return torch.cat([-heads[..., 3:], heads[..., :3]], -1)


def test_an_operand_that_is_a_view_in_another_order_is_quantized() -> None:
    quantizer = XNNPACKQuantizer().set_global(STATIC)
    model = converted(Rotated(), quantizer, 2, 5, 24)
    assert {"add", "cat"} <= quantized_names(model)
    x = torch.randn(2, 5, 24)
    edge = to_edge_transform_and_lower(
        torch.export.export(model, (x,)), partitioner=[XnnpackPartitioner()]
    )
    assert edge.to_executorch().verify(model, x).ok
