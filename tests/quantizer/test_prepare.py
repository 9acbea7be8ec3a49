"""What `prepare_pt2e` does before torchao's: norms that this cannot fold, models it is not for."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from executorch_py.quantizer import (
    AnnotationWarning,
    XNNPACKQuantizer,
    calibrate,
    compare,
    convert_pt2e,
    get_symmetric_quantization_config,
    prepare_pt2e,
)

X = torch.randn(2, 4, 5, 5, generator=torch.Generator().manual_seed(0))


class Up(nn.Module):
    """Transposed convolutions of groups before norms: with a bias and without, and with a norm that
    has learnt no numbers."""

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


def test_norms_of_a_model_in_training_are_told_where_they_become_part_of_weights() -> None:
    plain = nn.Sequential(nn.Conv2d(4, 4, 1), nn.BatchNorm2d(4))
    with pytest.warns(AnnotationWarning, match=r"training mode: batch_norm \(1\) became part"):
        graph = prepared(plain.train())
    with torch.no_grad():
        torch.testing.assert_close(graph(X), plain.eval()(X))
    with pytest.warns(AnnotationWarning, match=r"batch_norm \(norm\), batch_norm_1 \(last_norm\)"):
        prepared(Up().train())


def test_a_model_that_was_not_exported_is_not_prepared() -> None:
    with pytest.raises(TypeError, match=r"model is a Up: needs torch\.export\.export"):
        prepare_pt2e(Up(), XNNPACKQuantizer())  # type: ignore[arg-type]


def test_a_model_is_prepared_once() -> None:
    with pytest.raises(ValueError, match="has observers already"):
        prepare_pt2e(prepared(Up().eval()), XNNPACKQuantizer())
