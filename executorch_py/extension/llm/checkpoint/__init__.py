"""Checkpoints of language models: tensors by name, mapped from their files."""

from executorch_py.extension.llm.checkpoint.folder import open_folder
from executorch_py.extension.llm.checkpoint.tensors import Checkpoint, CheckpointError

__all__ = ["Checkpoint", "CheckpointError", "open_folder"]
