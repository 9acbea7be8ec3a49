"""Training on the device, with upstream's names: modules that run a loss and its gradients, and
optimizers in C. Needs NumPy only.
"""

from executorch_py.extension.training.optimizers import (
    ExecuTorchAdam,
    ExecuTorchAdamW,
    ExecuTorchSGD,
    get_adam_optimizer,
    get_adamw_optimizer,
    get_sgd_optimizer,
)
from executorch_py.extension.training.training_module import (
    TrainingModule,
    _load_for_executorch_for_training,
    _load_for_executorch_for_training_from_buffer,
)
from executorch_py.extension.training.training_state import load_state, save_state

__all__ = [
    "ExecuTorchAdam",
    "ExecuTorchAdamW",
    "ExecuTorchSGD",
    "TrainingModule",
    "_load_for_executorch_for_training",
    "_load_for_executorch_for_training_from_buffer",
    "get_adam_optimizer",
    "get_adamw_optimizer",
    "get_sgd_optimizer",
    "load_state",
    "save_state",
]
