"""TrainingModule: runs a training program and gives its gradients and parameters by name.

A training program returns the user's outputs, then a gradient for each trained parameter, then
these parameters; constant methods beside it have the two indices and the names. Parameters are
views of the memory that the next run reads; outputs and gradients are copies.
"""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Any

import numpy as np

from executorch_py.errors import InvalidArgument, InvalidProgram
from executorch_py.extension.pybindings.portable_lib import (
    ExecuTorchModule,
    _load_for_executorch,
    _load_for_executorch_from_buffer,
)
from executorch_py.terminal_text import quoted, quoted_list

GRADIENTS = "__et_training_gradients_index_"
PARAMETERS = "__et_training_parameters_index_"
NAMES = "__et_training_fqn_"


class TrainingModule:
    """The training methods of a module; state of the last run is kept here."""

    def __init__(self, module: ExecuTorchModule) -> None:
        self.model = module
        self.gradients_method_prefix = GRADIENTS
        self.parameters_method_prefix = PARAMETERS
        self.fqn_method_prefix = NAMES
        self.named_grads: dict[str, Any] | None = None
        self.named_params: dict[str, Any] | None = None
        self._layouts: dict[str, tuple[int, int, list[str]]] = {}

    def training_methods(self) -> list[str]:
        """Names of the methods that were exported for training."""
        names = self.model.method_names()
        return [name for name in names if f"{GRADIENTS}{name}" in names]

    def forward_backward(self, method_name: str, inputs: Sequence[Any]) -> list[Any]:
        """Runs the loss and its gradients; returns copies of the user's outputs, loss included."""
        first_gradient, first_parameter, names = self._layout(method_name)
        outputs = self.model.run_method(method_name, inputs, clone_outputs=False)
        gradients = map(_copied, outputs[first_gradient:first_parameter])
        self.named_grads = dict(zip(names, gradients, strict=True))
        if self.named_params is None:
            self.named_params = dict(zip(names, outputs[first_parameter:], strict=True))
        return [_copied(value) for value in outputs[:first_gradient]]

    def named_gradients(self) -> dict[str, Any]:
        """The gradients of the last run, by the parameter's name."""
        if self.named_grads is None:
            raise InvalidArgument(
                "named_gradients: expected a call of forward_backward before, got none "
                "[InvalidArgument, error: 0x12]"
            )
        return self.named_grads

    def named_parameters(self) -> dict[str, Any]:
        """The trained parameters: views, which an optimizer writes.

        The kind of tensors is that of the first run's inputs, torch or NumPy. Before a run the
        parameters have the values of the file.
        """
        if self.named_params is None:
            methods = self.training_methods()
            if len(methods) != 1:
                raise InvalidArgument(
                    "named_parameters: expected a program with one training method, or a call of "
                    f"forward_backward before, got {quoted_list(methods)} "
                    "[InvalidArgument, error: 0x12]"
                )
            _, first_parameter, names = self._layout(methods[0])
            outputs = self.model._methods.get(methods[0]).outputs(False)
            self.named_params = dict(zip(names, outputs[first_parameter:], strict=True))
        return self.named_params

    def _layout(self, method_name: str) -> tuple[int, int, list[str]]:
        """Indices of the first gradient and parameter, and the names of all."""
        layout = self._layouts.get(method_name)
        if layout is None:
            if method_name not in self.training_methods():
                raise InvalidArgument(
                    f"method_name: expected a training method, one of "
                    f"{quoted_list(self.training_methods())}, got {quoted(method_name)}; export "
                    "with torch.export.experimental._export_forward_backward "
                    "[InvalidArgument, error: 0x12]"
                )
            names = self.model.run_method(f"{NAMES}{method_name}")
            (gradient,) = self.model.run_method(f"{GRADIENTS}{method_name}")
            (parameter,) = self.model.run_method(f"{PARAMETERS}{method_name}")
            # Upstream: its exporter also counts values that are written back to buffers, which are
            # no outputs; gradients and parameters are the last outputs in any case.
            last = self.model.method_meta(method_name).num_outputs() - len(names)
            if parameter - gradient != len(names) or not 0 <= last - len(names) <= gradient:
                raise InvalidProgram(
                    f"method {quoted(method_name)}: expected {len(names)} gradients and "
                    f"parameters, as many as names, got gradients from output {gradient} and "
                    f"parameters from output {parameter} of {last + len(names)} "
                    "[InvalidProgram, error: 0x23]"
                )
            layout = self._layouts[method_name] = (last - len(names), last, names)
        return layout


def _copied(value: Any) -> Any:
    """A copy of a tensor of either library; other values as they are."""
    if isinstance(value, np.ndarray):
        return value.copy()
    clone = getattr(value, "clone", None)
    return value if clone is None else clone()


def _load_for_executorch_for_training(path: str | PathLike[str]) -> TrainingModule:
    """Opens a training program from a file."""
    return TrainingModule(_load_for_executorch(path))


def _load_for_executorch_for_training_from_buffer(
    buffer: bytes | bytearray | memoryview,
) -> TrainingModule:
    """Opens a training program in memory."""
    return TrainingModule(_load_for_executorch_from_buffer(buffer))
