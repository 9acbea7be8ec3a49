"""Custom quantizers: the documented example, composition, and validation of annotations."""

from __future__ import annotations

import textwrap
from typing import Any

import pytest
import torch
from torch import fx, nn
from torchao.quantization.pt2e import MinMaxObserver
from torchao.quantization.pt2e.quantizer import (
    DerivedQuantizationSpec,
    FixedQParamsQuantizationSpec,
    QuantizationSpec,
)

import executorch_py.quantizer as package
from executorch_py.exir import to_edge_transform_and_lower
from executorch_py.quantizer import (
    AnnotationError,
    CalibrationError,
    ComposableQuantizer,
    Quantizer,
    XNNPACKQuantizer,
    calibrate,
    convert_pt2e,
    get_symmetric_quantization_config,
    prepare_pt2e,
)
from executorch_py.quantizer.annotate import quantize_input, quantize_output

STATIC = get_symmetric_quantization_config(is_per_channel=True)
INT8 = STATIC.input_activation


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first_u8, self.last = nn.Linear(8, 8), nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(torch.relu(self.first_u8(x)).sigmoid())


DATA = [torch.randn(4, 8, generator=torch.Generator().manual_seed(i)) for i in range(3)]


def prepared(quantizer: Quantizer, model: nn.Module | None = None) -> fx.GraphModule:
    exported = torch.export.export((model or Net()).eval(), (DATA[0],))
    return prepare_pt2e(exported.module(), quantizer)


def documented() -> str:
    """The example in the docstring of the package."""
    text = str(package.__doc__)
    begin, end = text.index("    import torch"), text.index("\n`ComposableQuantizer(")
    return textwrap.dedent(text[begin:end])


def test_the_documented_quantizer_takes_at_most_forty_lines_and_works() -> None:
    source = documented()
    assert len(source.splitlines()) <= 40
    names: dict[str, Any] = {}
    exec(source, names)
    model = prepared(names["quantizer"])
    calibrate(model, DATA)
    graph = convert_pt2e(model)
    made = [n for n in graph.graph.nodes if "quantize_per_tensor" in str(n.target)]
    assert {n.args[-1] for n in made} == {torch.uint8} and len(made) == 4
    found = to_edge_transform_and_lower(torch.export.export(graph, (DATA[0],))).to_executorch()
    assert (torch.as_tensor(found.run(DATA[0])) - graph(DATA[0])).abs().max() < 1e-5
    assert (graph(DATA[0]) - Net()(DATA[0])).abs().max() < 0.02


def test_the_first_quantizer_counts_and_the_next_take_the_rest() -> None:
    class Halves(Quantizer):
        """Quantizes the first layer with half the range of integers."""

        def annotate(self, model: fx.GraphModule) -> fx.GraphModule:
            quantizer = XNNPACKQuantizer()
            narrow = get_symmetric_quantization_config(act_qmin=-64, act_qmax=63)
            return quantizer.set_module_name("first_u8", narrow).annotate(model)

        def validate(self, model: fx.GraphModule) -> None:
            pass

    model = prepared(ComposableQuantizer([Halves(), XNNPACKQuantizer().set_global(STATIC)]))
    calibrate(model, DATA)
    graph = convert_pt2e(model)
    limits = [n.args[3:5] for n in graph.graph.nodes if "tize_per_tensor.def" in str(n.target)]
    assert set(limits) >= {(-64, 63), (-128, 127)}


def test_uncalibrated_observers_of_composed_quantizers_are_refused() -> None:
    with pytest.raises(CalibrationError, match=r"saw no data: .*first_u8.*"):
        convert_pt2e(prepared(ComposableQuantizer([XNNPACKQuantizer().set_global(STATIC)])))


def test_observers_without_a_model_refuse_too() -> None:
    from torchao.quantization.pt2e.quantizer import ComposableQuantizer as Torchao

    with pytest.raises(CalibrationError, match="saw no data"):
        convert_pt2e(prepared(Torchao([XNNPACKQuantizer().set_global(STATIC)])))


