"""Optimizers of named parameters: SGD, Adam and AdamW with torch's options and formulas, in C.

A step updates the parameters in place, with the gradient of the same name; a parameter without one
keeps its value and its state, as in torch. State is float32, one step count for each parameter.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from executorch_py import _C
from executorch_py.errors import ExecutorchError
from executorch_py.terminal_text import quoted


class Optimizer:
    """Base class: options, and for each parameter a step count and state tensors."""

    kind: ClassVar[str]

    def __init__(self, named_parameters: Mapping[str, Any], options: dict[str, float]) -> None:
        self.options = options
        self.slot_names = _C.optimizer_slots(self.kind, options)
        self.named_parameters = dict(named_parameters)
        self.steps: dict[str, int] = {}
        self.slots: dict[str, list[np.ndarray]] = {}

    @property
    def lr(self) -> float:
        """The learning rate; may be set between steps."""
        return self.options["lr"]

    @lr.setter
    def lr(self, lr: float) -> None:
        options = {**self.options, "lr": lr}
        _C.optimizer_slots(self.kind, options)
        self.options = options

    def step(self, named_gradients: Mapping[str, Any]) -> None:
        """Update the parameters that have a gradient; other gradients are ignored."""
        for name, parameter in self.named_parameters.items():
            gradient = named_gradients.get(name)
            if gradient is None:
                continue
            slots = self.slots.get(name)
            if slots is None:
                slots = [_state_like(parameter) for _ in self.slot_names]
            step = self.steps.get(name, 0) + 1
            try:
                _C.optimizer_update(self.kind, self.options, step, parameter, gradient, slots)
            except ExecutorchError as error:
                raise type(error)(f"parameter {quoted(name)}: {error.args[0]}") from None
            self.slots[name] = slots
            self.steps[name] = step

    def state(self) -> dict[str, np.ndarray]:
        """Steps and state tensors by key: `adam/step/NAME`, `adam/exp_avg/NAME` … for each NAME."""
        found = {}
        for name, parameter in self.named_parameters.items():
            slots = self.slots.get(name) or [_state_like(parameter) for _ in self.slot_names]
            found[f"{self.kind}/step/{name}"] = np.array(self.steps.get(name, 0), np.int64)
            for slot, values in zip(self.slot_names, slots, strict=True):
                found[f"{self.kind}/{slot}/{name}"] = values
        return found

    def set_state(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue from the state of another optimizer of the same kind, as state() gave it."""
        for name in self.named_parameters:
            self.steps[name] = int(state[f"{self.kind}/step/{name}"])
            self.slots[name] = [state[f"{self.kind}/{slot}/{name}"] for slot in self.slot_names]

    def __repr__(self) -> str:
        options = ", ".join(f"{name}={value}" for name, value in self.options.items())
        return f"<{type(self).__name__} of {len(self.named_parameters)} parameters, {options}>"


def _state_like(parameter: Any) -> np.ndarray:
    """Zeros in the shape and the order of dimensions of a tensor of either library."""
    strides = parameter.strides if isinstance(parameter, np.ndarray) else parameter.stride()
    order = sorted(range(len(strides)), key=lambda dim: -int(strides[dim]))
    zeros: np.ndarray = np.zeros([parameter.shape[dim] for dim in order], np.float32)
    turned: np.ndarray = zeros.transpose(np.argsort(order))
    return turned


class ExecuTorchSGD(Optimizer):
    """Stochastic gradient descent, as torch.optim.SGD."""

    kind = "sgd"


class ExecuTorchAdam(Optimizer):
    """Adam, as torch.optim.Adam."""

    kind = "adam"


class ExecuTorchAdamW(Optimizer):
    """Adam with decoupled weight decay, as torch.optim.AdamW."""

    kind = "adamw"


def get_sgd_optimizer(
    named_params: Mapping[str, Any],
    lr: float = 0.1,
    momentum: float = 0.0,
    dampening: float = 0.0,
    weight_decay: float = 0.0,
    nesterov: bool = False,
    *,
    maximize: bool = False,
) -> ExecuTorchSGD:
    """SGD over these parameters."""
    options = {
        "lr": lr,
        "momentum": momentum,
        "dampening": dampening,
        "weight_decay": weight_decay,
        "nesterov": nesterov,
        "maximize": maximize,
    }
    return ExecuTorchSGD(named_params, options)


def _adam_options(
    lr: float,
    betas: tuple[float, float],
    eps: float,
    weight_decay: float,
    amsgrad: bool,
    maximize: bool,
) -> dict[str, float]:
    return {
        "lr": lr,
        "beta1": betas[0],
        "beta2": betas[1],
        "eps": eps,
        "weight_decay": weight_decay,
        "amsgrad": amsgrad,
        "maximize": maximize,
    }


def get_adam_optimizer(
    named_params: Mapping[str, Any],
    lr: float = 1e-3,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    amsgrad: bool = False,
    *,
    maximize: bool = False,
) -> ExecuTorchAdam:
    """Adam over these parameters; weight decay is added to the gradients."""
    options = _adam_options(lr, betas, eps, weight_decay, amsgrad, maximize)
    return ExecuTorchAdam(named_params, options)


def get_adamw_optimizer(
    named_params: Mapping[str, Any],
    lr: float = 1e-3,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    weight_decay: float = 1e-2,
    amsgrad: bool = False,
    *,
    maximize: bool = False,
) -> ExecuTorchAdamW:
    """AdamW over these parameters; weight decay shrinks the parameters."""
    options = _adam_options(lr, betas, eps, weight_decay, amsgrad, maximize)
    return ExecuTorchAdamW(named_params, options)
