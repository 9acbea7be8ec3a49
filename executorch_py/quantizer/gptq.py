"""Integers for weights in few bits: scales that lose little, and rounding that makes up for itself.

A matrix is divided into groups of columns, each with a scale in every row. Without data, a scale is
the one of some candidates that leaves the least squared error of its group. With the second moments
of what the weights will be multiplied by, the columns are rounded one after another, and the error
of each is spread over those that follow so that the products change least, as in GPTQ (Frantar and
others, 2022). Then each integer, and each scale, is set to what is best while all others stay, a
few times over: a tenth less is lost.
"""

from __future__ import annotations

import torch

CANDIDATES = 24
WIDEST, NARROWEST = 1.0, 1.8  # what candidates divide the scale that clips nothing by
DAMPING = 0.1  # of the mean second moment: data of another kind than the sample is met as well
SWEEPS = 4  # over all integers and scales; each gains a third of what the one before did
BLOCK = 32  # columns whose products are kept while they change


def to_bfloat16(scales: torch.Tensor) -> torch.Tensor:
    """The nearest numbers that bfloat16 has, as float32."""
    return scales.to(torch.bfloat16).to(torch.float32)


def best_scales(
    groups: torch.Tensor, low: int, high: int, importance: torch.Tensor | None = None
) -> torch.Tensor:
    """Scales for the last dimension: bfloat16 numbers, 1 for what is all zero.

    importance: weights of the squared errors, broadcast to the groups.
    """
    greatest = groups.abs().amax(-1, keepdim=True)
    best, least = torch.ones_like(greatest), torch.full_like(greatest, float("inf"))
    for divisor in torch.linspace(WIDEST, NARROWEST, CANDIDATES).tolist():
        scale = to_bfloat16(greatest / (high * divisor))
        scale = torch.where(scale > torch.finfo(torch.float32).tiny, scale, 1.0)
        error = (rounded(groups, scale, low, high) * scale - groups).square()
        lost = (error if importance is None else error * importance).sum(-1, keepdim=True)
        better = lost < least
        best, least = torch.where(better, scale, best), torch.where(better, lost, least)
    return best.squeeze(-1)


def rounded(values: torch.Tensor, scales: torch.Tensor, low: int, high: int) -> torch.Tensor:
    """Values in units of scales, to the nearest integers that there are."""
    return (values / scales).round().clamp(low, high)


def nearest(
    weight: torch.Tensor, group_size: int, low: int, high: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """int8 integers and scales [rows, groups] of a matrix, by its numbers alone."""
    groups = weight.detach().to(torch.float32).reshape(len(weight), -1, group_size)
    scales = best_scales(groups, low, high)
    integers = rounded(groups, scales.unsqueeze(-1), low, high)
    return integers.to(torch.int8).reshape(weight.shape), scales


def compensated(
    weight: torch.Tensor, moments: torch.Tensor, group_size: int, low: int, high: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """The same, so that products with vectors of these second moments [columns, columns] change
    least."""
    exact = weight.detach().to(torch.float32)
    matrix = _damped(moments)
    integers, scales = _spread(exact, _followers(matrix), group_size, low, high)
    _settle(exact, matrix.to(torch.float32), integers, scales, low, high)
    return integers.to(torch.int8), scales


def _spread(
    exact: torch.Tensor, follow: torch.Tensor, group_size: int, low: int, high: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Integers, as floats, column by column: each takes over what those before it lost."""
    left = exact.clone()
    integers = torch.empty_like(left)
    scales = left.new_empty(len(left), left.shape[1] // group_size)
    for group, first in enumerate(range(0, left.shape[1], group_size)):
        last = first + group_size
        block, within = left[:, first:last].clone(), follow[first:last, first:last]
        scale = best_scales(block, low, high, within.diagonal().square().reciprocal())
        errors = torch.empty_like(block)
        for i in range(group_size):
            column = block[:, i]
            integers[:, first + i] = rounded(column, scale, low, high)
            errors[:, i] = (column - integers[:, first + i] * scale) / within[i, i]
            block[:, i + 1 :] -= errors[:, i : i + 1] * within[i, i + 1 :]
        left[:, last:] -= errors @ follow[first:last, last:]
        scales[:, group] = scale
    return integers, scales


def _settle(
    exact: torch.Tensor,
    matrix: torch.Tensor,
    integers: torch.Tensor,
    scales: torch.Tensor,
    low: int,
    high: int,
) -> None:
    """Make integers and scales better in place, one at a time, by the error they leave:
    tr(e matrix e'), where e is what the matrix of weights changes by."""
    size = exact.shape[1] // scales.shape[1]
    error = integers * scales.repeat_interleave(size, dim=1) - exact
    for _ in range(SWEEPS):
        for group in range(scales.shape[1]):
            scale, columns = scales[:, group], slice(group * size, (group + 1) * size)
            for first in range(columns.start, columns.stop, BLOCK):
                block = slice(first, min(first + BLOCK, columns.stop))
                slope, within = error @ matrix[:, block], matrix[block, block]
                was, now = integers[:, block], integers[:, block].clone()
                for i in range(now.shape[1]):
                    wanted = now[:, i] - slope[:, i] / (within[i, i] * scale)
                    change = wanted.round().clamp(low, high) - now[:, i]
                    now[:, i] += change
                    slope += torch.outer(change * scale, within[i])
                error[:, block] += (now - was) * scale.unsqueeze(1)
                integers[:, block] = now
            better = _scale_of(integers[:, columns], scale, error, matrix, columns)
            error[:, columns] += integers[:, columns] * (better - scale).unsqueeze(1)
            scales[:, group] = better


def _scale_of(
    integers: torch.Tensor,
    scale: torch.Tensor,
    error: torch.Tensor,
    matrix: torch.Tensor,
    columns: slice,
) -> torch.Tensor:
    """The bfloat16 numbers next to the best scales of a group, where they are better."""
    slope = ((error @ matrix[:, columns]) * integers).sum(1)
    bend = ((integers @ matrix[columns, columns]) * integers).sum(1)
    wanted = to_bfloat16(scale - slope / bend.clamp(min=torch.finfo(torch.float32).tiny))
    step = wanted - scale
    is_better = (wanted > torch.finfo(torch.float32).tiny) & (step * (step * bend + 2 * slope) < 0)
    return torch.where(is_better, wanted, scale)


def _damped(moments: torch.Tensor) -> torch.Tensor:
    """In units of their mean, and as if there were some noise besides."""
    matrix = moments.to(torch.float64)
    mean = matrix.diagonal().mean()
    matrix = matrix / (mean if mean > 0 else 1)
    return matrix + DAMPING * torch.eye(len(matrix), dtype=torch.float64)


def _followers(matrix: torch.Tensor) -> torch.Tensor:
    """The upper factor of the inverse: what an error in a column does to those behind it."""
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(matrix))
    return torch.linalg.cholesky(inverse, upper=True).to(torch.float32)


__all__ = ["best_scales", "compensated", "nearest", "rounded", "to_bfloat16"]
