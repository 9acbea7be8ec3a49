"""LoRA adapters: two thin matrices beside linear layers, y = W x + B A x · alpha / rank.

Names are those of PEFT (`….self_attn.q_proj.lora_A.weight`) or of this model
(`layers.0.attention.wq.lora_a.weight`). Rows of B of wq and wk are put in the order of W's.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from executorch_py.extension.llm.checkpoint import CheckpointError
from executorch_py.extension.llm.model.transformer import Transformer
from executorch_py.extension.llm.model.weights import in_halves, open_checkpoint, places
from executorch_py.terminal_text import quoted, quoted_list

_NAME = re.compile(r"(?:base_model\.model\.)?(.+)\.(lora_[aAbB])(?:\.default)?\.weight")
_WITHOUT_EFFECT: dict[str, tuple[Any, ...]] = {
    "use_dora": (False, None),
    "bias": ("none", None),
    "modules_to_save": (None, []),
}


@dataclass(frozen=True)
class AdapterNumbers:
    """The numbers of an adapter's configuration, and the layers that it changes (empty: any)."""

    rank: int
    scale: float
    targets: tuple[str, ...] = ()


@dataclass(frozen=True)
class Adapter:
    """Matrices A [rank, columns] and B [rows, rank], which has the scale, by the layer's name."""

    layers: Mapping[str, tuple[torch.Tensor, torch.Tensor]]


class LoraLinear(torch.nn.Module):
    """A linear layer and its adapter."""

    def __init__(self, base: torch.nn.Module, a: torch.Tensor, b: torch.Tensor) -> None:
        super().__init__()
        self.base = base
        self.lora_a = torch.nn.Parameter(a, requires_grad=False)
        self.lora_b = torch.nn.Parameter(b, requires_grad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        linear = torch.nn.functional.linear
        result: torch.Tensor = self.base(x) + linear(linear(x, self.lora_a), self.lora_b)
        return result


@contextmanager
def adapted(model: Transformer, adapter: Adapter | None) -> Iterator[Transformer]:
    """The model with an adapter, until the block ends; weights are shared."""
    replaced = [] if adapter is None else add_adapter(model, adapter)
    try:
        yield model
    finally:
        for parent, leaf, module in replaced:
            setattr(parent, leaf, module)


def add_adapter(model: Transformer, adapter: Adapter) -> list[tuple[Any, str, torch.nn.Module]]:
    """Puts an adapter beside its layers: each layer's owner, its name there, and the layer."""
    replaced: list[tuple[Any, str, torch.nn.Module]] = []
    for name, (a, b) in adapter.layers.items():
        owner, _, leaf = name.rpartition(".")
        parent = model.get_submodule(owner)
        replaced.append((parent, leaf, getattr(parent, leaf)))
        setattr(parent, leaf, LoraLinear(getattr(parent, leaf), a, b))
    return replaced


def numbers_of(path: str | Path) -> AdapterNumbers:
    """The numbers of PEFT's adapter_config.json; CheckpointError for kinds that are not here."""
    try:
        entries = json.loads(Path(path).read_text(encoding="utf-8"))
        rank, alpha = int(entries["r"]), float(entries["lora_alpha"])
        targets = entries.get("target_modules") or ()
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CheckpointError(f"{path}: expected r and lora_alpha, got {error!r}") from None
    for key, off in _WITHOUT_EFFECT.items():
        if entries.get(key) not in off:
            raise CheckpointError(
                f"{path}: {key}: expected {off[0]}, as adapters are two matrices alone, got "
                f"{quoted(str(entries[key]))}"
            )
    root = math.sqrt(rank) if entries.get("use_rslora") else rank
    names = () if isinstance(targets, str) else tuple(map(str, targets))
    return AdapterNumbers(rank, alpha / root if rank > 0 else 0.0, names)


def open_adapter(path: str | Path, numbers: AdapterNumbers, model: Transformer) -> Adapter:
    """The matrices of a file; CheckpointError names those that are missing or do not fit."""
    checkpoint = open_checkpoint(path)
    found: dict[str, dict[str, torch.Tensor]] = {}
    surplus = []
    known = dict(places(model.args))
    for name in checkpoint:
        match = _NAME.fullmatch(name)
        place = match and known.get(match[1], match[1])
        if match is None or place is None or not _is_linear(model, place):
            surplus.append(name)
            continue
        turns = match[1] == place and not model.args.use_hf_rope
        tensor = checkpoint[name].to(model.limits.dtype)
        if turns and match[2].lower() == "lora_b" and place.endswith((".wq", ".wk")):
            tensor = in_halves(tensor, model.args.head_size, model.args.rotary_size)
        found.setdefault(place, {})[match[2].lower()] = tensor
    if surplus or not found:
        raise CheckpointError(
            f"{path}: expected lora_A and lora_B of linear layers alone, got "
            f"{quoted_list(surplus[:6]) if surplus else 'none'}"
        )
    layers = {}
    for place, pair in found.items():
        _check_target(str(path), place, known, numbers.targets)
        layers[place] = _checked(str(path), model, place, pair, numbers)
    return Adapter(layers)


def _is_linear(model: Transformer, place: str) -> bool:
    try:
        module = model.get_submodule(place)
    except AttributeError:
        return False
    return isinstance(module, torch.nn.Linear)


def _check_target(path: str, place: str, known: Mapping[str, str], targets: Sequence[str]) -> None:
    """Refuses a layer that the adapter's configuration does not name."""
    names = {place, *(theirs for theirs, own in known.items() if own == place)}
    leaves = {name.rpartition(".")[2] for name in names}
    if targets and not leaves & set(targets):
        raise CheckpointError(
            f"{path}: expected matrices of {', '.join(targets)} (target_modules), got {place}"
        )


def _checked(
    path: str,
    model: Transformer,
    place: str,
    pair: Mapping[str, torch.Tensor],
    numbers: AdapterNumbers,
) -> tuple[torch.Tensor, torch.Tensor]:
    layer: Any = model.get_submodule(place)
    wanted = {
        "lora_a": (numbers.rank, layer.in_features),
        "lora_b": (layer.out_features, numbers.rank),
    }
    for name, shape in wanted.items():
        if name not in pair:
            raise CheckpointError(f"{path}: {place}: expected {name}, got none")
        if tuple(pair[name].shape) != shape:
            raise CheckpointError(
                f"{path}: {place}.{name}: expected shape {list(shape)}, got "
                f"{list(pair[name].shape)}"
            )
    return pair["lora_a"], pair["lora_b"] * numbers.scale
