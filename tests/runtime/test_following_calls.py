"""Activations after a convolution, in its memory, are absorbed by it: same bits, one call less.

The oracle is torch's activation of the result of the convolution kernel alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from support.program_maker import MethodMaker, program_bytes
from torch import nn
from torch.nn import functional as F

from executorch_py.exir import ExecutorchProgramManager, schema, to_edge
from executorch_py.runtime import Runtime

Activation = Callable[[torch.Tensor], torch.Tensor]

CONVOLUTIONS: dict[str, tuple[nn.Module, tuple[int, ...]]] = {
    "pointwise": (nn.Conv2d(19, 35, 1), (1, 19, 13, 11)),
    "long sums": (nn.Conv2d(300, 40, 3, padding=1), (1, 300, 12, 10)),
    "few pixels": (nn.Conv2d(64, 48, 3, padding=1), (2, 64, 7, 7)),
    "one pixel": (nn.Conv2d(160, 256, 1), (1, 160, 1, 1)),
    "strided": (nn.Conv2d(3, 16, 3, stride=2, padding=1), (1, 3, 33, 29)),
    "grouped": (nn.Conv2d(12, 18, 3, groups=3), (2, 12, 9, 9)),
    "one dimension": (nn.Conv1d(8, 24, 5, padding=2), (1, 8, 50)),
    "three dimensions": (nn.Conv3d(4, 8, 3), (1, 4, 6, 7, 8)),
    "transposed": (nn.ConvTranspose2d(9, 14, 3, stride=2), (1, 9, 8, 7)),
    "depthwise 3x3": (nn.Conv2d(20, 20, 3, padding=1, groups=20), (1, 20, 15, 17)),
    "depthwise 5x5 by 2": (nn.Conv2d(20, 20, 5, 2, 2, groups=20), (1, 20, 23, 19)),
    "depthwise 7x7": (nn.Conv2d(6, 6, 7, padding=3, groups=6), (1, 6, 20, 21)),
}
ACTIVATIONS: dict[str, Activation] = {
    "relu": torch.relu,
    "relu6": F.relu6,
    "hardtanh": lambda x: F.hardtanh(x, -0.25, 0.125),
    "bound below": lambda x: torch.clamp(x, min=0),
    "bound above": lambda x: torch.clamp(x, max=0.125),
    "crossed bounds": lambda x: torch.clamp(x, min=0.5, max=-0.5),
    "zero below zero": lambda x: torch.clamp(x, min=-0.0, max=0.0),
}


class Then(nn.Module):
    def __init__(self, convolution: nn.Module, activation: Activation) -> None:
        super().__init__()
        self.convolution, self.activation = convolution, activation

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.activation(self.convolution(x))


def lowered(
    module: nn.Module, x: torch.Tensor, dynamic: dict[int, object] | None = None
) -> ExecutorchProgramManager:
    with torch.no_grad():
        program = torch.export.export(module.eval(), (x,), dynamic_shapes=dynamic and (dynamic,))
    return to_edge(program).to_executorch()


def inputs(shape: tuple[int, ...]) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(7))


def assert_same_bits(ours: torch.Tensor, expected: torch.Tensor) -> None:
    nan = torch.isnan(expected)
    assert torch.equal(torch.isnan(ours), nan)
    bits = (t.masked_fill(nan, 0).numpy().view(np.uint32) for t in (ours, expected))
    np.testing.assert_array_equal(*bits)


@pytest.mark.parametrize("convolution", CONVOLUTIONS)
def test_a_convolution_absorbs_the_activation_that_follows(convolution: str) -> None:
    module, shape = CONVOLUTIONS[convolution]
    x = inputs(shape)
    alone = lowered(module, x).run((x,))
    for name, activation in ACTIVATIONS.items():
        program = lowered(Then(module, activation), x)
        assert_same_bits(program.run((x,)), activation(alone))
        method = Runtime.get().load_program(program.buffer, n_threads=2).load_method("forward")
        (row,) = method.profile([x])
        assert row.operator == "aten::convolution.out", name


@pytest.mark.parametrize("name", ["pointwise", "depthwise 3x3"])
def test_it_absorbs_activations_of_channels_last_images(name: str) -> None:
    module, shape = CONVOLUTIONS[name]
    x = inputs(shape).contiguous(memory_format=torch.channels_last)
    module = module.to(memory_format=torch.channels_last)
    alone = lowered(module, x).run((x,))
    program = lowered(Then(module, F.relu6), x)
    assert_same_bits(program.run((x,)), F.relu6(alone))


def test_zeros_nans_and_infinities_are_equal_to_torchs() -> None:
    special = torch.tensor([-0.0, 0.0, math.nan, math.inf, -math.inf, 1e-45, -1e-45, 6.0, 7.0])
    module = nn.Conv2d(1, 1, 1, bias=False)
    nn.init.ones_(module.weight)
    x = special.reshape(1, 1, 3, 3)
    alone = lowered(module, x).run((x,))
    for activation in ACTIVATIONS.values():
        ours = lowered(Then(module, activation), x).run((x,))
        assert_same_bits(ours, activation(alone))


def test_it_absorbs_activations_of_dynamic_sizes() -> None:
    module = nn.Conv2d(8, 12, 3, padding=1)
    size = torch.export.Dim("size", min=4, max=30)
    program = lowered(Then(module, F.relu6), inputs((1, 8, 9, 9)), {2: size})
    for height in (4, 30, 17, 4):
        x = inputs((1, 8, height, 9))
        torch.testing.assert_close(program.run((x,)), F.relu6(module(x)))


def test_weights_that_are_computed_make_no_difference() -> None:
    class Computed(nn.Module):
        def __init__(self, activation: Activation) -> None:
            super().__init__()
            self.activation = activation

        def forward(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
            return self.activation(F.conv2d(x, weight * 2, padding=1))

    given = inputs((1, 80, 19, 19)), inputs((600, 80, 3, 3))
    alone, relu = (
        to_edge(torch.export.export(Computed(activation), given)).to_executorch().run(given)
        for activation in (nn.Identity(), torch.relu)
    )
    assert_same_bits(relu, torch.relu(alone))


def test_a_result_that_another_operator_reads_is_not_changed() -> None:
    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.convolution = nn.Conv2d(3, 5, 3)

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            y = self.convolution(x)
            return torch.relu(y), y

    module, x = Both(), inputs((1, 3, 8, 8))
    relu, plain = lowered(module, x).run((x,))
    assert (plain < 0).any()
    torch.testing.assert_close(plain, module(x)[1])
    assert_same_bits(relu, torch.relu(plain))


def test_other_dtypes_and_operators_keep_their_own_call() -> None:
    module, x = nn.Conv2d(4, 6, 3).double(), inputs((1, 4, 8, 8)).double()
    program = lowered(Then(module, torch.relu), x)
    torch.testing.assert_close(program.run((x,)), torch.relu(module(x)))
    module, x = nn.Conv2d(4, 6, 3), inputs((1, 4, 8, 8))
    program = lowered(Then(module, torch.tanh), x)
    torch.testing.assert_close(program.run((x,)), torch.tanh(module(x)))


# ---- programs made by hand

WEIGHT = np.array([[[[-1.0]]], [[[2.0]]]], np.float32)
IMAGE = np.array([[[[1.0, -2.0], [3.0, -4.0]]]], np.float32)


def pointwise(method: MethodMaker, x: int, out: int) -> None:
    """Adds a 1 x 1 convolution of one channel to two."""
    one, zero = method.scalar(1), method.scalar(0)
    ones, zeros = (method.value(schema.IntList([v, v])) for v in (one, zero))
    weight = method.tensor((2, 1, 1, 1), constant=WEIGHT)
    no = method.scalar(False)
    method.call(
        "aten::convolution.out",
        x,
        weight,
        method.scalar(None),
        ones,
        zeros,
        ones,
        no,
        zeros,
        one,
        out,
        out,
    )


def test_a_jump_to_an_absorbed_call_runs_it() -> None:
    method = MethodMaker()
    flag, x, y = (
        method.tensor((1,), "bool"),
        method.tensor((1, 1, 2, 2)),
        method.tensor((1, 2, 2, 2)),
    )
    method.call("aten::expand_copy.out", x, *expanded(method), y, y)
    method.jump_if_false(flag, 3)
    pointwise(method, x, y)
    method.call("aten::relu.out", y, y, y)
    method.inputs, method.outputs = [flag, x], [y]
    loaded = Runtime.get().load_program(program_bytes(method)).load_method("forward")
    for flag_value, wanted, last in (
        (True, np.maximum(IMAGE * WEIGHT.reshape(1, 2, 1, 1), 0), "aten::convolution.out"),
        (False, np.maximum(IMAGE.repeat(2, 1), 0), "aten::relu.out"),
    ):
        given = [np.array([flag_value]), IMAGE]
        np.testing.assert_array_equal(loaded.execute(given)[0], wanted)
        operators = [row.operator for row in loaded.profile(given)]
        assert operators == ["aten::expand_copy.out", "jump", last]


def expanded(method: MethodMaker) -> tuple[int, int]:
    """The size and implicit arguments of an expand to [1, 2, 2, 2]."""
    one, two = method.scalar(1), method.scalar(2)
    return method.value(schema.IntList([one, two, two, two])), method.scalar(False)


def test_a_bound_that_an_instruction_computes_is_read_in_each_run() -> None:
    method = MethodMaker()
    x, y = method.tensor((1, 1, 2, 2)), method.tensor((1, 2, 2, 2))
    low, one = method.scalar(0), method.scalar(1)
    method.call("executorch_prim::add.Scalar", low, one, low)
    pointwise(method, x, y)
    method.call("aten::clamp.out", y, low, method.scalar(None), y, y)
    method.inputs, method.outputs = [x], [y]
    loaded = Runtime.get().load_program(program_bytes(method)).load_method("forward")
    for bound in (1, 2, 3):
        wanted = np.maximum(IMAGE * WEIGHT.reshape(1, 2, 1, 1), bound)
        np.testing.assert_array_equal(loaded.execute([IMAGE])[0], wanted)
