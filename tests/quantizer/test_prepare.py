"""prepare_pt2e: folding of batch norms, and models that it rejects."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from support.tolerance import BF16_LAYERS, assert_near
from torch import nn

from executorch_py.quantizer import (
    AnnotationWarning,
    XNNPACKQuantizer,
    calibrate,
    compare,
    convert_pt2e,
    get_symmetric_quantization_config,
    prepare_pt2e,
    spec,
)
from executorch_py.quantizer.fold_batch_norm import fold_all

X = torch.randn(2, 4, 5, 5, generator=torch.Generator().manual_seed(0))


def test_the_deprecated_name_of_the_smallest_scale_warns_and_works() -> None:
    with pytest.warns(DeprecationWarning, match="use MIN_SCALE"):
        assert spec.LEAST_SCALE is spec.MIN_SCALE


class Up(nn.Module):
    """Grouped transposed convolutions before batch norms, with and without bias, affine or not."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.norm = nn.ConvTranspose2d(4, 6, 3, 2, groups=2), nn.BatchNorm2d(6)
        self.last = nn.ConvTranspose2d(6, 12, 2, groups=3, bias=False)
        self.last_norm = nn.BatchNorm2d(12)
        self.line = nn.ConvTranspose1d(12, 8, 3, groups=4)
        self.line_norm = nn.BatchNorm1d(8, affine=False)
        for module in self.modules():
            if isinstance(module, nn.modules.batchnorm._BatchNorm):
                for values in (*module.parameters(), module.running_mean, module.running_var):
                    nn.init.uniform_(values, 0.5, 1.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.norm(self.first(x)))
        return self.line_norm(self.line(self.last_norm(self.last(x)).flatten(2)))


def prepared(model: nn.Module) -> Any:
    graph = torch.export.export(model, (X,)).module()
    config = get_symmetric_quantization_config(is_per_channel=True)
    return prepare_pt2e(graph, XNNPACKQuantizer().set_global(config))


def test_norms_become_part_of_transposed_convolutions_of_groups() -> None:
    model = Up().eval()
    ready = prepared(model)
    assert not any("batch_norm" in str(node.target) for node in ready.graph.nodes)
    with torch.no_grad():
        torch.testing.assert_close(ready(X), model(X))
    calibrate(ready, [X, -X])
    rows = compare(model, convert_pt2e(ready), [X]).rows
    assert len(rows) >= 3 and min(row.sqnr_db for row in rows) > 30


class Pyramid(nn.Module):
    """A detector head: one convolution for all levels, with a batch norm for each."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 3, padding=1)
        self.first, self.second = nn.BatchNorm2d(4), nn.BatchNorm2d(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.conv(torch.relu(self.first(self.conv(x)))))


class AlsoBare(Pyramid):
    """A convolution that is also called without a batch norm."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(torch.relu(self.first(self.conv(x))))


class AlsoRead(Pyramid):
    """A model where the input of the batch norm has another reader."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.conv(x)
        return self.first(y) + y


class OneNorm(Pyramid):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.first(self.conv(torch.relu(self.first(self.conv(x)))))


class OneAndBoth(Pyramid):
    """Two batch norms in a row behind one of two calls of a convolution."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.first(self.conv(self.second(self.first(self.conv(x)))))


class OneTwice(Pyramid):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.first(self.first(self.conv(x)))


class Lines(nn.Module):
    """Linear layers before norms over outputs (of matrices) and over rows (of batches)."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.norm, self.other = nn.Linear(5, 4), nn.BatchNorm1d(4), nn.BatchNorm1d(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        lines = self.other(self.linear(x[:, :, 0]))
        return self.norm(self.linear(x[:, 0, 0])) + lines.sum(1)


class Volumes(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv3d(1, 4, 2, bias=False), nn.BatchNorm3d(4)
        self.up, self.up_norm = nn.ConvTranspose3d(4, 6, 2, groups=2), nn.BatchNorm3d(6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.up_norm(self.up(self.norm(self.conv(x.unsqueeze(1)))))


@pytest.mark.filterwarnings("ignore:in the whole model")
@pytest.mark.parametrize(
    ("build", "n_left", "is_decomposed"),
    [
        (Pyramid, 0, False),
        (Pyramid, 0, True),
        (AlsoBare, 0, False),
        (AlsoBare, 0, True),
        (AlsoRead, 1, False),
        (AlsoRead, 1, True),
        (OneNorm, 0, False),
        (OneAndBoth, 0, False),
        (OneTwice, 0, False),
        (Lines, 1, False),
        (Volumes, 0, False),
        (Volumes, 0, True),
    ],
)
def test_norms_are_folded_where_only_they_change_by_it(
    build: type[nn.Module], n_left: int, is_decomposed: bool
) -> None:
    model = build()
    for module in model.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            for values in (*module.parameters(), module.running_mean, module.running_var):
                nn.init.uniform_(values, 0.5, 1.5)
    exported = torch.export.export(model.eval(), (X,))
    graph = (exported.run_decompositions() if is_decomposed else exported).module()
    config = get_symmetric_quantization_config(is_per_channel=True)
    ready = prepare_pt2e(graph, XNNPACKQuantizer().set_global(config))
    assert sum("batch_norm" in str(node.target) for node in ready.graph.nodes) == n_left
    with torch.no_grad():
        torch.testing.assert_close(ready(X), model(X))


def test_float_norms_do_not_change_half_precision_layers() -> None:
    model = Pyramid().eval()
    model.conv.to(torch.bfloat16)
    x = X.to(torch.bfloat16)
    graph = torch.export.export(model, (x,)).module()
    fold_all(graph)
    found = graph(x)
    assert found.dtype == torch.bfloat16
    assert_near(found, model(x), BF16_LAYERS)


def test_folded_norms_of_a_model_in_training_are_warned_of() -> None:
    plain = nn.Sequential(nn.Conv2d(4, 4, 1), nn.BatchNorm2d(4))
    with pytest.warns(AnnotationWarning, match=r"training mode: batch_norm \(1\) became part"):
        graph = prepared(plain.train())
    with torch.no_grad():
        torch.testing.assert_close(graph(X), plain.eval()(X))
    with pytest.warns(AnnotationWarning, match=r"batch_norm \(norm\), batch_norm_1 \(last_norm\)"):
        prepared(Up().train())


def test_sizes_of_run_time_are_prepared_without_a_word() -> None:
    model = nn.Sequential(nn.Conv2d(4, 2, 2), nn.Flatten(), nn.Linear(32, 3)).eval()
    shapes = ({0: torch.export.Dim("n", min=1, max=8)},)
    graph = torch.export.export(model, (X,), dynamic_shapes=shapes).module()
    config = get_symmetric_quantization_config()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ready = prepare_pt2e(graph, XNNPACKQuantizer().set_global(config))
    assert ready(X).shape == (2, 3) and ready(X[:1]).shape == (1, 3)


def test_a_model_that_was_not_exported_is_not_prepared() -> None:
    with pytest.raises(TypeError, match=r"model: expected torch\.export\.export.* got a Up"):
        prepare_pt2e(Up(), XNNPACKQuantizer())  # type: ignore[arg-type]


def test_a_model_is_prepared_once() -> None:
    with pytest.raises(ValueError, match="has observers already"):
        prepare_pt2e(prepared(Up().eval()), XNNPACKQuantizer())
