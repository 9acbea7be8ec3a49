"""A causal language model from a folder in the layout of transformers or a GGUF file.

The model is built from its configuration without values; each parameter is then a tensor of the
mapped checkpoint, so that no weight is copied before it is quantized.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from executorch_py.extension.llm.checkpoint import Checkpoint, CheckpointError, open_folder
from executorch_py.extension.llm.checkpoint.gguf import open_gguf
from executorch_py.extension.llm.export.gguf_model import (
    config_of,
    scale_frequencies,
    tensors_of,
)
from executorch_py.extension.llm.export.hf_decoder import attention_layers
from executorch_py.terminal_text import quoted_list


def load_model(path: Path) -> Any:
    """The model of a folder or a GGUF file, for inference, in the checkpoint's dtypes.

    UnsupportedDecoder, before any weight is read, if its attention is not supported.
    """
    from transformers import AutoConfig

    if path.is_dir():
        model = _build(AutoConfig.from_pretrained(path))
        set_parameters(model, open_folder(path))
        return model
    file = open_gguf(path)
    model = _build(config_of(file))
    set_parameters(model, tensors_of(file))
    scale_frequencies(model, file)
    return model


def _build(config: Any) -> Any:
    """A model without values."""
    from transformers import AutoModelForCausalLM
    from transformers.initialization import no_init_weights

    with no_init_weights():
        build: Any = AutoModelForCausalLM.from_config
        model = build(config, dtype=torch.float32)
    attention_layers(model)
    return model.eval()


def set_parameters(model: torch.nn.Module, checkpoint: Checkpoint) -> None:
    """Makes each parameter of a model a tensor of the checkpoint, of the same name and shape."""
    tied = dict(getattr(model, "all_tied_weights_keys", None) or {})
    missing = []
    made: dict[str, torch.nn.Parameter] = {}
    for name, parameter in list(model.named_parameters(remove_duplicate=False)):
        source = name if name in checkpoint else tied.get(name, name)
        if source not in checkpoint:
            missing.append(name)
            continue
        tensor = checkpoint[source]
        if tensor.shape != parameter.shape:
            raise CheckpointError(
                f"{checkpoint.where}: tensor {source!r}: expected shape "
                f"{list(parameter.shape)}, got {list(tensor.shape)}"
            )
        owner, _, leaf = name.rpartition(".")
        shared = made.setdefault(source, torch.nn.Parameter(tensor, requires_grad=False))
        setattr(model.get_submodule(owner), leaf, shared)
    if missing:
        raise CheckpointError(
            f"{checkpoint.where}: expected tensors {quoted_list(missing[:6])}"
            f"{' and more' if len(missing) > 6 else ''}, got none of these names"
        )


def widen_parameters(model: torch.nn.Module) -> None:
    """Parameters in f32, in which models compute. One that modules share is widened once."""
    made: dict[int, torch.nn.Parameter] = {}
    for module in model.modules():
        for name, parameter in list(module.named_parameters(recurse=False)):
            if parameter.dtype == torch.float32:
                continue
            if id(parameter) not in made:
                wide = parameter.to(torch.float32)
                made[id(parameter)] = torch.nn.Parameter(wide, requires_grad=False)
            setattr(module, name, made[id(parameter)])
