"""Argument values that a kernel would refuse on the first run are refused at export."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch._export.verifier import SpecViolationError
from torch.export import export

from executorch_py.exir import EdgeCompileConfig, ExecutorchBackendConfig, to_edge
from executorch_py.exir.target.manifest import MissingKernelError


class Formula(nn.Module):
    def __init__(self, formula: Any) -> None:
        super().__init__()
        self.formula = formula

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.formula(*inputs)


X = torch.ones(2, 3, 4, 4)
AT = torch.tensor([1, 2])
UNSIGNED = torch.zeros(4, dtype=torch.uint16)


def edge(model: Any, *inputs: Any, strict: bool = True) -> Any:
    model = model if isinstance(model, nn.Module) else Formula(model)
    with torch.no_grad():
        compile_config = EdgeCompileConfig(_check_ir_validity=strict)
        return to_edge(export(model, inputs), compile_config=compile_config)


REFUSED = [
    (
        lambda v, i: v.index_put((i,), torch.ones(2, dtype=torch.uint16), accumulate=True),
        (UNSIGNED, AT),
        "values of dtype u16 cannot be added; cast to one of",
    ),
    (
        lambda v, i: v.scatter_add(0, i, torch.ones(2, dtype=torch.uint16)),
        (UNSIGNED, AT),
        "values of dtype u16 cannot be added",
    ),
]


@pytest.mark.parametrize(("model", "inputs", "message"), REFUSED)
def test_what_a_kernel_would_refuse_is_refused_with_its_line(
    model: Any, inputs: Any, message: str
) -> None:
    manager = edge(model, *inputs, strict=False)
    with pytest.raises(MissingKernelError, match=message) as caught:
        manager.to_executorch()
    assert ".py" in caught.value.offences[0].where
    if not isinstance(model, nn.Module):
        assert Path(__file__).name in str(caught.value)


ACCEPTED = [
    (nn.Dropout(0.5).eval(), (X,)),
    (nn.Dropout(0.0).train(), (X,)),
    (nn.Dropout(1.0).train(), (X,)),
    (lambda v: torch.native_dropout(v, 0.5, False)[0], (X,)),
    (lambda v, i: v.index_put((i,), torch.ones(2), accumulate=True), (torch.zeros(4), AT)),
    (lambda v, i: v.scatter_add(0, i, torch.ones(2)), (torch.zeros(4), AT)),
    (nn.BatchNorm2d(3, track_running_stats=False).train(), (X,)),
]


@pytest.mark.parametrize(("model", "inputs"), ACCEPTED)
def test_what_a_kernel_can_do_is_let_through_and_runs(model: Any, inputs: Any) -> None:
    model = model if isinstance(model, nn.Module) else Formula(model)
    edge(model, *inputs).to_executorch().verify(model, *inputs)


DROPOUTS = [
    (nn.Dropout(0.5).train(), X),
    (lambda v: torch.native_dropout(v, 0.5, None)[0], X),
    (lambda q: F.scaled_dot_product_attention(q, q, q, dropout_p=0.5), torch.ones(1, 2, 3, 4)),
]


@pytest.mark.parametrize(("model", "x"), DROPOUTS)
def test_dropout_in_training_mode_runs_with_a_warning_that_says_eval(model: Any, x: Any) -> None:
    manager = edge(model, x)
    with pytest.warns(
        UserWarning, match=r"p = 0\.5, draws at every run.*model\.eval\(\)"
    ) as caught:
        program = manager.to_executorch()
    assert program.run(x).shape == x.shape
    assert __file__ in {w.filename for w in caught}  # the caller's line, not one of this package


def test_dropout_in_training_mode_runs_on_upstreams_kernel_without_a_word() -> None:
    manager = edge(nn.Dropout(0.5).train(), X)
    manager.to_executorch(ExecutorchBackendConfig(target="executorch-1.5"))


NOT_CORE = [
    (nn.BatchNorm2d(3).train(), r"statistics of each batch, as in training: call model\.eval\(\)"),
]


@pytest.mark.parametrize(("model", "message"), NOT_CORE)
def test_operators_of_training_are_refused_with_the_way_out(model: Any, message: str) -> None:
    with pytest.raises(SpecViolationError, match=message):
        edge(model, X)
