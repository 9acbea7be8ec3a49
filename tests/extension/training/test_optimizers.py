"""Optimizers in C against torch.optim, step by step, and refused options and tensors."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from support.tolerance import F32, F32_LAYERS, assert_near

from executorch_py import _C
from executorch_py.errors import InvalidArgument, InvalidType, NotSupported
from executorch_py.extension.training import (
    get_adam_optimizer,
    get_adamw_optimizer,
    get_sgd_optimizer,
)

SHAPES = {"conv.weight": (4, 3, 3, 3), "fc.weight": (17, 5), "fc.bias": (17,), "scale": ()}
SGD = [
    {},
    {"momentum": 0.9},
    {"momentum": 0.9, "dampening": 0.25},
    {"momentum": 0.9, "nesterov": True},
    {"momentum": 0.9, "weight_decay": 0.01, "nesterov": True},
    {"weight_decay": 0.1},
    {"maximize": True, "momentum": 0.5, "weight_decay": 0.01, "dampening": 0.5},
]
ADAM = [
    {},
    {"weight_decay": 0.1},
    {"betas": (0.5, 0.9), "eps": 1e-3},
    {"betas": (0.0, 0.0)},
    {"amsgrad": True, "betas": (0.8, 0.5)},
    {"maximize": True, "weight_decay": 0.05, "amsgrad": True},
]
CASES = [
    *[(get_sgd_optimizer, torch.optim.SGD, {"lr": 0.1, **options}) for options in SGD],
    *[(get_adam_optimizer, torch.optim.Adam, {"lr": 0.01, **options}) for options in ADAM],
    *[(get_adamw_optimizer, torch.optim.AdamW, {"lr": 0.01, **options}) for options in ADAM],
]


def tensors(seed: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {name: torch.randn(shape, generator=generator) for name, shape in SHAPES.items()}


def numpy(values: dict[str, torch.Tensor]) -> dict[str, np.ndarray]:
    return {name: value.numpy().copy() for name, value in values.items()}


def eager(make: Callable[..., Any], options: dict[str, Any], steps: int) -> list[dict[str, Any]]:
    """Parameters after each step of torch's optimizer."""
    parameters = tensors(0)
    optimizer = make(list(parameters.values()), **options)
    found = []
    for step in range(steps):
        for name, gradient in tensors(1 + step).items():
            parameters[name].grad = gradient
        optimizer.step()
        found.append({name: value.clone() for name, value in parameters.items()})
    return found


@pytest.mark.parametrize("kind", ["torch", "numpy"])
@pytest.mark.parametrize(
    ("ours", "theirs", "options"), CASES, ids=lambda value: getattr(value, "__name__", str(value))
)
def test_every_step_equals_torch(ours: Any, theirs: Any, options: Any, kind: str) -> None:
    convert = numpy if kind == "numpy" else dict
    parameters = convert(tensors(0))
    optimizer = ours(parameters, **options)
    for step, expected in enumerate(eager(theirs, options, 12)):
        optimizer.step(convert(tensors(1 + step)))
        for name, value in parameters.items():
            assert_near(torch.as_tensor(value), expected[name], F32_LAYERS)


def test_the_state_equals_torchs() -> None:
    parameters = tensors(0)
    ours = get_adam_optimizer(tensors(0), amsgrad=True)
    theirs = torch.optim.Adam(list(parameters.values()), amsgrad=True)
    for step in range(3):
        for name, gradient in tensors(1 + step).items():
            parameters[name].grad = gradient
        theirs.step()
        ours.step(tensors(1 + step))
    assert ours.slot_names == ["exp_avg", "exp_avg_sq", "max_exp_avg_sq"]
    for name, parameter in parameters.items():
        assert ours.steps[name] == theirs.state[parameter]["step"]
        for slot, values in zip(ours.slot_names, ours.slots[name], strict=True):
            expected = theirs.state[parameter][slot]
            assert_near(torch.as_tensor(values).view(expected.shape), expected, F32)


def test_a_rate_that_changes_between_steps_is_followed() -> None:
    parameters, eagers = tensors(0), tensors(0)
    ours = get_sgd_optimizer(parameters, 0.1, 0.9)
    theirs = torch.optim.SGD(list(eagers.values()), 0.1, 0.9)
    for step, rate in enumerate([0.1, 0.05, 0.0, 0.2]):
        ours.lr = theirs.param_groups[0]["lr"] = rate
        for name, gradient in tensors(1 + step).items():
            eagers[name].grad = gradient
        theirs.step()
        ours.step(tensors(1 + step))
    assert ours.lr == 0.2
    for name, value in eagers.items():
        assert_near(parameters[name], value, F32)


def test_a_parameter_without_a_gradient_keeps_its_value_and_its_count() -> None:
    parameters = tensors(0)
    optimizer = get_adam_optimizer(parameters)
    gradients = tensors(1)
    optimizer.step({"fc.bias": gradients["fc.bias"], "of another model": torch.ones(3)})
    assert optimizer.steps == {"fc.bias": 1}
    assert not torch.equal(parameters["fc.bias"], tensors(0)["fc.bias"])
    for name in set(SHAPES) - {"fc.bias"}:
        assert torch.equal(parameters[name], tensors(0)[name])


