"""A causal language model from a folder in the layout of transformers or a GGUF file.

The model is built from its configuration without values; each parameter is then a tensor of the
mapped checkpoint, so that no weight is copied before it is quantized. Quantized weights of a GGUF
file stay its codes; where a program of float weights is wanted, they are dequantized to f32.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from executorch_py.extension.llm.checkpoint import Checkpoint, CheckpointError, open_folder
from executorch_py.extension.llm.checkpoint.gguf import Packed, open_gguf
from executorch_py.extension.llm.export.gguf_model import (
    codes_of,
    config_of,
    scale_frequencies,
    tensors_of,
)
from executorch_py.extension.llm.export.hf_attention import AttentionLayer
from executorch_py.extension.llm.export.hf_layers import use_linear_layers
from executorch_py.extension.llm.export.hf_parts import Parts, parts_of
from executorch_py.extension.llm.export.quantized_linear import check_finite
from executorch_py.terminal_text import first_names


@dataclass(frozen=True)
class Loaded:
    """A model for inference, with parameters in the checkpoint's dtypes."""

    model: Any
    unused: list[str]  # tensors of the checkpoint that are no parameter
    parts: Parts
    # Quantized weights by their parameters' names. These parameters have no values.
    codes: dict[str, Packed]

    @property
    def layers(self) -> dict[int, AttentionLayer]:
        """How each layer attends."""
        return self.parts.layers


def load_model(path: Path, *, keep_codes: bool = False, need_fit: bool = True) -> Loaded:
    """The model of a folder or a GGUF file.

    With `keep_codes`, weights of a GGUF file whose codes can be packed are not dequantized.
    Layers that are linear layers in another form become these. UnsupportedDecoder, before any
    weight is read, if the model's attention does not fit the operator for it; not with
    `need_fit=False`.
    """
    from transformers import AutoConfig

    if path.is_dir():
        model = _build(AutoConfig.from_pretrained(path))
        _read_ends(model, path)
        parts = _parts(model, need_fit)
        checkpoint = open_folder(path)
        unused: list[str] = []
        if _missing(model, checkpoint):  # in a layout that transformers converts
            model, unused = _converted(path, checkpoint)
        else:
            set_parameters(model, checkpoint)
            unused = unused_tensors(model, checkpoint)
        use_linear_layers(model)
        return Loaded(model, unused, parts, {})
    file = open_gguf(path)
    model = _build(config_of(file))
    parts = _parts(model, need_fit)
    checkpoint = tensors_of(file)
    codes = codes_of(file) if keep_codes else {}
    for name, source in _tied(model).items():
        if source in codes:
            codes.setdefault(name, codes[source])
    set_parameters(model, checkpoint, codes)
    scale_frequencies(model, file)
    return Loaded(model, unused_tensors(model, checkpoint), parts, codes)


def _parts(model: Any, need_fit: bool) -> Parts:
    parts = parts_of(model)
    if need_fit:
        parts.require_fit()
    return parts


def _missing(model: Any, checkpoint: Checkpoint) -> list[str]:
    """Parameters of a model that a checkpoint has not by their names."""
    tied = _tied(model)
    names = [name for name, _ in model.named_parameters(remove_duplicate=False)]
    return [n for n in names if n not in checkpoint and tied.get(n, n) not in checkpoint]


def _converted(path: Path, checkpoint: Checkpoint) -> tuple[Any, list[str]]:
    """A model with its weights as transformers reads them, and the tensors it does not use."""
    from transformers import AutoModelForCausalLM

    model, found = AutoModelForCausalLM.from_pretrained(
        path, dtype="auto", output_loading_info=True, local_files_only=True
    )
    missing = sorted(found["missing_keys"])
    other = sorted(str(key[0]) for key in found["mismatched_keys"])
    if missing or other:
        raise CheckpointError(
            f"{checkpoint.where}: expected tensors {first_names(missing or other)}, got "
            f"{'none of these names' if missing else 'other shapes'}"
        )
    return model.eval(), sorted(found["unexpected_keys"])


def _tied(model: Any) -> dict[str, str]:
    """Parameters that have another one's values, where the checkpoint has none of their name."""
    return dict(getattr(model, "all_tied_weights_keys", None) or {})


def _build(config: Any) -> Any:
    """A model without values."""
    from transformers import AutoModelForCausalLM
    from transformers.initialization import no_init_weights

    with no_init_weights():
        build: Any = AutoModelForCausalLM.from_config
        model = build(config, dtype=torch.float32)
    return model.eval()


def _read_ends(model: Any, folder: Path) -> None:
    """Ids of tokens that begin and end texts, from the folder's own file for generation: chat
    models have more of them there than in config.json."""
    from transformers import GenerationConfig

    if (folder / "generation_config.json").is_file():
        found = GenerationConfig.from_pretrained(folder)
        for name in ("bos_token_id", "eos_token_id"):
            value = getattr(found, name, None)
            if value is not None:
                setattr(model.generation_config, name, value)


def set_parameters(
    model: torch.nn.Module, checkpoint: Checkpoint, codes: Mapping[str, Packed] | None = None
) -> None:
    """Makes each parameter of a model a tensor of the checkpoint, of the same name and shape.

    Parameters in `codes` keep the memory that they have.
    """
    tied = _tied(model)
    missing = []
    made: dict[str, torch.nn.Parameter] = {}
    for name, parameter in list(model.named_parameters(remove_duplicate=False)):
        source = name if name in checkpoint else tied.get(name, name)
        if source not in checkpoint:
            missing.append(name)
            continue
        tensor = (codes or {}).get(source) or checkpoint[source]
        if tensor.shape != parameter.shape:
            raise CheckpointError(
                f"{checkpoint.where}: tensor {source!r}: expected shape "
                f"{list(parameter.shape)}, got {list(tensor.shape)}"
            )
        if isinstance(tensor, torch.Tensor):
            parameter = torch.nn.Parameter(tensor, requires_grad=False)
        owner, _, leaf = name.rpartition(".")
        setattr(model.get_submodule(owner), leaf, made.setdefault(source, parameter))
    if missing:
        raise CheckpointError(
            f"{checkpoint.where}: expected tensors {first_names(missing)}, got none of these names"
        )


def unused_tensors(model: torch.nn.Module, checkpoint: Checkpoint) -> list[str]:
    """Tensors of a checkpoint that are no parameter of the model.

    Rotary frequencies are not counted: models compute them from the configuration.
    """
    names = {name for name, _ in model.named_parameters(remove_duplicate=False)}
    return [n for n in checkpoint if n not in names and not n.endswith("rotary_emb.inv_freq")]


def cast_parameters(model: torch.nn.Module, dtype: torch.dtype = torch.float32) -> None:
    """Parameters in the dtype in which a model computes. One that modules share is cast once.

    CheckpointError for a parameter with NaN or infinity, or one too large for the dtype.
    """
    made: dict[int, torch.nn.Parameter] = {}
    for place, module in model.named_modules():
        for name, parameter in list(module.named_parameters(recurse=False)):
            if id(parameter) not in made:
                cast = parameter
                if parameter.dtype != dtype:
                    cast = torch.nn.Parameter(parameter.to(dtype), requires_grad=False)
                check_finite(f"{place}.{name}" if place else name, cast)
                made[id(parameter)] = cast
            setattr(module, name, made[id(parameter)])
