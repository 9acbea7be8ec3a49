"""The checkpoint of a folder: one file of safetensors, or several with an index."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch

from executorch_py.extension.llm.checkpoint.safetensors import open_safetensors
from executorch_py.extension.llm.checkpoint.tensors import Checkpoint, CheckpointError
from executorch_py.terminal_text import quoted

_ONE = "model.safetensors"
_INDEX = "model.safetensors.index.json"


def open_folder(folder: Path) -> Checkpoint:
    """The tensors of a folder as transformers saves them; CheckpointError for a damaged one."""
    if (folder / _INDEX).is_file():
        return _open_index(folder)
    if (folder / _ONE).is_file():
        return open_safetensors(folder / _ONE)
    found = sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []
    raise CheckpointError(
        f"{folder}: expected {_ONE} or {_INDEX}, got {', '.join(map(quoted, found[:8])) or 'none'}"
    )


def _open_index(folder: Path) -> Checkpoint:
    path = folder / _INDEX
    try:
        places = json.loads(path.read_bytes())["weight_map"]
        files = sorted(set(places.values()))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CheckpointError(
            f"{path}: expected a weight_map of names to files, got {error!r}"
        ) from None
    parts = {}
    for file in files:
        if not isinstance(file, str) or Path(file).name != file or not (folder / file).is_file():
            raise CheckpointError(
                f"{path}: expected names of files beside it, got {quoted(str(file))}"
            )
        parts[file] = open_safetensors(folder / file)
    readers: dict[str, Callable[[], torch.Tensor]] = {}
    for name, file in places.items():
        if name not in parts[file]:
            raise CheckpointError(f"{path}: tensor {quoted(name)} is not in {quoted(file)}")
        readers[name] = partial(parts[file].__getitem__, name)
    return Checkpoint(readers, str(folder))
