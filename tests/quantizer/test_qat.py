"""Quantization-aware training: folding of batch norms, and models still in training mode."""

from __future__ import annotations

import copy

import pytest
import torch
from support.tolerance import RUNNING_VARIANCE, assert_near
from torch import fx, nn

from executorch_py.backends.xnnpack import XnnpackPartitioner
from executorch_py.exir import to_edge_transform_and_lower
from executorch_py.quantizer import (
    AnnotationWarning,
    TrainingModeError,
    XNNPACKQuantizer,
    convert_pt2e,
    get_symmetric_quantization_config,
    move_exported_model_to_eval,
    prepare_pt2e,
    prepare_qat_pt2e,
)

QAT = get_symmetric_quantization_config(is_per_channel=True, is_qat=True)
X = torch.randn(4, 3, 8, 8, generator=torch.Generator().manual_seed(0))


class Net(nn.Module):
    """Every kind of layer with a foldable batch norm; the first norm has another eps."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.norm = nn.Conv2d(3, 8, 3, bias=False), nn.BatchNorm2d(8, 0.5, 0.3)
        self.deep, self.deep_norm = nn.Conv2d(8, 8, 3, groups=8), nn.BatchNorm2d(8)
        self.up, self.up_norm = nn.ConvTranspose2d(8, 4, 2), nn.BatchNorm2d(4)
        self.line, self.line_norm = nn.Conv1d(4, 6, 3), nn.BatchNorm1d(6)
        self.dropout = nn.Dropout(0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.norm(self.first(x)))
        x = nn.functional.relu6(self.deep_norm(self.deep(x)))
        return self.line_norm(self.line(self.dropout(self.up_norm(self.up(x)).flatten(2))))


@pytest.fixture(scope="module")
def trained() -> fx.GraphModule:
    """The prepared model after a few training steps."""
    exported = torch.export.export(Net().train(), (X,)).module()
    prepared = prepare_qat_pt2e(exported, XNNPACKQuantizer().set_global(QAT))
    optimizer = torch.optim.SGD(prepared.parameters(), 0.01)
    for _ in range(3):
        optimizer.zero_grad()
        prepared(X).square().mean().backward()
        optimizer.step()
    return prepared


@pytest.fixture(scope="module")
def converted(trained: fx.GraphModule) -> fx.GraphModule:
    return convert_pt2e(move_exported_model_to_eval(copy.deepcopy(trained)))


def operators(graph: fx.GraphModule) -> list[str]:
    calls = [n for n in graph.graph.nodes if n.op == "call_function"]
    return [str(n.target) for n in calls if "quantize_per" not in str(n.target)]


def step(graph: fx.GraphModule) -> float:
    (result,) = next(n for n in graph.graph.nodes if n.op == "output").all_input_nodes
    return float(result.args[1])


def test_norms_become_part_of_weights(trained: fx.GraphModule) -> None:
    prepared = move_exported_model_to_eval(copy.deepcopy(trained))
    before = prepared(X)  # this call also observes
    graph = convert_pt2e(prepared)
    assert not [name for name in operators(graph) if "norm" in name or "add" in name]
    assert (graph(X) - before).abs().max() <= 1.01 * step(graph)


def test_a_norm_keeps_its_own_eps_and_momentum() -> None:
    model = Net().train()
    exported = torch.export.export(model, (X,)).module()
    prepared = prepare_qat_pt2e(exported, XNNPACKQuantizer().set_global(QAT))
    for net in (model, prepared):
        net(X)
    buffers = dict(prepared.named_buffers())
    assert_near(buffers["norm.running_var"], model.norm.running_var, RUNNING_VARIANCE)
    with torch.no_grad():
        found, wanted = prepared.eval()(X), model.eval()(X)
    assert (found - wanted).norm() < 0.1 * wanted.norm()


def test_what_was_trained_runs_delegated_and_not_within_a_step(
    converted: fx.GraphModule,
) -> None:
    exported, wanted = torch.export.export(converted, (X,)), converted(X)
    for partitioner in ([XnnpackPartitioner()], None):
        edge = to_edge_transform_and_lower(exported, partitioner=partitioner)
        if partitioner:
            assert len(edge.delegation_summary().delegates) == 1
            targets = [str(n.target) for n in edge.exported_program().graph.nodes]
            assert not [name for name in targets if "aten" in name]
        found = torch.as_tensor(edge.to_executorch().run(X))
        assert (found - wanted).abs().max() <= 2.01 * step(converted)


def test_what_still_trains_is_not_converted(trained: fx.GraphModule) -> None:
    with pytest.raises(
        TrainingModeError,
        match=r"5 operators.*batch_norm \(norm\).*dropout \(dropout\).*\n.*move_exported_model_to",
    ):
        convert_pt2e(copy.deepcopy(trained))


def test_a_model_exported_while_training_is_not_converted_either() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Dropout()).train()
    exported = torch.export.export(model, (torch.randn(2, 3),)).module()
    config = get_symmetric_quantization_config()
    prepared = prepare_pt2e(exported, XNNPACKQuantizer().set_global(config))
    prepared(torch.randn(2, 3))
    with pytest.raises(TrainingModeError, match=r"1 operators.*dropout \(1\)"):
        convert_pt2e(prepared)


class Standardized(nn.Module):
    """A convolution with standardized weights, and a norm of the batch, in either mode."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8, track_running_stats=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = self.conv.weight.reshape(1, 8, -1)
        weight = nn.functional.batch_norm(rows, None, None, training=True)
        weight = weight.reshape_as(self.conv.weight)
        y: torch.Tensor = self.norm(nn.functional.conv2d(x, weight, self.conv.bias))
        return y.relu()


