"""Functions of tensors by family, whose exports export the decompositions and kernels of torch.

Each list becomes one program of recorded_portable.py or recorded_delegated.py: exports take longer
than operators. Relies on torch alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from recorded_models import data, integers
from torch import Tensor, nn
from torch._higher_order_ops.map import map as torch_map
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.nn import functional as F

Functions = list[Callable[..., Any]]
linalg, fft = torch.linalg, torch.fft

# ---- sizes, control flow, views

SIZES: Functions = [
    lambda x: (x + 1).view(x.shape[0] * 2, 2).relu(),
    lambda x: torch.arange(x.shape[0] * 3 - 1) + x.sum(),
    lambda x: x.new_zeros(x.shape[0] // 2 + 1, 3),
    lambda x: torch.cat([x, x[:1]]).flatten(),
    lambda x: F.pad(x, (0, 0, 1, x.shape[0])),
    lambda x: x.mean() * x.shape[0] / 2,
]


def _first_rows(x: Tensor, n: Tensor) -> Tensor:
    k: Any = n.item()
    torch._check(k >= 0)
    torch._check(k <= 5)
    return x[:k] * 2


BY_DATA: Functions = [
    lambda x, n: x[x > 0] * 2,
    lambda x, n: torch.nonzero(x > 0.5),
    lambda x, n: torch.masked_select(x, x < 0),
    _first_rows,
]


def counted(x: Tensor, n: Tensor) -> Any:
    return while_loop(lambda i, x: i < n, lambda i, x: (i + 1, x * 1.5), (torch.tensor(0), x))


def nested(pair: Any, z: list[Tensor]) -> Any:
    a, named = pair
    return {"sum": a + named["b"], "list": [z[0] * 2, (z[1],)]}


def _double_until(x: Tensor) -> Any:
    return while_loop(
        lambda i, total: i < 4, lambda i, total: (i + 1, total * 2), (torch.tensor(0), x)
    )


def _branch_in_loop(xs: Tensor) -> Any:
    def row(x: Tensor) -> Tensor:
        return torch.cond(x.sum() > 0, lambda y: y.softmax(-1), lambda y: y - 3, (x,))

    return torch_map(row, xs)


CONTROL: Functions = [
    lambda x: torch.cond(x.sum() > 0, lambda y: y * 2 + 1, lambda y: y - 3, (x,)),
    lambda x: torch_map(lambda row, z: (row + z).relu(), x, x[0].clone()),
    lambda x: scan(lambda carry, row: (carry + row, carry * row), x[0].clone(), x),
    _double_until,
    _branch_in_loop,
]


def _parts(x: Tensor) -> Any:
    q, k, v = x.sin().view(2, 2, 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
    y = ((q @ k.transpose(-1, -2)).softmax(-1) @ v).flatten(0, 1)
    a, b = y.split([1, 3])
    return y[1:3] + y[-1], y.view(4, 8)[3].exp(), y[2][1:], a.relu(), b.view(3, 8)


def _wholes(x: Tensor) -> Any:
    a, b = x.sin(), x.cos()
    y = torch.cat([a, x[:1], torch.stack([b[0], a[1]])])
    return y * 2, torch.cat([y, b.exp().view(4, 24)]), a + b


def _updated(x: Tensor) -> Any:
    y = x.clone()
    y[1:3] = x[:2] * 2
    y[:, ::2].mul_(3)
    y.select(0, 3).copy_(x[0])
    z = torch.zeros(4, 30)
    z[:, 3:27] = y
    return y, z, z.slice_scatter(x, 1, 0, 24)


WINDOWS: Functions = [
    _parts,
    _wholes,
    _updated,
    lambda x: x.as_strided((3, 4), (24, 2), 1) + 1,
    lambda x: x.unfold(1, 6, 3).sum(-1),
    lambda x: x.diagonal() * 2,
    lambda x: x.t().reshape(8, 12).narrow(0, 2, 3).contiguous(),
]

_ON_FLOATS: Functions = [
    torch.abs,
    torch.ceil,
    torch.cos,
    torch.erf,
    torch.exp,
    torch.floor,
    torch.neg,
    torch.reciprocal,
    torch.relu,
    torch.round,
    torch.sigmoid,
    torch.sin,
    torch.tanh,
    torch.trunc,
    F.gelu,
    F.elu,
    F.leaky_relu,
    F.hardtanh,
    F.silu,
    F.mish,
    F.softplus,
    lambda x: x.clamp(-0.5, 0.7),
    lambda x: x.clamp(min=0.1),
    lambda x: x.pow(3),
    lambda x: (x.square() + 1).log(),
    lambda x: (x.square() + 1).rsqrt(),
    lambda x: x.softmax(-1),
    lambda x: x.log_softmax(0),
    lambda x: x + x.sum(0),
    lambda x: x * 1.5,
    lambda x: 2 - x,
    lambda x: x / x.sum(0),
    lambda x: x.fmod(0.25),
    lambda x: torch.where(x > 0, x, x.sum(0)),
    lambda x: x.masked_fill(x > 0, 2),
]
_ON_INTEGERS: Functions = [
    torch.bitwise_not,
    lambda i: i & 12,
    lambda i: i | i.amax(0),
    lambda i: i ^ 5,
    lambda i: i + 3,
    lambda i: i * i.amin(0),
    lambda i: i.clamp(0, 9),
    lambda i: i // 3,
    lambda i: i << 2,
    lambda i: i.logical_not(),
    lambda i: i.to(torch.int8),
]
DYING: Functions = [
    *(lambda x, i, f=f: f(x.neg()) for f in _ON_FLOATS),
    *(lambda x, i, f=f: f(i.neg()) for f in _ON_INTEGERS),
]


# ---- layers that XNNPACK takes

ACTIVATIONS: Functions = [
    F.relu,
    F.relu6,
    F.hardswish,
    F.hardsigmoid,
    F.sigmoid,
    F.tanh,
    F.elu,
    F.gelu,
    F.silu,
    lambda x: F.gelu(x, approximate="tanh"),
    F.leaky_relu,
    lambda x: F.hardtanh(x, -2, 3),
    torch.exp,
    torch.abs,
    torch.neg,
    torch.ceil,
    torch.floor,
    torch.square,
    torch.sin,
    lambda x: (x.abs() + 1).sqrt(),
    lambda x: (x.abs() + 1).rsqrt(),
    torch.round,
    lambda x: (x.abs() + 1).log(),
    F.mish,
    lambda x: x.softmax(-1),
    lambda x: x.clamp(-1, 1),
]
ARITHMETIC: Functions = [
    lambda x: x + x[:, :1],
    lambda x: x - 2,
    lambda x: x * x.mean(-1, True),
    lambda x: x / 3,
    lambda x: torch.maximum(x, x.flip(0)),
    lambda x: torch.minimum(x, x * 2),
    lambda x: x.pow(2),
    lambda x: 1 - x,
    lambda x: x.mean((2, 3)),
    lambda x: x.sum(1),
    lambda x: x.amax(-1),
    lambda x: x.amin((1, 2)),
    lambda x: x.max(1).values,
    lambda x: x.argmax(-1),
    lambda x: torch.where(x > 0, x, x * 0.1),
]
MOVES: Functions = [
    lambda x: x.permute(0, 2, 3, 1) * 2,
    lambda x: x.transpose(1, 2).reshape(2, -1) + 1,
    lambda x: torch.cat([x, x * 2], 1),
    lambda x: F.pad(x, (1, 2, 0, 1)) + 1,
    lambda x: x[:, 1:3] * 2,
    lambda x: x[:, :, ::2] + 1,
    lambda x: x.unsqueeze(1).exp(),
    lambda x: torch.stack([x, x + 1]),
    lambda x: x.chunk(2, 1)[1] + 1,
    lambda x: x.roll(1, 2) + 1,
    lambda x: x.expand(3, 2, 4, 8, 8)[1] * 2,
    lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
    lambda x: F.max_pool2d(x, 2),
    lambda x: F.avg_pool2d(x, 3, 1, 1),
    lambda x: F.adaptive_avg_pool2d(x, 1),
    lambda x: F.pixel_shuffle(x, 2) + 1,
    lambda x: F.pixel_unshuffle(x, 2) + 1,
]


# ---- families


def _order(x: Tensor) -> Any:
    values, places = x.sort(stable=True)
    pairs = [x.median(-1), x.nanmedian(0), x.kthvalue(2), x.mode(), x.topk(3), x.cummax(0)]
    return values, places, *(pair.values for pair in pairs), x.argsort(stable=True, dim=0)


def _placed(x: Tensor) -> Any:
    rows, at = torch.tensor([2, 0]), torch.tensor([[0, 1], [3, 2]])
    return (
        x.put(torch.tensor([1, -1]), torch.tensor([5.0, 6.0])),
        x.take(at),
        x.gather(1, at),
        x.scatter(1, at, 3.0),
        x.scatter_add(1, at, x[:2, :2]),
        x.scatter_reduce(0, at, x[:2, :2], "mean", include_self=False),
        x.index_add(0, rows, x[:2]),
        x.index_fill(1, rows, 4),
        x.masked_scatter(x > 0, x.flip(0)),
        x.index_put((rows,), x[:2], accumulate=True),
        x[rows, :, None],
        x.diagonal_scatter(x.new_zeros(4), 1),
        torch.unique(x.round())[:1],
        torch.searchsorted(x.sort(stable=True).values, x),
    )


def _numbers(x: Tensor) -> Any:
    other = x.flip(0)
    one = [torch.exp2, torch.angle, torch.sinc, torch.special.entr, torch.nan_to_num, torch.frac]
    one += [torch.erfc, torch.lgamma, torch.special.i0, torch.expm1, torch.log1p, torch.signbit]
    two = [torch.fmax, torch.xlogy, torch.logaddexp, torch.hypot, torch.atan2, torch.remainder]
    two += [torch.copysign, torch.nextafter, torch.fmod, torch.floor_divide]
    return *(f(x) for f in one), *(f(x, other) for f in two), torch.float_power(x, 2)


def _halves(x: Tensor) -> Any:
    other, number = x.flip(0), torch.tensor(1.7)
    return (
        torch.addcmul(x, number, other, value=0.7),
        torch.addcdiv(x, other, number),
        F.smooth_l1_loss(x, other, beta=0.37),
        F.mse_loss(x, other),
        x // 0.3,
        x * 70000.0,
        torch.logit(x.sigmoid(), eps=0.1),
        x.float() / x,
        x.softmax(-1),
        x.cumsum(0),
    )


def _complex(a: Tensor, x: Tensor) -> Any:
    return (
        a * a.conj(),
        a / (a + 2),
        a.abs(),
        a.angle(),
        torch.view_as_real(a),
        a**2,
        a.exp(),
        torch.polar(x.abs(), x),
        torch.complex(x, x * 2),
        a.sum(1),
        a @ a.mT,
        a.real + a.imag,
        torch.where(x > 0, a, a * 1j),
        torch.cat([a, a * 2], -1),
        a.sqrt(),
        a.mean(0),
    )


def _products(a: Tensor, b: Tensor) -> Any:
    return (
        torch.addmm(b[0, 0], a[0], b[0]),
        torch.baddbmm(a[:, :, :1], a, b),
        torch.einsum("bij,bjk", a, b),
        torch.cdist(a, a + 1),
        linalg.vector_norm(a, 3, 1),
        torch.outer(a[0, 0], b[0, 0]),
        torch.kron(a[0], b[0]),
        torch.tensordot(a, b, 1),
        a[0].mv(b[0, :, 0]),
        a @ b,
        F.cosine_similarity(a, a + 1),
        torch.trace(a[0]),
        linalg.cross(b, b.flip(0), dim=2),
    )


def _resampled(x: Tensor) -> Any:
    theta = torch.tensor([[[1.0, 0.2, 0.1], [-0.3, 0.9, 0.0]]])
    grid = F.affine_grid(theta, [1, 2, 5, 6], align_corners=False)
    ways: list[dict[str, Any]] = [
        {"mode": "nearest"},
        {"mode": "nearest-exact"},
        {"mode": "bilinear", "align_corners": True},
        {"mode": "bilinear", "antialias": True},
        {"mode": "bicubic", "align_corners": False},
        {"mode": "area"},
    ]
    return (
        *(F.interpolate(x, size=(7, 5), **way) for way in ways),
        *(F.grid_sample(x, grid, mode=m, align_corners=False) for m in ("bilinear", "nearest")),
        F.interpolate(x[:, :, 0], scale_factor=1.5, mode="linear"),
        F.fold(F.unfold(x, 2), (6, 6), 2),
        *(F.pad(x, (1, 2, 2, 1), mode=m) for m in ("reflect", "replicate")),
    )


def _tables(i: Tensor, table: Tensor) -> Any:
    offsets = torch.tensor([0, 2])
    return (
        F.embedding(i, table),
        F.embedding_bag(i[0], table, offsets, mode="mean"),
        F.one_hot(i, 8),
        torch.bucketize(i, torch.tensor([1, 3, 5])),
    )


def _losses(x: Tensor) -> Any:
    target = torch.tensor([1, 0, 3])
    return (
        F.cross_entropy(x, target),
        F.nll_loss(x.log_softmax(1), target),
        F.huber_loss(x, x * 2),
        F.kl_div(x.log_softmax(1), x.softmax(1), reduction="batchmean"),
        F.l1_loss(x, x + 1),
        F.binary_cross_entropy_with_logits(x, x.sigmoid()),
        F.triplet_margin_loss(x, x + 1, -x),
    )


def _norms(x: Tensor) -> Any:
    weight = torch.linspace(0.5, 1.5, 8)
    return (
        F.layer_norm(x, (8,), weight),
        F.group_norm(x, 2),
        F.instance_norm(x),
        F.rms_norm(x, (8,)),
        F.local_response_norm(x, 3),
        F.normalize(x, dim=1),
        x.std(1),
        *torch.var_mean(x, 0),
    )


def _pools(x: Tensor) -> Any:
    return (
        F.max_pool2d(x, 3, 2, 1, ceil_mode=True),
        F.avg_pool2d(x, 3, 2, 1, True, False),
        F.max_pool1d(x[0], 2),
        F.adaptive_max_pool2d(x, 2),
        F.adaptive_avg_pool2d(x, (3, 2)),
        F.lp_pool2d(x, 2, 2),
        F.max_pool2d(x, 2, return_indices=True)[1],
        F.avg_pool1d(x[0], 3),
    )


def _convolutions() -> nn.Module:
    return nn.ModuleList(
        [
            nn.Conv2d(4, 6, 3, stride=2, padding=1),
            nn.Conv2d(4, 8, (3, 1), groups=2, bias=False),
            nn.Conv2d(4, 4, 3, padding=2, dilation=2, groups=4),
            nn.Conv2d(4, 4, 5, padding="same", padding_mode="reflect"),
            nn.ConvTranspose2d(4, 6, 3, stride=2, output_padding=1),
            nn.ConvTranspose2d(4, 4, 2, groups=2),
        ]
    )


class Convolutions(nn.Module):
    """Convolutions of all kinds of one picture: strides, groups, dilation, transposed, 1-d, 3-d."""

    def __init__(self) -> None:
        super().__init__()
        self.planes = _convolutions()
        self.line, self.back = nn.Conv1d(4, 5, 3, padding=1), nn.ConvTranspose1d(4, 3, 3, stride=2)
        self.space = nn.Conv3d(2, 3, 2)

    def forward(self, x: Tensor) -> Any:
        assert isinstance(self.planes, nn.ModuleList)
        flat = x.flatten(2)
        return (
            *(conv(x) for conv in self.planes),
            self.line(flat),
            self.back(flat),
            self.space(x.view(1, 2, 2, 8, 8)),
        )


class LlamaAttention(nn.Module):
    """Attention over a key/value cache by the operators of llama::."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.project = nn.Linear(16, 32)
        self.register_buffer("keys", torch.zeros(1, 12, 2, 4))
        self.register_buffer("values", torch.zeros(1, 12, 2, 4))

    def forward(self, x: Tensor, position: Tensor) -> Tensor:
        n = x.shape[1]
        q, k, v = self.project(x).split([16, 8, 8], -1)
        q, k, v = q.reshape(1, n, 4, 4), k.reshape(1, n, 2, 4), v.reshape(1, n, 2, 4)
        start: Any = position[0].item()
        torch._check(start >= 0)
        torch._check(start + n <= 12)
        y = torch.ops.llama.sdpa_with_kv_cache(
            q, k, v, self.keys, self.values, start, n, None, 0.0, True
        )
        return x + y.reshape(1, n, 16)


