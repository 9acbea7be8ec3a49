"""Weights of a Transformer: from a checkpoint of Meta or of transformers, or random.

A checkpoint of transformers has other names, and its rows of wq and wk pair elements i and i + n/2
of a head. In checkpoints of Meta neighbours are a pair, unless the arguments say use_hf_rope; their
rows are reordered here.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

import torch

from executorch_py.extension.llm.checkpoint import Checkpoint, CheckpointError, open_folder
from executorch_py.extension.llm.checkpoint.safetensors import open_safetensors
from executorch_py.extension.llm.model.model_args import ModelArgs
from executorch_py.extension.llm.model.transformer import Transformer
from executorch_py.terminal_text import first_names, quoted, quoted_list

_META_FILE = "consolidated.00.pth"
_FIRST_OF_TRANSFORMERS = "model.embed_tokens.weight"
# Tensors that models compute from their arguments.
_COMPUTED = ("rope.freqs", ".rotary_emb.inv_freq")
_LAYER_NAMES = {
    "attention.wq": "self_attn.q_proj",
    "attention.wk": "self_attn.k_proj",
    "attention.wv": "self_attn.v_proj",
    "attention.wo": "self_attn.o_proj",
    "attention.q_norm_fn": "self_attn.q_norm",
    "attention.k_norm_fn": "self_attn.k_norm",
    "feed_forward.w1": "mlp.gate_proj",
    "feed_forward.w2": "mlp.down_proj",
    "feed_forward.w3": "mlp.up_proj",
    "attention_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
}
# Names of norms in models that have four of them in a layer.
_FOUR_NORMS = {
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "post_ffn_norm": "post_feedforward_layernorm",
}
# Names in models with short convolutions (LFM2).
_WITH_CONVOLUTIONS = {
    "attention.wo": "self_attn.out_proj",
    "attention.q_norm_fn": "self_attn.q_layernorm",
    "attention.k_norm_fn": "self_attn.k_layernorm",
    "conv.B_proj": "conv.B_proj",
    "conv.C_proj": "conv.C_proj",
    "conv.x_proj": "conv.x_proj",
    "conv.conv": "conv.conv",
    "conv.out_proj": "conv.out_proj",
    "feed_forward.w1": "feed_forward.w1",
    "feed_forward.w2": "feed_forward.w2",
    "feed_forward.w3": "feed_forward.w3",
    "attention_norm": "operator_norm",
    "ffn_norm": "ffn_norm",
}
_OUTER_NAMES = {"tok_embeddings": "model.embed_tokens", "norm": "model.norm", "output": "lm_head"}


def open_checkpoint(path: str | Path) -> Checkpoint:
    """The tensors of a .pth or .safetensors file, or of a folder of either; none is read."""
    path = Path(path)
    if path.is_dir() and (path / _META_FILE).is_file():
        path = path / _META_FILE
    if path.is_dir():
        return open_folder(path)
    if not path.is_file():
        raise CheckpointError(f"{path}: expected a checkpoint, got no such file")
    return open_safetensors(path) if path.suffix == ".safetensors" else _open_pickle(path)


def _open_pickle(path: Path) -> Checkpoint:
    try:
        entries = torch.load(path, map_location="cpu", mmap=True, weights_only=True)
    except (OSError, RuntimeError, ValueError, EOFError, pickle.UnpicklingError) as error:
        line = str(error).strip().partition("\n")[0]
        raise CheckpointError(
            f"{path}: expected tensors saved by torch.save, got {line or type(error).__name__}"
        ) from None
    if isinstance(entries, Mapping) and isinstance(entries.get("model"), Mapping):
        entries = entries["model"]
    if not isinstance(entries, Mapping):
        raise CheckpointError(f"{path}: expected tensors by name, got a {type(entries).__name__}")
    others = [str(name) for name, t in entries.items() if not isinstance(t, torch.Tensor)]
    if others:
        raise CheckpointError(f"{path}: expected tensors alone, got {quoted_list(others[:6])}")
    return Checkpoint({name: partial(entries.__getitem__, name) for name in entries}, str(path))


def load_weights(model: Transformer, checkpoint: Checkpoint) -> None:
    """Makes each parameter a tensor of a checkpoint, in the checkpoint's dtype.

    CheckpointError names tensors that are missing, have another shape or belong to no parameter.
    """
    args = model.args
    if _FIRST_OF_TRANSFORMERS in checkpoint:
        found = _renamed(args, checkpoint)
    else:
        found = Checkpoint({n: partial(checkpoint.__getitem__, n) for n in checkpoint}, "")
        if not args.use_hf_rope:
            found = _reordered(args, found)
    _set_parameters(model, found, checkpoint.where)


def initialize(model: Transformer) -> None:
    """Random weights, as torch's modules begin with; norms have ones."""
    for module in model.modules():
        if isinstance(module, (torch.nn.Linear, torch.nn.Embedding, torch.nn.Conv1d)):
            module.to_empty(device="cpu")
            module.reset_parameters()
    for parameter in model.parameters():
        parameter.requires_grad_(False)


