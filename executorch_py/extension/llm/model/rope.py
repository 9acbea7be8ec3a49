"""Rotary embeddings: tables of cosines and sines, and the rotation of queries and keys.

Elements i and i + n/2 of the n rotated ones are a pair. Checkpoints whose pairs are neighbours are
reordered when they are loaded (weights.py), which changes no product of a query and a key.
"""

from __future__ import annotations

import math

import torch

from executorch_py.extension.llm.model.model_args import ModelArgs, ModelArgsError

_LOW_FREQUENCY_FACTOR = 1.0
_TRAINED_POSITIONS = 8192  # of the models whose frequencies use_scaled_rope scales


def frequencies(args: ModelArgs, theta: float, positions: int) -> torch.Tensor:
    """Angles of a position, f32 [pairs]; `positions` is the number of all."""
    size = args.rotary_size
    exponents = torch.arange(0, size, 2, dtype=torch.int64).to(torch.float32) / size
    made = 1.0 / theta**exponents
    if _has_long_rope(args):
        made = 1.0 / (torch.tensor(_long_factors(args, positions)) * theta**exponents)
    elif args.use_scaled_rope:
        made = _scaled(made, float(args.rope_scale_factor), float(args.high_freq_factor))
    return made


def _has_long_rope(args: ModelArgs) -> bool:
    return (args.rope_scaling_short_factor or args.rope_scaling_long_factor) is not None


def _long_factors(args: ModelArgs, positions: int) -> list[float]:
    """Divisors of the frequencies, for contexts up to the model's original length or longer."""
    original = args.original_max_position_embeddings or 0
    name = "rope_scaling_long_factor" if positions > original else "rope_scaling_short_factor"
    factors: list[float] | None = getattr(args, name)
    if factors is None:
        raise ModelArgsError(
            f"{name}: expected {args.rotary_size // 2} factors for a context of {positions} "
            f"positions, where the model's own are {original}, got none"
        )
    return factors


def _scaled(made: torch.Tensor, factor: float, high: float) -> torch.Tensor:
    """Low frequencies divided by a factor, high ones kept, those between blended (Llama 3.1)."""
    low = _LOW_FREQUENCY_FACTOR
    wavelength = 2 * math.pi / made
    share = ((_TRAINED_POSITIONS / wavelength - low) / (high - low)).clamp(0.0, 1.0)
    return (1 - share) * made / factor + share * made


def amplitude(args: ModelArgs) -> float:
    """A factor of cosines and sines: other than 1 where LongRoPE has factors."""
    if not _has_long_rope(args):
        return 1.0
    if args.rope_scaling_attention_factor is not None:
        return args.rope_scaling_attention_factor
    original = args.original_max_position_embeddings or 1
    ratio = (args.max_position_embeddings or original) / original
    return 1.0 if ratio <= 1 else math.sqrt(1 + math.log(ratio) / math.log(original))


def tables(args: ModelArgs, theta: float, positions: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosines and sines of all positions, f32 [positions, rotated elements]."""
    angles = torch.outer(
        torch.arange(positions, dtype=torch.float32), frequencies(args, theta, positions)
    )
    angles, scale = torch.cat((angles, angles), -1), amplitude(args)
    return angles.cos() * scale, angles.sin() * scale


def rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rows [1, positions, heads, size] whose first elements are rotated, tables [positions, n].

    The rotation is computed in the tables' dtype, f32.
    """
    n, size = cos.shape[-1], x.shape[-1]
    turned = x if n == size else x[..., :n]
    a, b = turned[..., : n // 2], turned[..., n // 2 :]
    turned = turned * cos.unsqueeze(1) + torch.cat((-b, a), -1) * sin.unsqueeze(1)
    turned = turned.to(x.dtype)
    return turned if n == size else torch.cat((turned, x[..., n:]), -1)
