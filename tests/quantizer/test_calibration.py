"""Calibration: observers without sufficient data prevent conversion or warn."""

from __future__ import annotations

import copy
import inspect
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import fx, nn

from executorch_py.quantizer import (
    CalibrationError,
    CalibrationWarning,
    XNNPACKQuantizer,
    calibrate,
    convert_pt2e,
    get_groupwise_quantization_config,
    get_symmetric_quantization_config,
    prepare_pt2e,
    quantize,
)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last = nn.Linear(6, 5), nn.Linear(5, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(torch.relu(self.first(x)))


def prepared(**settings: bool) -> fx.GraphModule:
    shapes = ({0: torch.export.Dim("n", min=1, max=64)},)
    graph = torch.export.export(Net().eval(), (torch.randn(2, 6),), dynamic_shapes=shapes).module()
    config = get_symmetric_quantization_config(**settings)
    return prepare_pt2e(graph, XNNPACKQuantizer().set_global(config))


def samples(n: int = 3) -> list[torch.Tensor]:
    torch.manual_seed(1)
    return [torch.randn(4, 6) for _ in range(n)]


@pytest.mark.parametrize("channels", [False, True])
def test_a_model_that_saw_no_data_is_not_converted(channels: bool) -> None:
    with pytest.raises(CalibrationError, match=r"5 observers saw no data: x -> linear \(first\)"):
        convert_pt2e(prepared(is_per_channel=channels))


def test_a_model_without_observers_is_not_calibrated_without_a_word() -> None:
    with pytest.warns(CalibrationWarning, match="no observers.*what prepare_pt2e gave"):
        calibrate(Net(), samples())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        calibrate(prepared(is_dynamic=True), samples())


def test_the_message_names_weights_and_what_to_do() -> None:
    with pytest.raises(CalibrationError, match=r"first\.weight.*\n.*calibrate\(prepared, data\)"):
        convert_pt2e(prepared())


def test_scales_of_run_time_need_weights_only() -> None:
    model = prepared(is_dynamic=True)
    with pytest.raises(
        CalibrationError, match=r"2 observers saw no data: first\.weight, last\.weight"
    ):
        convert_pt2e(model)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_numbers_that_are_not_finite_are_refused_with_their_place(bad: float) -> None:
    model, data = prepared(), samples()
    data[1][2, 3] = bad
    calibrate(model, data)
    with pytest.raises(CalibrationError, match=r"saw NaN or infinity: x -> linear \(first\)"):
        convert_pt2e(model)


def test_one_sample_is_warned_of_and_two_are_not() -> None:
    model = prepared()
    calibrate(model, [torch.randn(1, 6)])
    with pytest.warns(
        CalibrationWarning, match="3 observers saw one sample: x -> linear"
    ) as caught:
        convert_pt2e(copy.deepcopy(model))
    assert {w.filename for w in caught if w.category is CalibrationWarning} == {__file__}
    calibrate(model, [torch.randn(1, 6)])
    with warnings.catch_warnings():
        warnings.simplefilter("error", CalibrationWarning)
        convert_pt2e(model)


def test_a_value_that_never_changes_is_warned_of() -> None:
    model = prepared()
    calibrate(model, [torch.full((4, 6), 0.25)] * 2)
    with pytest.warns(CalibrationWarning, match=r"saw one number only: x -> linear \(first\);"):
        convert_pt2e(model)


def test_numbers_that_the_minimum_scale_makes_zero_are_warned_of() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.block, self.scale = nn.Linear(6, 6), nn.Parameter(torch.full((6,), 1e-6))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.scale * self.block(x)

    graph = torch.export.export(Scaled().eval(), (torch.randn(2, 6),)).module()
    config = get_symmetric_quantization_config()
    model = prepare_pt2e(graph, XNNPACKQuantizer().set_global(config))
    calibrate(model, [torch.randn(2, 6), torch.randn(2, 6)])
    with pytest.warns(CalibrationWarning, match=r"2 observers saw values below 16 .*: scale, mul;"):
        converted = convert_pt2e(model)
    x = torch.randn(2, 6)
    assert (converted(x) - x).abs().max() < 0.1  # the block rounds to zero, x does not


def test_what_was_seen_is_saved_with_the_model() -> None:
    model, other = prepared(), prepared()
    calibrate(model, samples())
    other.load_state_dict(model.state_dict())
    x = torch.randn(2, 6)
    assert torch.equal(convert_pt2e(model)(x), convert_pt2e(other)(x))


def test_calibration_takes_tensors_tuples_and_names_from_any_iterable() -> None:
    model = prepared()
    some: Iterator[Any] = iter([torch.randn(2, 6), (torch.randn(2, 6),), {"x": torch.randn(2, 6)}])
    assert calibrate(model, some) == 3
    assert calibrate(model, samples(9), limit=4) == 4


class Rows(torch.utils.data.Dataset[torch.Tensor]):
    """A map-style Dataset: samples by number and a length, no iterator, no end at the length."""

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.full((2, 6), float(index % 3))


def test_a_sample_may_have_arguments_of_both_kinds() -> None:
    class Scaled(Net):
        def forward(self, x: torch.Tensor, *, scale: torch.Tensor) -> torch.Tensor:
            return super().forward(x * scale)

    call = inspect.signature(Scaled().forward).bind(X, scale=torch.ones(1))
    graph = torch.export.export(Scaled().eval(), call.args, call.kwargs).module()
    quantizer = XNNPACKQuantizer().set_global(get_symmetric_quantization_config())
    assert calibrate(prepare_pt2e(graph, quantizer), [call, call]) == 2


def test_a_map_style_dataset_is_data() -> None:
    assert calibrate(prepared(), Rows()) == 3
    assert calibrate(prepared(), Rows(), limit=2) == 2
    assert quantize(Net().eval(), Rows(), max_drop=1.0, progress=False).n_layers == 2


def test_no_data_is_an_error() -> None:
    with pytest.raises(CalibrationError, match="no sample"):
        calibrate(prepared(), [])


def test_a_sample_that_does_not_fit_is_named() -> None:
    with pytest.raises(
        CalibrationError, match=r"sample 1: input 'x': expected .* 6\], got \[2, 7\]"
    ):
        calibrate(prepared(), [torch.randn(2, 6), torch.randn(2, 7)])


X, LABELS = torch.randn(2, 6), torch.tensor([0, 1])


@pytest.mark.parametrize(
    ("sample", "message"),
    [
        (
            (X, LABELS),
            r"takes 1 input \['x'\], the sample has 2: labels .*\[\(x,\) for x, label in",
        ),
        ([X, LABELS], "labels are no inputs"),
        (
            {"x": X, "label": LABELS},
            r"takes \['x'\], the sample has \['x', 'label'\]: .* no labels",
        ),
        (X.numpy(), r"expected a tensor float32.*, got a ndarray: pass torch\.from_numpy"),
        (X.double(), r"got torch\.float64: pass x\.to\(torch\.float32\)"),
        (X[0], r"got \[6\]: give samples of that shape, or export with dynamic_shapes"),
    ],
)
def test_labels_arrays_and_other_types_are_recognised(sample: Any, message: str) -> None:
    with pytest.raises(CalibrationError, match=f"sample 0: .*{message}") as caught:
        calibrate(prepared(), [sample])
    assert "\n" not in str(caught.value)


def test_the_advice_on_labels_works_and_holds_for_quantize() -> None:
    data = [(X, LABELS)]
    assert calibrate(prepared(), [(x,) for x, label in data]) == 1
    with pytest.raises(CalibrationError, match=r"sample 0: .*labels are no inputs"):
        quantize(Net().eval(), data, max_drop=1.0)


class TakesMore(Net):
    """A model that takes inputs of any number and of any name, and uses two."""

    def forward(self, x: torch.Tensor, *more: torch.Tensor, **named: torch.Tensor) -> torch.Tensor:
        return super().forward(sum([*more, *named.values()], start=x))


@pytest.mark.parametrize("sample", [(X, X), {"x": X, "z": X}])
def test_a_model_with_inputs_of_any_number_and_name_is_quantized(sample: Any) -> None:
    result = quantize(TakesMore().eval(), [sample], max_drop=1.0, progress=False)
    assert result.n_layers == 3  # the sum is one


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"data": 3}, TypeError, r"data: expected an iterable of samples, \[sample\], got 3"),
        ({"prepared": 3}, TypeError, "prepared: expected what prepare_pt2e returns, got a int"),
        ({"limit": "3"}, ValueError, "limit: expected a whole number of 1 or more, got '3'"),
        ({"limit": 0}, ValueError, "limit: expected a whole number of 1 or more, got 0"),
        ({"progress": "no"}, TypeError, "progress: expected True, False or a stream, got 'no'"),
    ],
)
def test_wrong_options_are_named(options: dict[str, Any], kind: Any, message: str) -> None:
    with pytest.raises(kind, match=message):
        calibrate(**{"prepared": prepared(), "data": [X], **options})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda q, c: q.set_global(8), "expected a QuantizationConfig, got 8"),
        (
            lambda q, c: q.set_global(get_symmetric_quantization_config),
            r"call it: get_symmetric_quantization_config\(\)",
        ),
        (lambda q, c: q.set_module_name(3, c), "module_name: expected the path of a module"),
        (lambda q, c: q.set_module_type("Linear", c), r"a class such as torch\.nn\.Linear, got 'L"),
        (lambda q, c: q.set_operator_type(torch.ops.aten.linear, 3), "QuantizationConfig, got 3"),
        (lambda q, c: q.set_filter_function(3), "filter_fn: expected a function of a node, got 3"),
        (
            lambda q, c: prepare_pt2e(torch.export.export(Net(), (X,)).module(), type(q)),
            r"expected a Quantizer object, .*call it: XNNPACKQuantizer\(\)",
        ),
        (lambda q, c: convert_pt2e(Net()), "expected what prepare_pt2e returns.* not prepared"),
        (
            lambda q, c: get_symmetric_quantization_config(is_per_channel="yes"),  # type: ignore[arg-type]
            "is_per_channel: expected True or False, got 'yes'",
        ),
        (
            lambda q, c: get_symmetric_quantization_config(act_qmin="x"),  # type: ignore[arg-type]
            "act_qmin, act_qmax: expected whole numbers, got 'x' and 127",
        ),
    ],
)
def test_wrong_settings_of_a_quantizer_are_named(call: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        call(XNNPACKQuantizer(), get_symmetric_quantization_config())


def test_numbers_of_numpy_are_numbers_and_bools_are_none() -> None:
    one = np.int64(1)
    assert calibrate(prepared(), samples(3), limit=np.int64(2)) == 2
    result = quantize(Net().eval(), samples(), max_drop=np.float32(1), progress=False)
    assert result.after <= result.before
    config = get_symmetric_quantization_config(act_qmin=-100 * one, weight_qmax=100 * one)
    assert config.input_activation.quant_min == -100 and config.weight.quant_max == 100
    assert type(config.weight.quant_max) is int
    get_groupwise_quantization_config(group_size=32 * one)
    with pytest.raises(ValueError, match=r"limit: expected a whole number .* got True"):
        calibrate(prepared(), samples(3), limit=True)
    with pytest.raises(ValueError, match=r"max_drop: expected a number .* got True"):
        quantize(Net().eval(), samples(), max_drop=True)
    with pytest.raises(TypeError, match="expected whole numbers, got False and 127"):
        get_symmetric_quantization_config(act_qmin=False)


def test_ctrl_c_keeps_what_was_seen() -> None:
    def data() -> Iterator[torch.Tensor]:
        yield from samples(2)
        raise KeyboardInterrupt

    model = prepared()
    assert calibrate(model, data()) == 2
    convert_pt2e(model)
    with pytest.raises(KeyboardInterrupt):
        calibrate(model, iter(lambda: (_ for _ in ()).throw(KeyboardInterrupt), None))
