"""Reports on prepared and converted models, sensitivities, and mixed precision."""

from __future__ import annotations

import math
import warnings
from typing import Any

import pytest
import torch
from torch import nn

from executorch_py.quantizer import (
    TrainingModeError,
    XNNPACKQuantizer,
    calibrate,
    compare,
    convert_pt2e,
    get_symmetric_quantization_config,
    prepare_pt2e,
    quantize,
    report,
    sensitivities,
)

CONFIG = get_symmetric_quantization_config(is_per_channel=True)


class Sore(nn.Module):
    """Three layers; one result of the second is a thousand times as large as the others."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.sore, self.last = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 4)
        with torch.no_grad():
            self.sore.weight[0] *= 1000
            self.last.weight[:, 0] = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.sore(torch.relu(self.first(x))))


def data(n: int = 4) -> list[torch.Tensor]:
    torch.manual_seed(1)
    return [torch.randn(16, 8) for _ in range(n)]


def calibrated(model: nn.Module) -> Any:
    exported = torch.export.export(model, (data(1)[0],)).module()
    prepared = prepare_pt2e(exported, XNNPACKQuantizer().set_global(CONFIG))
    calibrate(prepared, data())
    return prepared


def test_a_report_has_a_row_for_each_observer_with_what_it_saw() -> None:
    prepared = calibrated(Sore())
    table = report(prepared)
    rows = {row["name"]: row for row in table.records()}
    assert len(rows) == 7
    seen = torch.cat(data())
    first = rows["x -> linear (first)"]
    assert (first["kind"], first["samples"]) == ("activation", 64)
    assert (first["least"], first["greatest"]) == (float(seen.min()), float(seen.max()))
    assert rows["first.weight"]["kind"] == "weight"
    assert "linear_1 (sore)" in str(table)


def test_a_report_before_calibration_says_who_saw_nothing() -> None:
    exported = torch.export.export(Sore(), (data(1)[0],)).module()
    prepared = prepare_pt2e(exported, XNNPACKQuantizer().set_global(CONFIG))
    assert report(prepared).summary == "7 observers; 7 saw no data"


def test_a_converted_model_has_nothing_to_report() -> None:
    with pytest.raises(ValueError, match="no observers"):
        report(convert_pt2e(calibrated(Sore())))


def test_clipped_and_dead_shares_are_those_of_the_data() -> None:
    torch.manual_seed(2)
    model = nn.Sequential(nn.Linear(8, 8))
    shown = [torch.randn(4096, 8) for _ in range(4)]
    shown[0][:20] *= 2  # some outliers
    prepared = prepare_pt2e(
        torch.export.export(model, (shown[0],)).module(), XNNPACKQuantizer().set_global(CONFIG)
    )
    calibrate(prepared, shown)
    row = report(prepared).rows[0]
    seen = torch.cat(shown)
    low = (-128.5 - row.zero_point) * row.scale
    outside = ((seen < low) | (seen > low + 256 * row.scale)).double().mean()
    assert outside > 0 and row.clipped == pytest.approx(float(outside), abs=1 / seen.numel())
    assert row.dead == 0


def test_only_what_is_lost_beyond_the_integers_is_clipped() -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU())
    quantized = convert_pt2e(calibrated(model))
    (seen,) = compare(model, quantized, data()).rows
    assert seen.float_least == 0  # the limit of the integers, beyond which half of the results are
    assert seen.clipped < 0.01
    (beyond,) = compare(model, quantized, [3 * x for x in data()]).rows
    with torch.no_grad():
        right = torch.cat([model(3 * x) for x in data()])
        greatest = max(quantized(1e3 * x).max() for x in data())
    step = greatest / 255
    assert beyond.clipped == pytest.approx(float((right > greatest + step / 2).double().mean()))
    assert beyond.clipped > 0.05


def test_integers_that_a_small_range_needs_not_are_dead() -> None:
    prepared = calibrated(nn.Sequential(nn.Linear(8, 8)))
    narrow = prepare_pt2e(
        torch.export.export(nn.Sequential(nn.Linear(8, 8)), (data(1)[0],)).module(),
        XNNPACKQuantizer().set_global(CONFIG),
    )
    calibrate(narrow, [x * 1e-3 for x in data()])
    row = report(narrow).rows[0]
    assert row.scale == 2**-12  # the least
    assert row.dead == pytest.approx(1 - (row.greatest - row.least) * 2**12 / 255)
    assert report(prepared).rows[0].dead < 0.05


def test_a_comparison_finds_the_layer_that_suffers() -> None:
    model = Sore()
    table = compare(model, convert_pt2e(calibrated(model)), data())
    rows = {row["name"]: row for row in table.records()}
    assert set(rows) == {"relu", "linear_1", "linear_2"}
    assert rows["relu"]["sqnr_db"] > 30 and rows["linear_2"]["sqnr_db"] < 15
    assert rows["linear_1"]["module"] == "sore"
    assert table.summary.startswith("worst of 3: linear_2")


def test_a_model_beside_itself_has_no_noise() -> None:
    model = Sore()
    exported = torch.export.export(model, (data(1)[0],)).module()
    rows = compare(model, exported, data()).rows
    assert rows and all(row.sqnr_db == math.inf for row in rows)


def test_sensitivities_name_the_sorest_layer_first() -> None:
    found = sensitivities(calibrated(Sore()), data())
    assert found[0].module in ("sore", "last") and found[0].sqnr_db < found[-1].sqnr_db


def test_quantization_leaves_float_what_costs_too_much() -> None:
    model = Sore()
    done = quantize(model, data(), max_drop=0.001, progress=False)
    assert done.before - done.after <= 0.001
    assert 1 <= len(done.left_float) < done.n_layers == 3
    assert f"left float: {done.left_float[0].name}" in str(done)
    harmless = quantize(model, data(), max_drop=1.0, progress=False)
    assert not harmless.left_float


def test_layers_beside_shared_observers_have_sensitivities_too() -> None:
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2)
    )
    images = [torch.randn(2, 1, 6, 6, generator=torch.Generator().manual_seed(0))]
    exported = torch.export.export(model, (images[0],)).module()
    prepared = prepare_pt2e(exported, XNNPACKQuantizer().set_global(CONFIG))
    calibrate(prepared, images)
    assert {found.module for found in sensitivities(prepared, images)} == {"0", "1", "3"}


def test_a_shared_observer_counts_a_sample_once() -> None:
    class Both(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cat([x + 1, x * 2])

    exported = torch.export.export(Both(), (torch.randn(1, 4),)).module()
    prepared = prepare_pt2e(exported, XNNPACKQuantizer().set_global(CONFIG))
    calibrate(prepared, [torch.randn(1, 4)])
    assert {row["samples"] for row in report(prepared).records()} == {1}


def test_a_metric_of_ones_own_decides() -> None:
    calls = []

    def metric(candidate: nn.Module) -> float:
        calls.append(candidate)
        return -float((candidate(data(1)[0]) - wanted).abs().max())

    model = Sore()
    with torch.no_grad():
        wanted = model(data(1)[0])
        done = quantize(model, data(), max_drop=0.02, metric=metric, progress=False)
    assert done.before == 0 and -done.after <= 0.02 and calls[0] is model


@pytest.mark.parametrize("drop", [-0.1, float("nan")])
def test_a_bound_that_is_none_is_refused(drop: float) -> None:
    with pytest.raises(ValueError, match="max_drop"):
        quantize(Sore(), data(), max_drop=drop)


@pytest.mark.parametrize("found", [math.nan, -math.inf])
def test_a_metric_that_is_no_number_is_refused(found: float) -> None:
    with pytest.raises(ValueError, match=r"metric of the float model: expected a finite"):
        quantize(Sore(), data(), max_drop=0.1, metric=lambda _: found, progress=False)


def test_a_model_in_training_is_not_quantized_to_a_bound() -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.Dropout())
    with pytest.raises(TrainingModeError, match="dropout"):
        quantize(model, data(), max_drop=0.1, progress=False)


def test_a_model_that_was_not_converted_is_not_compared() -> None:
    with pytest.raises(TypeError, match=r"quantized: expected .* convert_pt2e, got a Sore"):
        compare(Sore(), Sore(), data())  # type: ignore[arg-type]


def test_nothing_is_warned_of_on_the_way_and_metrics_have_no_gradients() -> None:
    def metric(candidate: nn.Module) -> float:
        return -candidate(data(1)[0]).abs().mean()  # type: ignore[no-any-return]

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        done = quantize(Sore(), data(), max_drop=0.5, metric=metric, progress=False)
        compare(torch.export.export(Sore(), (data(1)[0],)).module(), done.module, data(1))
