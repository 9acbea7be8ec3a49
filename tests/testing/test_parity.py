"""Verification distinguishes rounding from wrong results, and names the deciding rule.

Most tests share a small model that loses digits on purpose.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.ao.quantization.fx import _decomposed  # noqa: F401 - the operators of Steps
from torch.export import Dim

from executorch_py.errors import NotSupported
from executorch_py.exir import to_edge, to_edge_transform_and_lower
from executorch_py.exir.backend.partitioner import Partitioner
from executorch_py.exir.program.executorch import ExecutorchProgramManager
from executorch_py.testing import (
    Comparison,
    ParityError,
    ParityReport,
    assert_parity,
    quantization_step,
    verify_program,
)


class LosesDigits(nn.Module):
    """Sines of angles near a thousand, whose last digit is beyond the tolerance of the sine.

    Torch's exponential and the kernel's round differently, so that not all angles agree by chance.
    """

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(0.9, 1.1, 512))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sin(torch.exp(x) * self.weight)


class Calls(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


def randn(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1))


X = torch.linspace(5.5, 7.0, 8192).reshape(16, 512)


def lowered(model: nn.Module, *inputs: torch.Tensor, **options: Any) -> ExecutorchProgramManager:
    with torch.no_grad():
        return to_edge(torch.export.export(model, inputs, **options)).to_executorch()


def lowered_to(
    partitioners: list[Partitioner], model: nn.Module, *inputs: torch.Tensor, **options: Any
) -> ExecutorchProgramManager:
    with torch.no_grad():
        exported = torch.export.export(model, inputs, **options)
    return to_edge_transform_and_lower(exported, partitioner=partitioners).to_executorch()


def test_lost_digits_are_judged_by_the_model_in_float64() -> None:
    model, x = LosesDigits(), X
    report = assert_parity(model, (x,))
    (found,) = report.comparisons
    assert found.mismatched > 0 and found.rule == "float64" and found.ok and report.ok
    with torch.no_grad():
        exact = model.double()(x.double())
        eager = model.float()(x)
    assert found.eager_to_float64 == float((eager - exact).abs().max()) > 0
    assert found.program_to_float64 is not None
    text = str(report)
    for figure in (found.max_abs_error, found.program_to_float64, found.eager_to_float64):
        assert f"{figure:.3g}" in text
    assert "ok by float64" in text and "allowed are 2 times that" in text


def test_every_size_is_judged_by_itself() -> None:
    report = assert_parity(LosesDigits(), (X,), dynamic_shapes=({0: Dim("rows", min=1, max=32)},))
    judged = [c for c in report.comparisons if c.rule == "float64"]
    assert len({c.eager_to_float64 for c in judged}) > 1 and report.ok


def test_a_given_tolerance_is_all_that_counts() -> None:
    model, x = LosesDigits(), X
    program = lowered(model, x)
    assert program.verify(model, x).ok
    for given in ({"rtol": 1e-4}, {"atol": 1e-5}, {"rtol": 1e-4, "atol": 1e-5}):
        with pytest.raises(ParityError, match="elements differ") as caught:
            program.verify(model, x, **given)
        assert "float64" not in str(caught.value)
    assert program.verify(model, x, rtol=1e-4, atol=1.0).comparisons[0].rule == "tolerance"


def test_relative_errors_are_of_elements_that_are_not_zero() -> None:
    program = lowered(Calls(lambda x: x * 1.5), torch.tensor([0.0, 2.0]))
    (found,) = program.verify(
        Calls(lambda x: x * 2 - 1e-9), torch.tensor([5e-10, 2.0]), atol=2.0
    ).comparisons
    assert found.max_abs_error == 1.0 and found.max_rel_error == pytest.approx(0.25)


def test_a_changed_weight_is_no_rounding() -> None:
    model, x = LosesDigits(), X
    program = lowered(model, x)
    assert program.verify(model, x).ok
    with torch.no_grad():
        model.weight[7] += 1e-5
    with pytest.raises(ParityError, match=r"eager torch .*, allowed are 2 times") as caught:
        program.verify(model, x)
    assert "worst at [" in str(caught.value)


def test_a_bit_flipped_in_the_bytes_is_no_rounding() -> None:
    model, x = LosesDigits(), X
    program = lowered(model, x)
    weight = model.weight.detach().numpy().tobytes()
    at = program.buffer.find(weight[:64])
    assert at > 0
    # A middle bit of the first weight.
    damaged = bytearray(program.buffer)
    damaged[at + 1] ^= 0x80
    program._bytes = bytes(damaged)
    with pytest.raises(ParityError, match="allowed are 2 times"):
        program.verify(model, x)


def test_outputs_that_are_not_floating_stay_exact() -> None:
    wrong = lowered(Calls(lambda x: (x * 3).to(torch.int32)), torch.ones(4))
    with pytest.raises(ParityError, match="4 of 4") as caught:
        wrong.verify(Calls(lambda x: (x * 4).to(torch.int32)), torch.ones(4))
    assert "float64" not in str(caught.value)


def test_a_model_that_insists_on_float32_says_so() -> None:
    def strict(x: torch.Tensor) -> torch.Tensor:
        if x.dtype != torch.float32:
            raise TypeError("only float32 here")
        return x * 2

    program = lowered(Calls(lambda x: x * 3), torch.ones(4))
    with pytest.raises(ParityError, match="no float64 reference: TypeError: only float32 here"):
        program.verify(Calls(strict), torch.ones(4))


def test_a_model_that_branches_differently_in_float64_is_no_reference() -> None:
    def jumps(x: torch.Tensor) -> torch.Tensor:
        return torch.where(x + 1e-9 > x, 100.0, -100.0)

    program = lowered(Calls(lambda x: x * 0), torch.ones(4))
    with pytest.raises(ParityError, match="no float64 reference: eager torch itself is 200"):
        program.verify(Calls(jumps), torch.ones(4))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.complex64])
def test_narrow_and_complex_results_have_a_wider_reference_too(dtype: torch.dtype) -> None:
    from executorch_py.testing.parity import compare_runs

    x = torch.linspace(1, 3, 8).to(dtype)
    model = Calls(lambda x: x * 3)
    exported = torch.export.export(model, (x,))

    def off_by(units: float) -> Any:
        def run(flat: Any) -> Any:
            step = torch.finfo(dtype).eps * units
            return [(model(*flat) * (1 + 2000 * step if units > 1 else 1)).to(dtype)]

        return run

    assert compare_runs(exported, off_by(0), model, (x,), {}, None, None).ok
    report = compare_runs(exported, off_by(2), model, (x,), {}, None, None)
    assert not report.ok
    assert report.comparisons[0].rule == "float64"


def test_eager_layers_are_computed_as_export_records_them() -> None:
    # In inference torch's encoder would return zeros for the rows that are padding.
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
    model = nn.TransformerEncoder(layer, 2).eval()
    padding = torch.tensor([[False] * 6, [False] * 4 + [True] * 2])
    assert torch.backends.mha.get_fastpath_enabled()
    report = assert_parity(model, (randn(2, 6, 16),), kwargs={"src_key_padding_mask": padding})
    assert report.ok
    assert torch.backends.mha.get_fastpath_enabled()


def test_the_callers_model_and_settings_are_left_alone() -> None:
    model, x = LosesDigits(), X
    before = model.weight.detach().clone()
    verify_program(lowered(model, x), model, x)
    assert torch.equal(model.weight, before) and model.weight.dtype == torch.float32
    assert torch.get_default_dtype() == torch.float32


class TwoInputs(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor, *, scale: float, shift: float) -> Any:
        return x * scale + y.sum() + shift


def test_inputs_are_given_as_to_the_model_or_as_to_export() -> None:
    model, inputs = TwoInputs(), (randn(3, 8), randn(2))
    exported = torch.export.export(model, inputs, {"scale": 0.5, "shift": 2.0})
    program = to_edge(exported).to_executorch()
    for given in (inputs, (inputs,), (list(inputs),)):
        assert program.verify(model, *given, shift=2.0, scale=0.5).ok
        result = program.run(*given, shift=2.0, scale=0.5)
        torch.testing.assert_close(result, model(*inputs, shift=2.0, scale=0.5))


@pytest.mark.parametrize(
    ("args", "given"),
    [
        ((randn(3, 8),), r"\(float32\[3, 8\], scale=0.5\)"),
        (
            (randn(3, 8), {"y": [randn(2)]}, "z"),
            r"\(float32.*, {'y': \[float32\[2\]\]}, 'z', scale",
        ),
    ],
)
def test_inputs_of_another_structure_are_errors_that_name_the_expected_ones(
    args: tuple[Any, ...], given: str
) -> None:
    model = TwoInputs()
    exported = torch.export.export(model, (randn(3, 8), randn(2)), {"scale": 0.5, "shift": 2.0})
    program = to_edge(exported).to_executorch()
    needed = r"forward\(x: float32\[3, 8\], y: float32\[2\], scale: float = 0.5, shift: .*\)"
    for call in (program.run, lambda *args, **names: program.verify(model, *args, **names)):
        with pytest.raises(ValueError, match=f"expected arguments of {needed} -> .*, got {given}"):
            call(*args, scale=0.5)


def test_given_sizes_outside_the_bounds_are_errors_and_not_resized() -> None:
    model = Calls(lambda x: x * 2)
    rows = torch.export.Dim("rows", max=8)
    program = lowered(model, torch.ones(3, 4), dynamic_shapes=(({0: rows},),))
    with pytest.raises(
        RuntimeError, match=r"input 0 .*got shape \[3, 5\]: dim 1: expected 4, got 5"
    ):
        program.verify(model, torch.ones(3, 5))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_indices_of_the_largest_agree_at_sizes_beyond_the_given_ones(dtype: torch.dtype) -> None:
    # Inputs repeated as they are would tie, and eager torch leaves the order of ties open.
    model = Calls(lambda x: torch.topk(x.flatten(), 6))
    rows = torch.export.Dim("rows", min=2, max=40)
    program = lowered(model, randn(3, 4).to(dtype), dynamic_shapes=(({0: rows},),))
    assert program.verify(model, randn(3, 4).to(dtype)).ok


def test_a_failure_at_sizes_other_than_the_given_ones_names_them() -> None:
    model = Calls(lambda x: x.max(0).values)  # an error for 0 rows
    rows = torch.export.Dim("rows", min=0, max=40)
    program = lowered(model, randn(3, 4), dynamic_shapes=(({0: rows},),))
    with pytest.raises(
        ParityError, match=r"dynamic dim at its min, that is float32\[0, 4\]: method"
    ):
        program.verify(model, randn(3, 4))


def test_sizes_of_zero_that_a_delegate_refuses_are_left_out_and_named() -> None:
    from executorch_py.backends.xnnpack import XnnpackPartitioner

    model, x = nn.Linear(4, 4), randn(3, 4)
    rows = {"dynamic_shapes": ({0: Dim("n", max=8)},)}
    report = assert_parity(model, (x,), partitioner=XnnpackPartitioner(), **rows)
    assert [c.elements // 4 for c in report.comparisons] == [3, 1, 4, 8]
    (left,) = report.left_out
    assert left.startswith("dim 0 of input 0 of 0: XnnpackBackend") and left in str(report)
    everything = assert_parity(model, (x,), **rows)
    assert not everything.left_out and everything.comparisons[1].elements == 0
    with pytest.raises(
        NotSupported, match=r"expected size 1 to . in dim 0, got 0"
    ):  # a given size is not left out
        lowered_to([XnnpackPartitioner()], model, x, **rows).verify(model, x[:0])


class Steps(nn.Module):
    """Outputs: dequantized last, transposed after that, quantized, and computed; all shifted.

    A shift by a little more than half a step, of values on the steps, rounds all of them up.
    """

    def __init__(self, off: float) -> None:
        super().__init__()
        self.off = off

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        library, numbers = torch.ops.quantized_decomposed, (0.25, 3, -128, 127, torch.int8)
        q = library.quantize_per_tensor(x + 0.25 * self.off, *numbers)
        last = library.dequantize_per_tensor(q, *numbers)
        return last, last.view(2, 8).t(), q, torch.exp(last * 0)


@pytest.mark.parametrize("delegated", [False, True])
def test_outputs_quantized_last_may_be_rounded_to_the_other_side(delegated: bool) -> None:
    from executorch_py.backends.xnnpack import XnnpackPartitioner

    x = torch.arange(16) / 4
    partitioners = [XnnpackPartitioner()] if delegated else []
    program = lowered_to(partitioners, Steps(0), x)
    exact = program.verify(Steps(0), x)
    assert [c.rule for c in exact.comparisons] == ["tolerance"] * 4
    report = program.verify(Steps(0.51), x)
    assert [c.rule for c in report.comparisons] == ["rounding"] * 3 + ["tolerance"]
    assert "ok by rounding: it follows from the file's own values" in str(report)
    assert "each integer of the file there is within 0.510 steps" in str(report)
    for off in (1, 2):  # no rounding: every integer is one that eager torch never has there
        with pytest.raises(ParityError) as caught:
            program.verify(Steps(off), x)
        text = str(caught.value)
        assert text.count("elements differ; worst at") == 3
        assert "first difference: 'add' (aten::add.Tensor)" in text
    with pytest.raises(ParityError, match="16 of 16 elements differ;"):  # a given tolerance counts
        program.verify(Steps(0.51), x, atol=0.1)


def test_outputs_of_models_without_a_graph_may_differ_by_one_quantization_step() -> None:
    x = torch.arange(16) / 4
    program = lowered_to([], Steps(0), x)
    report = program.verify(lambda x: Steps(1)(x), x)
    assert [c.rule for c in report.comparisons] == ["quantization step"] * 3 + ["tolerance"]
    assert [c.quantization_step for c in report.comparisons] == [0.25, 0.25, 1.0, None]
    assert "ok by one quantization step of the output, 0.25" in str(report)
    assert "nodes are not compared: expected a torch.nn.Module" in str(report)
    with pytest.raises(ParityError) as caught:
        program.verify(lambda x: Steps(2)(x), x)
    differ = "elements differ by more than one quantization step of the output"
    assert str(caught.value).count(differ) == 3


def test_deprecated_names_of_the_quantization_step_warn_and_work() -> None:
    comparison = Comparison("output 0", "", 0.0, 0.0, 0, 1, "", quantization_step=0.25)
    with pytest.warns(DeprecationWarning, match=r"use Comparison\.quantization_step"):
        assert comparison.quantum == 0.25
    with pytest.warns(DeprecationWarning, match="use output_steps"):
        assert quantization_step.output_quanta is quantization_step.output_steps


def test_an_output_computed_from_quantized_values_follows_from_the_files_integers() -> None:
    def model(off: float) -> nn.Module:
        return Calls(lambda x: torch.exp(Steps(off)(x)[0]))

    x = torch.arange(16) / 4
    program = lowered_to([], model(0), x)
    assert program.verify(model(0.51), x).comparisons[0].rule == "rounding"
    with pytest.raises(ParityError, match="16 of 16 elements differ;"):
        program.verify(model(1), x)


class Written(nn.Module):
    """A model of quantized values that writes to a buffer and to its input."""

    def __init__(self, off: float) -> None:
        super().__init__()
        self.steps = Steps(off)
        self.register_buffer("runs", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.runs.add_(1.0)
        x.mul_(2.0)
        return torch.exp(self.steps(x + self.runs)[0] / 8)


def test_each_run_of_a_verification_has_the_first_values_of_buffers_and_inputs() -> None:
    x = torch.arange(16) / 4
    program = lowered_to([], Written(0), x.clone())
    model, given = Written(0.51), x.clone()
    (found,) = program.verify(model, given).comparisons
    assert found.rule == "rounding"
    assert found.moved_sqnr_db is not None and found.moved_sqnr_db > 40
    assert torch.equal(given, x) and model.runs == 0
    with pytest.raises(ParityError, match="16 of 16 elements differ;"):
        program.verify(Written(1), given)


def test_a_failure_explains_the_nodes_at_every_size_that_failed() -> None:
    report = ParityReport()
    for sizes, differing in (("size 1", 1), ("size 2", 0), ("size 3", 1), ("size 4", 1)):
        report.comparisons.append(Comparison("output 0", sizes, 0.0, 0.0, differing, 1, ""))
    report.explain("size 1", ["first difference: a", "3 of 4 agree"])
    report.explain("size 2", ["4 of 4 agree"])
    report.explain("size 3", ["first difference: b", "2 of 4 agree"])
    report.explain("size 4", ["first difference: a", "3 of 4 agree"])
    of_failures = [
        "first difference: a (at size 1, size 4)",
        "3 of 4 agree",
        "first difference: b (at size 3)",
        "2 of 4 agree",
    ]
    assert report.failure().splitlines()[-4:] == of_failures
    assert "4 of 4 agree" not in report.failure()
    assert "4 of 4 agree (at size 2)" in str(report)
