"""Effects of to_executorch's passes on a graph, and that the numbers stay those of eager torch.

Numbers are checked by running the lowered graph inside its planned memory (see ../conftest.py).
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from support.tolerance import F32_MODEL, assert_near
from torch import nn
from torch.ao.quantization.fx import _decomposed  # noqa: F401 - the operators of Integers

from executorch_py.exir.program.config import ExecutorchBackendConfig
from executorch_py.testing import assert_parity

Lower = Callable[..., Any]


def check(lower: Lower, machine: Any, model: nn.Module, *calls: tuple[Any, ...]) -> Any:
    """Lower, run every call in turn on one machine, compare with eager; returns the program."""
    program = lower(copy.deepcopy(model), calls[0])
    run = machine(program)
    for inputs in calls:
        with torch.no_grad():
            expected = torch.utils._pytree.tree_leaves(model(*inputs))
        for ours, eager in zip(run(*inputs), expected, strict=True):
            assert_near(ours, eager, F32_MODEL)
    return program


class Formula(nn.Module):
    def __init__(self, formula: Callable[..., Any]) -> None:
        super().__init__()
        self.formula = formula

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.formula(*inputs)


# ---- constants


def test_transposed_weights_of_linear_layers_are_stored_ready(
    lower: Lower, machine: Any, operators: Any
) -> None:
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4, bias=False)).eval()
    program = check(lower, machine, model, (torch.randn(3, 8),))
    assert operators(program) == ["aten::addmm.out", "aten::relu.out", "aten::mm.out"]
    names = [s.target for s in program.graph_signature.input_specs]
    assert "0.weight" not in names and "0.weight" not in program.state_dict


def test_transposed_weights_share_the_memory_of_the_models_weights(lower: Lower) -> None:
    model = nn.Linear(100, 300).eval()
    program = lower(model, (torch.randn(3, 100),))
    assert model.weight.data_ptr() in [t.data_ptr() for t in program.constants.values()]


def test_a_tied_embedding_is_not_stored_twice(lower: Lower, machine: Any, operators: Any) -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(4000, 16)
            self.head = nn.Linear(16, 4000, bias=False)
            self.head.weight = self.embed.weight

        def forward(self, i: torch.Tensor) -> Any:
            return self.head(self.embed(i))

    program = check(lower, machine, Tied(), (torch.tensor([[3, 1]]),))
    assert "aten::permute_copy.out" in operators(program)


def test_masks_are_computed_at_export_where_they_are_little_beside_the_weights(
    lower: Lower, operators: Any
) -> None:
    class Masked(nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.linear = nn.Linear(width, 160, bias=False)

        def forward(self, x: torch.Tensor) -> Any:
            mask = torch.ones(160, 160).triu(1) * -100.0
            return self.linear(x) + mask

    assert len(operators(lower(Masked(8), (torch.randn(160, 8),)))) > 4
    large = operators(lower(Masked(12000), (torch.randn(160, 12000),)))
    assert large == ["aten::mm.out", "aten::add.out"]


def test_two_layers_that_share_a_weight_share_its_transposition(lower: Lower, machine: Any) -> None:
    first, second = nn.Linear(64, 64, bias=False), nn.Linear(64, 64, bias=False)
    second.weight = first.weight
    program = check(lower, machine, nn.Sequential(first, nn.ReLU(), second), (torch.randn(2, 64),))
    assert len(program.graph_signature.input_specs) == 2


def test_scalars_masks_and_ranges_are_computed_at_export(
    lower: Lower, machine: Any, operators: Any
) -> None:
    def formula(x: torch.Tensor) -> torch.Tensor:
        mask = torch.triu(torch.ones(4, 4), diagonal=1).bool()
        return x.masked_fill(mask, 0.0) + torch.arange(4) + 1

    program = check(lower, machine, Formula(formula), (torch.randn(4, 4),))
    assert set(operators(program)) == {"aten::where.self_out", "aten::add.out"}


class Integers(nn.Module):
    """Floats computed from constant integers, beside a layer with integer weights."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("weight", torch.randint(-127, 128, (40, 40), dtype=torch.int8))
        self.register_buffer("steps", torch.arange(40, dtype=torch.int8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        library = torch.ops.quantized_decomposed
        numbers = (0.5, 3, -128, 127, torch.int8)
        steps = library.dequantize_per_tensor(self.steps, *numbers)
        distance = library.quantize_per_tensor(steps - steps.unsqueeze(1), *numbers)
        far = library.dequantize_per_tensor(distance, *numbers) != 0
        weight = library.dequantize_per_tensor(self.weight, *numbers)
        return x @ weight.t() + torch.where(far, -100.0, 0.0) + steps


def test_what_is_computed_from_constant_integers_is_folded_and_weights_stay_integers(
    lower: Lower, machine: Any, operators: Any
) -> None:
    program = check(lower, machine, Integers(), (torch.randn(40, 40),))
    dequantize = "quantized_decomposed::dequantize_per_tensor.out"
    adds, weights = ["aten::add.out"] * 2, [dequantize, "aten::permute_copy.out", "aten::mm.out"]
    assert operators(program) == [dequantize, *weights, *adds]
    kept = [program.constants.get(s.target) for s in program.graph_signature.input_specs]
    masks = [found for found in kept if found is not None and found.shape == (40, 40)]
    assert [found.unique().tolist() for found in masks if found.is_floating_point()] == [[-100, 0]]


def test_large_constants_made_of_nothing_are_not_stored(lower: Lower, operators: Any) -> None:
    program = lower(Formula(lambda x: torch.full((300, 300), 2.0) * x), (torch.randn(300, 300),))
    assert "aten::full.out" in operators(program)


def test_uninitialized_memory_never_becomes_a_constant(lower: Lower, operators: Any) -> None:
    model = Formula(lambda x: nn.functional.pad(x, (1, 2), mode="circular"))
    inputs = (torch.randn(1, 2, 8),)
    program = lower(model, inputs)
    assert "dim_order_ops::_empty_dim_order.out" in operators(program)
    assert not any(value.is_floating_point() for value in program.constants.values())
    assert_parity(model, inputs)


def test_folding_can_be_switched_off(lower: Lower, operators: Any) -> None:
    config = ExecutorchBackendConfig(fold_constants=False)
    program = lower(nn.Linear(4, 4), (torch.randn(1, 4),), config)
    assert operators(program) == ["aten::permute_copy.out", "aten::addmm.out"]


@pytest.mark.parametrize("channels_last", [False, True])
def test_batch_norms_vanish_into_convolutions(
    lower: Lower, machine: Any, operators: Any, channels_last: bool
) -> None:
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, bias=False),
        nn.BatchNorm2d(8),
        nn.Conv2d(8, 8, 3, groups=4),
        nn.BatchNorm2d(8, affine=False),
        nn.ConvTranspose2d(8, 6, 2, stride=2, groups=2),
        nn.BatchNorm2d(6),
    ).eval()
    for module in model:
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_()
            module.running_var.uniform_(0.5, 2.0)
    layout = torch.channels_last if channels_last else torch.contiguous_format
    model, x = model.to(memory_format=layout), torch.randn(2, 3, 8, 8).to(memory_format=layout)
    program = check(lower, machine, model, (x,))
    assert operators(program) == ["aten::convolution.out"] * 3


