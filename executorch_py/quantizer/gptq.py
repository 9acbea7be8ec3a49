"""Rounding of low-bit weights: to nearest with searched scales, or error-compensated (GPTQ).

A matrix is divided into groups of columns, and each group has a scale in every row. Without data, a
scale is the candidate of least squared error in its group. With the second moments of the inputs,
columns are rounded one after another, and the error of each column is propagated to the columns
behind it, so that products change least (GPTQ, Frantar and others, 2022). Coordinate descent then
improves each integer and each scale in turn, a few sweeps long, which lowers the error by a tenth.
"""

from __future__ import annotations

import torch

CANDIDATES = 24
WIDEST, NARROWEST = 1.0, 1.8  # divisors of the scale without clipping, first and last candidate
DAMPING = 0.1  # of the mean second moment, for data that differs from the calibration sample
SWEEPS = 4  # over all integers and scales; each gains a third of the one before
BLOCK = 32  # columns whose products are updated together


def to_bfloat16(scales: torch.Tensor) -> torch.Tensor:
    """Scales rounded to bfloat16, as float32."""
    return scales.to(torch.bfloat16).to(torch.float32)


def best_scales(
    groups: torch.Tensor, low: int, high: int, importance: torch.Tensor | None = None
) -> torch.Tensor:
    """Scales of least squared error along the last dimension, bfloat16 numbers; 1 for all zeros.

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
    """Values divided by scales, rounded to integers and clamped to low … high."""
    return (values / scales).round().clamp(low, high)


def round_to_nearest(
    weight: torch.Tensor, group_size: int, low: int, high: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """int8 integers and scales [rows, groups] of a matrix, rounded to nearest without data."""
    groups = weight.detach().to(torch.float32).reshape(len(weight), -1, group_size)
    scales = best_scales(groups, low, high)
    integers = rounded(groups, scales.unsqueeze(-1), low, high)
    return integers.to(torch.int8).reshape(weight.shape), scales


def round_gptq(
    weight: torch.Tensor, moments: torch.Tensor, group_size: int, low: int, high: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """int8 integers and scales [rows, groups] of a matrix, for the least error of its products.

    moments: second moments [columns, columns] of the vectors that the matrix multiplies.
    """
    exact = weight.detach().to(torch.float32)
    matrix = _damped(moments)
    integers, scales = _propagate_error(exact, _inverse_cholesky(matrix), group_size, low, high)
    _coordinate_descent(exact, matrix.to(torch.float32), integers, scales, low, high)
    return integers.to(torch.int8), scales


def _propagate_error(
    exact: torch.Tensor, factor: torch.Tensor, group_size: int, low: int, high: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Integers, as floats, and scales; columns behind a rounded one compensate for its error.

    factor: the upper Cholesky factor of the inverse matrix of second moments.
    """
    left = exact.clone()
    integers = torch.empty_like(left)
    scales = left.new_empty(len(left), left.shape[1] // group_size)
    for group, first in enumerate(range(0, left.shape[1], group_size)):
        last = first + group_size
        block, within = left[:, first:last].clone(), factor[first:last, first:last]
        scale = best_scales(block, low, high, within.diagonal().square().reciprocal())
        errors = torch.empty_like(block)
        for i in range(group_size):
            column = block[:, i]
            integers[:, first + i] = rounded(column, scale, low, high)
            errors[:, i] = (column - integers[:, first + i] * scale) / within[i, i]
            block[:, i + 1 :] -= errors[:, i : i + 1] * within[i, i + 1 :]
        left[:, last:] -= errors @ factor[first:last, last:]
        scales[:, group] = scale
    return integers, scales


def _coordinate_descent(
    exact: torch.Tensor,
    matrix: torch.Tensor,
    integers: torch.Tensor,
    scales: torch.Tensor,
    low: int,
    high: int,
) -> None:
    """Minimize tr(e matrix e') over integers and scales in place, one at a time.

    e is the change of the weights by rounding.
    """
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
    """The bfloat16 numbers nearest to the best scales of a group, where they lower the error."""
    slope = ((error @ matrix[:, columns]) * integers).sum(1)
    bend = ((integers @ matrix[columns, columns]) * integers).sum(1)
    wanted = to_bfloat16(scale - slope / bend.clamp(min=torch.finfo(torch.float32).tiny))
    step = wanted - scale
    is_better = (wanted > torch.finfo(torch.float32).tiny) & (step * (step * bend + 2 * slope) < 0)
    return torch.where(is_better, wanted, scale)


def _damped(moments: torch.Tensor) -> torch.Tensor:
    """Second moments divided by their mean, with DAMPING added to the diagonal."""
    matrix = moments.to(torch.float64)
    mean = matrix.diagonal().mean()
    matrix = matrix / (mean if mean > 0 else 1)
    return matrix + DAMPING * torch.eye(len(matrix), dtype=torch.float64)


def _inverse_cholesky(matrix: torch.Tensor) -> torch.Tensor:
    """The upper Cholesky factor of the inverse: the effect of a column's error on those behind."""
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(matrix))
    return torch.linalg.cholesky(inverse, upper=True).to(torch.float32)


__all__ = ["best_scales", "round_gptq", "round_to_nearest", "rounded", "to_bfloat16"]
