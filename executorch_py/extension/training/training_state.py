"""Parameters, and the state of their optimizer, in a data file (.ptd).

Parameters have their own names as keys, so that a program with external weights runs with the file.
The C interface (et_training_save, et_training_load) writes and reads the same files.
"""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any

import numpy as np

from executorch_py import _C
from executorch_py.atomic_file import replacing
from executorch_py.errors import InvalidArgument
from executorch_py.extension.training.optimizers import Optimizer
from executorch_py.extension.training.training_module import TrainingModule


def save_state(
    path: str | PathLike[str], module: TrainingModule, optimizer: Optimizer | None = None
) -> None:
    """Write the trained parameters, and with an optimizer its state; an old file is replaced."""
    tensors: dict[str, Any] = dict(module.named_parameters())
    if optimizer is not None:
        tensors.update(optimizer.state())
    content = _C.data_file_bytes(tensors)
    with replacing(path) as file:
        file.write(content)


def load_state(
    path: str | PathLike[str], module: TrainingModule, optimizer: Optimizer | None = None
) -> None:
    """Restore the parameters, and with an optimizer its state.

    Names, dtypes, shapes and layouts are checked before anything changes. Further entries of the
    file are ignored: a file with an optimizer's state also restores the parameters alone.
    """
    tensors: dict[str, Any] = dict(module.named_parameters())
    if optimizer is None:
        _C.load_data_file(path, tensors)
        return
    state = {key: np.empty_like(values) for key, values in optimizer.state().items()}
    steps = {
        key: values for key, values in state.items() if key.startswith(f"{optimizer.kind}/step/")
    }
    _C.load_data_file(path, steps)
    _check_steps(steps)
    _C.load_data_file(path, {**tensors, **state})
    optimizer.set_state(state)


def _check_steps(steps: Mapping[str, np.ndarray]) -> None:
    for key, step in steps.items():
        if step < 0:
            raise InvalidArgument(
                f"data file, {key!r}: expected a step of 0 or more, got {int(step)} "
                "[InvalidArgument, error: 0x12]"
            )
