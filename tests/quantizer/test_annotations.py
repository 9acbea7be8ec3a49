"""Warnings about settings that match nothing, and reasons of calls left float."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import fx, nn

from executorch_py.backends.xnnpack import XnnpackPartitioner
from executorch_py.exir import to_edge_transform_and_lower
from executorch_py.quantizer import (
    AnnotationWarning,
    ComposableQuantizer,
    XNNPACKQuantizer,
    convert_pt2e,
    get_symmetric_quantization_config,
    left_float,
    prepare_pt2e,
    report,
)

aten = torch.ops.aten
STATIC = get_symmetric_quantization_config(is_per_channel=True)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(4, 4), nn.GELU())
        self.head, self.gate = nn.Linear(4, 2), nn.Sigmoid()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.gate(self.head(self.encoder(x)))


def prepared(quantizer: XNNPACKQuantizer, dtype: torch.dtype = torch.float32) -> fx.GraphModule:
    x = torch.randn(3, 4, dtype=dtype)
    exported = torch.export.export(Net().eval().to(dtype), (x,))
    return prepare_pt2e(exported.module(), quantizer)


def everything() -> XNNPACKQuantizer:
    return XNNPACKQuantizer().set_global(STATIC)


WARNED: dict[str, tuple[Callable[[], XNNPACKQuantizer], str]] = {
    "nothing set": (
        XNNPACKQuantizer,
        r"in the whole model: nothing is annotated.*linear, linear_1: no configuration or filter",
    ),
    "a filter that lets nothing through": (
        lambda: everything().set_filter_function(lambda node: False),
        "in the whole model: nothing is annotated",
    ),
    "a name that no module has": (
        lambda: everything().set_module_name("encoder.o", None),
        r"set_module_name\('encoder.o'\): no call comes from.*; similar names are encoder.1, enc",
    ),
    "nothing but a name that no module has": (
        lambda: XNNPACKQuantizer().set_module_name("encoder.o", STATIC),
        r"set_module_name\('encoder.o'\): no call comes from.*; similar names are encoder.1, enc",
    ),
    "a module without products": (
        lambda: everything().set_module_name("gate", STATIC),
        "module gate: nothing is annotated.* sigmoid: XNNPACK's payload has it for floats only",
    ),
    "a type that is not there": (
        lambda: everything().set_module_type(nn.Conv2d, STATIC),
        "modules of Conv2d: nothing is annotated",
    ),
    "an operator that is not there": (
        lambda: everything().set_operator_type(aten.conv2d, STATIC),
        "calls of aten.conv2d: nothing is annotated",
    ),
}


@pytest.mark.parametrize("what", WARNED)
def test_what_is_set_for_nothing_is_warned_of(what: str) -> None:
    quantizer, message = WARNED[what]
    with pytest.warns(AnnotationWarning, match=message) as found:
        prepared(quantizer())
    assert found[0].filename == __file__


def test_half_precision_is_warned_of_by_name() -> None:
    with pytest.warns(AnnotationWarning, match="linear, gelu, .*: it reads float16; float32 alone"):
        prepared(everything(), torch.float16)


def test_what_is_set_for_something_is_not_warned_of(recwarn: pytest.WarningsRecorder) -> None:
    everyone = everything().set_module_name("encoder", None).set_module_type(nn.Conv2d, None)
    everyone.set_operator_type(aten.linear, STATIC).set_module_name("head", STATIC)
    prepared(everyone)
    assert [w for w in recwarn if issubclass(w.category, AnnotationWarning)] == []


def test_the_report_tells_what_is_left_float() -> None:
    model = prepared(everything().set_module_name("head", None))
    rows = {row.name: row for row in left_float(model).rows}
    assert rows.keys() == {"gelu", "linear_1", "sigmoid"}
    assert rows["gelu"].module == "encoder.1" and rows["gelu"].operator == "gelu"
    assert rows["linear_1"].reason == "its configuration is None"
    assert left_float(model).records()[0]["reason"] == rows["gelu"].reason
    assert "3 calls left float" in str(report(model))


def test_moves_are_not_left_float_and_limits_say_whose_scale_they_lack() -> None:
    class Model(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(x.narrow(1, 0, 2).movedim(0, 1))

    exported = torch.export.export(Model(), (torch.randn(2, 4),))
    with pytest.warns(AnnotationWarning, match="quantized. relu: it takes the scale of its op"):
        model = prepare_pt2e(exported.module(), everything())
    assert [row.operator for row in left_float(model).rows] == ["relu"]


def test_convolutions_over_three_dimensions_have_a_reason() -> None:
    exported = torch.export.export(nn.Conv3d(2, 3, 2).eval(), (torch.randn(1, 2, 3, 3, 3),))
    with pytest.warns(AnnotationWarning, match="conv3d: it convolves over 3 dimensions, not 1 or"):
        prepare_pt2e(exported.module(), everything())


def test_what_nobody_speaks_of_is_for_other_quantizers() -> None:
    head = XNNPACKQuantizer().set_module_name("head", STATIC)
    model = prepared(ComposableQuantizer([head, everything()]))
    assert {row.operator for row in left_float(model).rows} == {"gelu", "sigmoid"}
    left = XNNPACKQuantizer().set_module_name("head", STATIC).set_global(None)
    model = prepared(ComposableQuantizer([left, everything()]))
    assert {row.operator for row in left_float(model).rows} == {"gelu", "sigmoid", "linear"}


class Positions(nn.Module):
    """Position values computed from sizes, with minus infinity among them, and a product."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table, self.last = nn.Linear(1, 8), nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        near = torch.arange(x.shape[0]).float()
        far = torch.log(near / 2) * 3
        places = torch.where(near < 1, near, far).unsqueeze(1)
        return self.last(x + self.table(torch.cat([places, places])[: x.shape[0]]))


@pytest.mark.parametrize("is_dynamic", [False, True])
def test_what_depends_on_sizes_alone_stays_float(is_dynamic: bool) -> None:
    sizes = ({0: torch.export.Dim("n", min=2, max=9)},) if is_dynamic else None
    exported = torch.export.export(Positions(), (torch.randn(4, 8),), dynamic_shapes=sizes)
    model = prepare_pt2e(exported.module(), everything())
    assert left_float(model).rows == ()
    for _ in range(2):
        model(torch.randn(4, 8))
    graph, x = convert_pt2e(model), torch.randn(4, 8)
    quantized = [n for n in graph.graph.nodes if n.name.startswith("quantize_per_tensor")]
    assert len(quantized) == 4  # x, positions, sum, result
    program = torch.export.export(graph, (x,), dynamic_shapes=sizes)
    edge = to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner()])
    got = edge.to_executorch().run(x)
    step = graph.graph.output_node().args[0][0].args[1]
    assert (got - graph(x)).abs().max() <= 1.01 * step