@pytest.mark.parametrize("turned", ["parameter", "gradient", "both"])
def test_layouts_of_parameter_and_gradient_may_differ(turned: str) -> None:
    def laid(value: torch.Tensor, is_turned: bool) -> torch.Tensor:
        return value.to(memory_format=torch.channels_last) if is_turned else value

    value, gradient = torch.randn(5, 7, 3, 11), torch.randn(5, 7, 3, 11)
    parameter = laid(value.clone(), turned != "gradient")
    other = value.clone()
    get_sgd_optimizer({"w": parameter}, 0.1).step({"w": laid(gradient, turned != "parameter")})
    get_sgd_optimizer({"w": other}, 0.1).step({"w": gradient})
    assert torch.equal(parameter, other)


def test_a_gradient_may_be_any_view() -> None:
    parameter, other, gradient = torch.zeros(3, 4), torch.zeros(3, 4), torch.randn(1, 4)
    get_sgd_optimizer({"w": parameter}, 1.0).step({"w": gradient.expand(3, 4)})
    get_sgd_optimizer({"w": other}, 1.0).step({"w": gradient.expand(3, 4).contiguous()})
    assert torch.equal(parameter, other)


@pytest.mark.parametrize(
    ("make", "options", "message"),
    [
        (get_sgd_optimizer, {"lr": -1.0}, "lr: expected 0 or more, got -1"),
        (get_sgd_optimizer, {"lr": float("nan")}, "lr: expected 0 or more"),
        (get_sgd_optimizer, {"lr": 1.0, "momentum": -0.5}, "momentum: expected 0 or more"),
        (get_sgd_optimizer, {"lr": 1.0, "dampening": float("nan")}, "dampening: expected a num"),
        (get_sgd_optimizer, {"lr": 1.0, "weight_decay": -1.0}, "weight_decay: expected 0 or"),
        (get_sgd_optimizer, {"lr": 1.0, "nesterov": True}, "nesterov: expected momentum above 0"),
        (
            get_sgd_optimizer,
            {"lr": 1.0, "nesterov": True, "momentum": 0.5, "dampening": 0.25},
            "dampening 0, got 0.5 and 0.25",
        ),
        (get_adam_optimizer, {"betas": (1.0, 0.9)}, "beta1: expected 0 or more and less than 1"),
        (get_adamw_optimizer, {"betas": (0.9, -0.1)}, "beta2: expected 0 or more and less"),
        (get_adam_optimizer, {"eps": -1.0}, "eps: expected 0 or more"),
    ],
)
def test_options_that_torch_refuses_are_refused(make: Any, options: Any, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        make(tensors(0), **options)


@pytest.mark.parametrize(
    ("parameter", "gradient", "error", "message"),
    [
        (torch.zeros(3, dtype=torch.bfloat16), torch.ones(3), NotSupported, "f32, got bf16"),
        (torch.zeros(3), torch.ones(3, dtype=torch.float64), NotSupported, "f32, got f64"),
        (torch.zeros(3), torch.ones(4), InvalidArgument, "the parameter's size 3, got 4"),
        (torch.zeros(3), torch.ones(3, 1), InvalidArgument, "1 dimensions, got 2"),
        (torch.zeros(3), "ones", InvalidType, "gradient: expected a tensor, got str"),
        (
            torch.zeros(6)[::2],
            torch.ones(3),
            InvalidArgument,
            r"expected dense memory, got strides of \(8,\) bytes for shape \(3,\)",
        ),
        (
            np.frombuffer(bytearray(13), np.float32, 3, 1),
            torch.ones(3),
            InvalidArgument,
            "is aligned to its elements of 4 bytes, got address 0x",
        ),
        (
            np.zeros(3, ">f4"),
            torch.ones(3),
            NotSupported,
            r"expected the byte order of this machine, got dtype\('>f4'\)",
        ),
        (
            np.frombuffer(bytes(12), np.float32),
            torch.ones(3),
            InvalidArgument,
            "expected memory that can be written, got a read-only array",
        ),
    ],
)
def test_tensors_that_do_not_fit_are_refused_by_name(
    parameter: Any, gradient: Any, error: type[Exception], message: str
) -> None:
    before = copy.deepcopy(parameter)
    with pytest.raises(error, match=rf"parameter 'fc\.bias': .*{message}"):
        get_sgd_optimizer({"fc.bias": parameter}, 0.1).step({"fc.bias": gradient})
    assert bool((parameter == before).all())


def test_state_of_another_dtype_or_layout_is_refused() -> None:
    parameter, gradient = np.zeros((2, 3), np.float32), np.ones((2, 3), np.float32)
    state = np.zeros((3, 2), np.float64).T
    message = (
        r"momentum_buffer: expected f32 \[2, 3\] in dim order \[0, 1\], as the parameter, "
        r"got f64 \[2, 3\] in dim order \[1, 0\]"
    )
    with pytest.raises(InvalidArgument, match=message):
        options = {"lr": 0.1, "momentum": 0.5}
        _C.optimizer_update("sgd", options, 1, parameter, gradient, [state])


def test_a_rate_that_torch_refuses_leaves_the_old_one() -> None:
    optimizer = get_sgd_optimizer(tensors(0), 0.1)
    with pytest.raises(InvalidArgument, match="lr: expected 0 or more"):
        optimizer.lr = -0.5
    assert optimizer.lr == 0.1