_SQUARE = data(2, 4, 4) @ data(2, 4, 4).mT + 2 * torch.eye(4)
_LINALG: Functions = [
    lambda a, b: linalg.inv(a),
    lambda a, b: linalg.solve(a, b),
    lambda a, b: linalg.qr(b),
    lambda a, b: (linalg.det(a), linalg.slogdet(a)),
    lambda a, b: linalg.cholesky(a),
    lambda a, b: linalg.lu(a),
    lambda a, b: linalg.pinv(b),
    lambda a, b: linalg.svdvals(b),
    lambda a, b: linalg.eigvalsh(a),
    lambda a, b: linalg.matrix_power(a, -2),
    lambda a, b: linalg.solve_triangular(a, b, upper=True),
]
_SPECTRA: Functions = [
    fft.rfft,
    fft.fft2,
    fft.fftshift,
    lambda x: fft.irfft(fft.rfft(x)),
    fft.ihfft,
    lambda x: fft.fft(x, n=9, norm="ortho").abs(),
    lambda x: x + fft.fftfreq(6, 0.5),
]
_DRAWS: Functions = [
    torch.rand_like,
    torch.randn_like,
    lambda x: torch.randint(0, 10, (4,)),
    torch.bernoulli,
    lambda x: torch.randperm(6),
    lambda x: torch.multinomial(x, 3),
    lambda x: torch.normal(x, x),
    lambda x: x.clone().uniform_(1, 2),
    lambda x: x.clone().exponential_(),
    lambda x: F.dropout(x, 0.5, training=True),
]
_UNITS = data(4, 6).sigmoid()
# Family → its functions and their inputs.
FAMILIES: dict[str, tuple[Functions, tuple[Tensor, ...]]] = {
    "arithmetic of floats": (_ON_FLOATS, (data(4, 6),)),
    "arithmetic of integers": (_ON_INTEGERS, (integers(-50, 50, 4, 6),)),
    "linalg": (_LINALG, (_SQUARE, data(2, 4, 3))),
    "complex": ([_complex], (torch.complex(data(3, 4), data(3, 4, seed=1)), data(3, 4))),
    "order": ([_order], (data(4, 6),)),
    "order of integers": ([_order], (integers(-9, 9, 4, 6),)),
    "random": (_DRAWS, (_UNITS,)),
    "resample": ([_resampled], (data(1, 2, 6, 6),)),
    "index": ([_placed], (data(4, 6),)),
    "numbers": ([_numbers], (data(4, 6),)),
    "halves": ([_halves], (data(4, 6, dtype=torch.float16),)),
    "brain floats": ([_halves], (data(4, 6, dtype=torch.bfloat16),)),
    "products": ([_products], (data(3, 4, 3), data(3, 3, 3))),
    "spectra": (_SPECTRA, (data(4, 6),)),
    "tables": ([_tables], (integers(0, 8, 2, 4), data(8, 3))),
    "losses": ([_losses], (data(3, 5),)),
    "norms": ([_norms], (data(2, 4, 8),)),
    "pools": ([_pools], (data(1, 2, 9, 8),)),
    "activations": (ACTIVATIONS, (data(3, 7),)),
    "moves": (MOVES, (data(2, 4, 8, 8),)),
}