def test_norms_without_running_statistics_have_no_mode() -> None:
    torch.manual_seed(0)
    model, x = Standardized().eval(), torch.randn(2, 3, 8, 8)
    prepared = prepare_pt2e(
        torch.export.export(model, (x,)).module(),
        XNNPACKQuantizer().set_global(get_symmetric_quantization_config(is_per_channel=True)),
    )
    prepared(x)
    made = convert_pt2e(move_exported_model_to_eval(prepared))
    assert nn.functional.cosine_similarity(made(x).flatten(), model(x).flatten(), 0) > 0.999
    exported = torch.export.export(made, (x,))
    edge = to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()])
    assert edge.to_executorch().verify(made, x).ok


def test_train_and_eval_switch_what_they_switch_in_eager() -> None:
    exported = torch.export.export(Net().train(), (X,)).module()
    prepared = prepare_qat_pt2e(exported, XNNPACKQuantizer().set_global(QAT))
    prepared(X)
    prepared.eval()
    assert torch.equal(prepared(X), prepared(X))
    prepared.train()
    assert not torch.equal(prepared(X), prepared(X))


class Attends(nn.Module):
    """Attention, whose dropout is an argument without a training mode."""

    def __init__(self) -> None:
        super().__init__()
        self.line, self.attend = nn.Linear(8, 8), nn.MultiheadAttention(8, 2, dropout=0.4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.line(x)
        return self.attend(x, x, x, need_weights=False)[0]


def test_attention_drops_while_training_only() -> None:
    x = torch.randn(6, 3, 8)
    exported = torch.export.export(Attends().train(), (x,)).module()
    prepared = prepare_qat_pt2e(exported, XNNPACKQuantizer().set_global(QAT))
    assert not torch.equal(prepared(x), prepared(x))
    with pytest.raises(TrainingModeError, match=r"scaled_dot_product_attention \(attend\)"):
        convert_pt2e(copy.deepcopy(prepared))
    evaluated = prepared.eval()(x)
    assert torch.equal(convert_pt2e(copy.deepcopy(prepared))(x), evaluated)
    assert torch.equal(prepared(x), evaluated)
    prepared.train()
    assert not torch.equal(prepared(x), prepared(x))


def test_a_norm_that_no_weight_can_take_stays() -> None:
    model = nn.Sequential(
        nn.ConvTranspose2d(4, 4, 2, groups=2), nn.BatchNorm2d(4), nn.Conv2d(4, 4, 1)
    )
    x = torch.randn(2, 4, 5, 5)
    exported = torch.export.export(model.train(), (x,)).module()
    prepared = prepare_qat_pt2e(exported, XNNPACKQuantizer().set_global(QAT))
    prepared(x)
    before = prepared.eval()(x)
    graph = convert_pt2e(prepared)
    assert operators(graph)[:2] == ["aten.conv_transpose2d.input", "aten.batch_norm.default"]
    assert torch.equal(graph(x), before)


@pytest.mark.filterwarnings("ignore:.*quantization steps only:UserWarning")
@pytest.mark.parametrize("is_per_channel", [False, True])
@pytest.mark.parametrize("spread", [1.0, 1e-3])  # the second is below the lower bound of the scale
def test_training_rounds_weights_as_converted_ones_are(is_per_channel: bool, spread: float) -> None:
    config = get_symmetric_quantization_config(is_per_channel=is_per_channel, is_qat=True)
    model, x = (
        nn.Sequential(nn.Conv2d(3, 4, 3), nn.ConvTranspose2d(4, 6, 2)),
        torch.randn(2, 3, 6, 6),
    )
    with torch.no_grad():
        for weight in model.parameters():
            weight.normal_(-0.1 * spread, 0.1 * spread)
    exported = torch.export.export(model.train(), (x,)).module()
    prepared = prepare_qat_pt2e(exported, XNNPACKQuantizer().set_global(config))
    trained = prepared(x)
    assert torch.equal(prepared.eval()(x), trained)
    assert torch.equal(convert_pt2e(prepared)(x), trained)


def test_training_with_nothing_that_rounds_is_warned_of() -> None:
    exported = torch.export.export(Net().train(), (X,)).module()
    config = get_symmetric_quantization_config(is_per_channel=True)
    with pytest.warns(AnnotationWarning, match=r"nothing is rounded.*is_qat=True"):
        prepare_qat_pt2e(exported, XNNPACKQuantizer().set_global(config))
