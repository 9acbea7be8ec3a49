"""Rounding error of a Winograd convolution: the exact result, and a limit for every element.

F(m × m, 3 × 3) computes y = Aᵀ[Σ_c U_c ⊙ V_c]A + bias with V_c = Bᵀ·d_c·B and U_c = G·g_c·Gᵀ
(csrc/kernels/micro/conv/winograd.h). With u = 2⁻²⁴ and k = m / 2, the roundings before y are:

    V_c, U_c   2k of each V, one of U:      at most (2k + 1)·u·|Bᵀ||d_c||B| ⊙ |U_c|
    sums       one of each partial sum S_j: at most u·|S_j|
    Aᵀ·s·A     2(k + 1):                    at most 2(k + 1)·u·|Aᵀ||S||A|
    bias       one:                         at most u·|y|

Roundings of one channel, and of the output transform, are added as they are. Channels and partial
sums round independently of each other, so by Hoeffding's inequality their sum stays below λ times
the root of the sum of their squares, except with a probability of 2·exp(-λ²/2) (Higham and Mary,
"A New Approach to Probabilistic Rounding Error Analysis", SIAM J. Sci. Comput. 41, 2019). So

    |ŷ - y| ≤ u·(λ·√(Σ_c e_c² + Σ_j (A∘A)ᵀ S_j² (A∘A)) + 2(k + 1)·|Aᵀ||S||A| + |y|)

with e_c = (2k + 1)·|Aᵀ|(|Bᵀ||d_c||B| ⊙ |U_c|)|A| and λ = 8: one element in 4·10¹³.
"""

from __future__ import annotations

from functools import cache

import torch

LAMBDA = 8.0
UNIT = 2.0**-24
# Positive points of each size of tile, as in winograd.h.
POINTS = {2: (1.0,), 4: (0.6875, 1.5), 6: (0.5, 1.0, 2.0)}
# Products are added in chunks: ETI_GEMM_CHUNK of csrc/kernels/micro/gemm/gemm.h.
_CHUNK = 256
# Elements of the largest tensor on the way.
_MOST_ELEMENTS = 1 << 23


@cache
def matrices(tile: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Bᵀ, G and Aᵀ in float64: rows of points 0, p, -p, …, infinity."""
    points = [0.0, *(s * p for p in POINTS[tile] for s in (1, -1))]
    n = tile + 2
    b, g, a = (torch.zeros(shape, dtype=torch.float64) for shape in ((n, n), (n, 3), (tile, n)))
    for i, p in enumerate(points):
        others = [q for q in points if q != p]
        b[i, : n - 1] = _product(others)
        scale = torch.tensor([p - q for q in others], dtype=torch.float64).prod()
        g[i] = torch.tensor([1.0, p, p * p], dtype=torch.float64) / scale
        a[:, i] = torch.tensor([p**j for j in range(tile)], dtype=torch.float64)
    b[n - 1] = _product(points)
    g[n - 1, 2] = a[tile - 1, n - 1] = 1.0
    return b, g, a


def _product(roots: list[float]) -> torch.Tensor:
    """Coefficients of Π (x - root), lowest first."""
    found = torch.ones(1, dtype=torch.float64)
    for root in roots:
        shifted = torch.cat([torch.zeros(1, dtype=torch.float64), found])
        shifted[:-1] -= root * found
        found = shifted
    return found


def winograd_bound(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    padding: list[int],
    tile: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The convolution in float64, and the limit of the error of each element."""
    wide = [None if t is None else t.detach().to(torch.float64) for t in (x, weight, bias)]
    exact = torch.nn.functional.conv2d(*wide, padding=padding)
    image, kernel, _ = wide
    assert image is not None and kernel is not None
    _, g, _ = matrices(tile)
    u = torch.einsum("ia,ocab,jb->cijo", g, kernel, g).flatten(1, 2)  # [c_in, points, c_out]
    tiles, rows, cols = _tiles(image, exact.shape[2:], padding, tile)
    step = max(1, _MOST_ELEMENTS // max(1, u.numel()))
    parts = [_limits(tiles[i : i + step], u, tile) for i in range(0, tiles.shape[0], step)]
    limit = torch.cat(parts).reshape(x.shape[0], rows, cols, -1, tile, tile)
    whole = limit.permute(0, 3, 1, 4, 2, 5).reshape(x.shape[0], -1, rows * tile, cols * tile)
    return exact, whole[:, :, : exact.shape[2], : exact.shape[3]] + UNIT * exact.abs()


def _tiles(
    image: torch.Tensor, size: torch.Size, padding: list[int], tile: int
) -> tuple[torch.Tensor, int, int]:
    """Tiles of inputs [tiles, c_in, tile + 2, tile + 2], and how many there are each way."""
    rows, cols = (-(-s // tile) for s in size)
    high, wide = (n * tile + 2 for n in (rows, cols))
    top, left = padding
    padded = torch.zeros(*image.shape[:2], high, wide, dtype=image.dtype)
    kept = image[:, :, : high - top, : wide - left]
    padded[:, :, top : top + kept.shape[2], left : left + kept.shape[3]] = kept
    cut = padded.unfold(2, tile + 2, tile).unfold(3, tile + 2, tile)
    return cut.permute(0, 2, 3, 1, 4, 5).reshape(-1, image.shape[1], tile + 2, tile + 2), rows, cols


def _limits(tiles: torch.Tensor, u: torch.Tensor, tile: int) -> torch.Tensor:
    """Limits of the errors of some tiles, without the last rounding: [tiles, c_out, tile, tile]."""
    b, _, a = matrices(tile)
    k = tile // 2
    values = (b @ tiles @ b.T).flatten(2).unsqueeze(3)  # [tiles, c_in, points, 1]
    sizes = (b.abs() @ tiles.abs() @ b.T.abs()).flatten(2).unsqueeze(3)
    both = torch.einsum("xi,yj->xyij", a, a).flatten(2).flatten(0, 1)  # [outputs, points]
    of_channel = torch.einsum("qp,tcpo->tcqo", both.abs(), sizes * u.abs())
    squares = ((2 * k + 1) * of_channel).square().sum(1)
    products = values * u
    of_sums = torch.zeros_like(products[:, 0])
    total = torch.zeros_like(of_sums)
    for first in range(0, products.shape[1], _CHUNK):
        partial = products[:, first : first + _CHUNK].cumsum(1)
        of_sums += partial.square().sum(1)
        total = total + partial[:, -1]
        of_sums += total.square()
    squares = squares + torch.einsum("qp,tpo->tqo", both.square(), of_sums)
    outputs = 2 * (k + 1) * torch.einsum("qp,tpo->tqo", both.abs(), total.abs())
    limit = UNIT * (LAMBDA * squares.sqrt() + outputs)
    return limit.transpose(1, 2).reshape(limit.shape[0], -1, tile, tile)