def _set_parameters(model: Transformer, found: Checkpoint, where: str) -> None:
    names = [name for name, _ in model.named_parameters()]
    tied = "output.weight" not in found and "tok_embeddings.weight" in found
    missing = [n for n in names if n not in found and not (tied and n == "output.weight")]
    if missing:
        raise CheckpointError(
            f"{where}: expected tensors {first_names(missing)}, got none of these names"
        )
    known = set(names)
    surplus = [n for n in found if n not in known and not n.endswith(_COMPUTED)]
    if surplus:
        raise CheckpointError(
            f"{where}: expected tensors of the model's {len(names)} parameters alone, got "
            f"{first_names(surplus)}: check the keys of the params JSON"
        )
    for name, parameter in list(model.named_parameters()):
        if name not in found:
            continue
        tensor = found[name]
        if tensor.shape != parameter.shape:
            raise CheckpointError(
                f"{where}: tensor {quoted(name)}: expected shape {list(parameter.shape)}, got "
                f"{list(tensor.shape)}"
            )
        owner, _, leaf = name.rpartition(".")
        new = torch.nn.Parameter(tensor, requires_grad=False)
        setattr(model.get_submodule(owner), leaf, new)
    if tied:
        model.output.weight = model.tok_embeddings.weight


# ---- names of transformers


def _renamed(args: ModelArgs, checkpoint: Checkpoint) -> Checkpoint:
    """The same tensors by this model's names; fused ones are cut into parts."""
    known = dict(places(args))
    readers: dict[str, Callable[[], torch.Tensor]] = {}
    for name in checkpoint:
        read = partial(checkpoint.__getitem__, name)
        module, _, leaf = name.rpartition(".")
        parts = _fused_parts(args, module)
        if parts:
            stem = module.rpartition(".")[0]
            for (first, last), part in parts.items():
                place = known.get(f"{stem}.{part}", f"{stem}.{part}")
                readers[f"{place}.{leaf}"] = partial(_rows, read, first, last)
        else:
            readers[f"{known.get(module, module)}.{leaf}"] = read
    return Checkpoint(readers, checkpoint.where)


def places(args: ModelArgs) -> Iterator[tuple[str, str]]:
    """Names of modules: transformers', and this model's."""
    layer, outer = dict(_LAYER_NAMES), dict(_OUTER_NAMES)
    if args.has_convolutions:
        layer.update(_WITH_CONVOLUTIONS)
        outer["norm"] = "model.embedding_norm"
    for own, theirs in outer.items():
        yield theirs, own
    if args.post_attention_norm and args.post_ffn_norm:
        layer.update(_FOUR_NORMS)
    for i in range(args.n_layers):
        for own, theirs in layer.items():
            yield f"model.layers.{i}.{theirs}", f"layers.{i}.{own}"


def _fused_parts(args: ModelArgs, module: str) -> dict[tuple[int, int | None], str]:
    """Rows of a fused layer's weight, and the layers that they are (Phi-3 and 4, LFM2)."""
    queries, keys = args.n_heads * args.head_size, args.kv_heads * args.head_size
    if module.endswith(".self_attn.qkv_proj"):
        names = {"q_proj": queries, "k_proj": keys, "v_proj": keys}
    elif module.endswith(".mlp.gate_up_proj"):
        names = {"gate_proj": args.ffn, "up_proj": args.ffn}
    elif module.endswith(".conv.in_proj"):
        names = {"B_proj": args.dim, "C_proj": args.dim, "x_proj": args.dim}
    else:
        return {}
    parts: dict[tuple[int, int | None], str] = {}
    last_name, first = next(reversed(names)), 0
    for name, rows in names.items():
        # Rows that are too many stay in the last part, whose shape is then refused.
        parts[first, None if name == last_name else first + rows] = name
        first += rows
    return parts


def _rows(read: Callable[[], torch.Tensor], first: int, last: int | None) -> torch.Tensor:
    return read()[first:last]


# ---- the order of a head's elements


def _reordered(args: ModelArgs, found: Checkpoint) -> Checkpoint:
    """The tensors with elements 2i and 2i + 1 of each head at i and i + n/2."""
    readers: dict[str, Callable[[], torch.Tensor]] = {}
    for name in found:
        read = partial(found.__getitem__, name)
        module = name.rpartition(".")[0].rpartition(".")[2]
        if module in ("wq", "wk", "q_norm_fn", "k_norm_fn"):
            readers[name] = partial(_read_in_halves, read, args.head_size, args.rotary_size)
        else:
            readers[name] = read
    return Checkpoint(readers, found.where)


def _read_in_halves(read: Callable[[], torch.Tensor], size: int, n: int) -> torch.Tensor:
    return in_halves(read(), size, n)


def in_halves(tensor: torch.Tensor, size: int, n: int) -> torch.Tensor:
    """Rows of heads of `size` with elements 2i and 2i + 1 of the first n at i and i + n/2."""
    if tensor.dim() == 0 or tensor.shape[0] % size:
        return tensor  # a wrong shape, which the caller names
    heads = tensor.unflatten(0, (-1, size))
    turned = heads[:, :n].unflatten(1, (n // 2, 2)).transpose(1, 2).flatten(1, 2)
    return torch.cat((turned, heads[:, n:]), 1).flatten(0, 1)