class Annotates(Quantizer):
    """Annotates one node."""

    def __init__(self, node: str, **specs: Any) -> None:
        super().__init__()
        self.node, self.specs = node, specs

    def annotate(self, model: fx.GraphModule) -> fx.GraphModule:
        node = next(n for n in model.graph.nodes if n.name == self.node)
        specs = dict(self.specs)
        result = specs.pop("result", None)
        for operand, name in zip(node.all_input_nodes, ("x", "weight", "bias"), strict=False):
            if name in specs:
                spec = specs[name]
                quantize_input(node, operand, spec(node) if callable(spec) else spec)
        quantize_output(node, result)
        return model

    def validate(self, model: fx.GraphModule) -> None:
        pass


def spec(dtype: torch.dtype, **more: Any) -> QuantizationSpec:
    limits = torch.iinfo(dtype)
    more = {"qscheme": torch.per_tensor_affine, **more}
    return QuantizationSpec(dtype, MinMaxObserver.with_args(), limits.min, limits.max, **more)


WEIGHT = STATIC.weight
REFUSED = {
    "sigmoid in integers": (
        Annotates("sigmoid", x=INT8, result=INT8),
        r"sigmoid as int8 relu -> int8: XNNPACK's payload has it for floats only",
    ),
    "uint8": (
        Annotates("linear", x=spec(torch.uint8), weight=WEIGHT, result=INT8),
        r"linear \(first_u8\) as uint8 x.* 'x' would be uint8, where XNNPACK reads",
    ),
    "int16 result": (
        Annotates("linear", x=INT8, weight=WEIGHT, result=spec(torch.int16)),
        "its result would be int16",
    ),
    "weight with a zero point": (
        Annotates("linear", x=INT8, weight=spec(torch.int8), result=INT8),
        "would have a zero point, and weights have none",
    ),
    "weight along its inputs": (
        Annotates(
            "linear",
            x=INT8,
            weight=spec(torch.int8, qscheme=torch.per_channel_symmetric, ch_axis=1),
            result=INT8,
        ),
        "scales along dimension 1, not its output channels, 0",
    ),
    "float weight": (Annotates("linear", x=INT8, result=INT8), "its weights would stay float"),
    "float result": (
        Annotates("linear", x=INT8, weight=WEIGHT),
        "its weights and input are quantized, its result is not",
    ),
    "scales of run time beyond products": (
        Annotates("relu", x=spec(torch.int8, is_dynamic=True), result=None),
        "is quantized at run time, which products alone can read",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_xnnpack_cannot_compute_is_refused_whoever_asks(what: str) -> None:
    own, message = REFUSED[what]
    ours = XNNPACKQuantizer().set_module_name("last", STATIC)
    with pytest.raises(AnnotationError, match=message):
        prepared(ComposableQuantizer([own, ours]))


def test_annotations_of_weights_alone_are_nobodys_business() -> None:
    own = Annotates(
        "linear_1", weight=WEIGHT
    )  # it reads a value that is quantized for another reader
    before = Annotates("sigmoid", result=INT8)
    ours = XNNPACKQuantizer().set_module_name("first_u8", STATIC)
    prepared(ComposableQuantizer([own, before, ours]))


def test_fixed_and_derived_parameters_are_understood() -> None:
    fixed = FixedQParamsQuantizationSpec(
        torch.int8, 0.05, 0, -128, 127, qscheme=torch.per_tensor_affine
    )

    def bias(node: fx.Node) -> DerivedQuantizationSpec:
        return DerivedQuantizationSpec(
            [(node.args[0], node), (node.args[1], node)],
            lambda both: (
                both[0].calculate_qparams()[0] * both[1].calculate_qparams()[0],
                torch.zeros(1, dtype=torch.int32),
            ),
            torch.int32,
            -(2**31),
            2**31 - 1,
            qscheme=torch.per_tensor_symmetric,
        )

    weight = spec(torch.int8, qscheme=torch.per_tensor_symmetric)
    own = Annotates("linear", x=fixed, weight=weight, bias=bias, result=INT8)
    prepared(ComposableQuantizer([own, XNNPACKQuantizer().set_module_name("last", STATIC)]))