def test_a_norm_whose_convolution_is_used_elsewhere_stays(lower: Lower, operators: Any) -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.norm = nn.Conv2d(2, 2, 1), nn.BatchNorm2d(2)

        def forward(self, x: torch.Tensor) -> Any:
            y = self.conv(x)
            return self.norm(y) + y

    program = lower(Twice().eval(), (torch.randn(1, 2, 3, 3),))
    assert "aten::_native_batch_norm_legit_no_training.out" in operators(program)


# ---- views


def test_reshapes_of_every_name_cost_nothing(lower: Lower, machine: Any, operators: Any) -> None:
    def formula(x: torch.Tensor) -> torch.Tensor:
        y = x.relu().unsqueeze(0).squeeze(0).view(2, 6).flatten()[None].clone()
        return y.permute(1, 0).expand(12, 1).reshape(3, 4) + 1

    program = check(lower, machine, Formula(formula), (torch.randn(3, 4),))
    assert operators(program) == ["aten::relu.out", "aten::add.out"]


def test_a_view_that_leaves_the_graph_is_a_copy(lower: Lower, machine: Any, operators: Any) -> None:
    program = check(lower, machine, Formula(lambda x: (x.view(4), x + 1)), (torch.randn(2, 2),))
    assert "aten::view_copy.out" in operators(program)


def test_views_stay_copies_when_asked(lower: Lower, operators: Any) -> None:
    config = ExecutorchBackendConfig(remove_view_copy=False)
    program = lower(Formula(lambda x: x.view(4) + 1), (torch.randn(2, 2),), config)
    assert "aten::view_copy.out" in operators(program)


# ---- mutable buffers


class Cache(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("cache", torch.arange(32.0).view(4, 8))
        self.register_buffer("count", torch.full((1,), 5.0))

    def forward(self, x: torch.Tensor, position: torch.Tensor) -> Any:
        before = self.cache.sum()
        self.cache[position] = x
        self.count += 1
        return self.cache.sum(1), self.count * 2, before


def test_a_cache_is_written_in_place_and_starts_with_its_saved_values(
    lower: Lower, machine: Any, operators: Any
) -> None:
    calls = [(torch.randn(1, 8), torch.tensor([i])) for i in range(3)]
    program = check(lower, machine, Cache(), *calls)
    used = operators(program)
    assert "aten::index_put_" in used
    assert "aten::copy_" not in used and "aten::index_put.out" not in used


def test_without_in_place_writes_the_numbers_are_the_same(lower: Lower, machine: Any) -> None:
    model, inputs = Cache(), (torch.randn(1, 8), torch.tensor([2]))
    config = ExecutorchBackendConfig(write_buffers_in_place=False)
    program = lower(copy.deepcopy(model), inputs, config)
    run = machine(program)
    for _ in range(2):
        for ours, eager in zip(run(*inputs), model(*inputs), strict=True):
            assert_near(ours, eager, F32_MODEL)


class Exchange(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("a", torch.ones(4))
        self.register_buffer("b", torch.arange(4.0))

    def forward(self, x: torch.Tensor) -> Any:
        kept = self.a.clone()
        self.a.copy_(self.b)
        self.b.copy_(kept)
        return self.a + x, self.b * x


class OldAndNew(nn.Module):
    """A model that reads a view of the old contents after the buffer was written."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("a", torch.ones(4, 6))

    def forward(self, x: torch.Tensor) -> Any:
        old = self.a.view(24).clone()
        self.a[torch.tensor([1])] = x[:1]
        self.a.mul_(2)
        return old * 2, self.a.view(24)[0]


class Parts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("a", torch.ones(4, 6))
        self.register_buffer("h", torch.zeros(4, 6))

    def forward(self, x: torch.Tensor) -> Any:
        self.a[:, 2:4] = x
        self.a[1] = x[0].sum()
        self.h.copy_(torch.tanh(self.h + self.a))
        return self.a.sum(0), self.h + 1


@pytest.mark.parametrize(
    ("model", "shape"), [(Exchange, (4,)), (OldAndNew, (4, 6)), (Parts, (4, 2))]
)
def test_buffers_hold_what_eager_torch_holds_after_every_call(
    lower: Lower, machine: Any, model: type[nn.Module], shape: tuple[int, ...]
) -> None:
    check(lower, machine, model(), *[(torch.randn(shape),) for _ in range(3)])


def test_the_operator_that_computes_a_state_writes_it_directly(
    lower: Lower, machine: Any, operators: Any
) -> None:
    program = check(lower, machine, Parts(), (torch.randn(4, 2),))
    assert "aten::copy_" not in operators(program)


# ---- layouts


def test_our_kernels_get_no_layout_copies_and_upstreams_do(lower: Lower, operators: Any) -> None:
    x = torch.randn(1, 3, 4, 4).to(memory_format=torch.channels_last)
    model = Formula(lambda x: x.mean((2, 3), keepdim=True))
    copying = "dim_order_ops::_to_dim_order_copy.out"
    assert copying not in operators(lower(model, (x,)))
    config = ExecutorchBackendConfig(target="executorch-1.5")
    assert copying in operators(lower(model, (x,), config))


def test_indices_of_nonzero_elements_are_recorded_row_by_row(lower: Lower) -> None:
    program = lower(Formula(lambda x: torch.nonzero(x) * 2), (torch.tensor([[1.0, 0.0]]),))
    orders = {
        n.meta["spec"].dim_order
        for n in program.graph.nodes
        if n.target == torch.ops.aten.nonzero.out
    }
    assert orders == {(0, 1)}
    assert program.graph.output_node().meta["spec"][0].shape == [2, 2]
