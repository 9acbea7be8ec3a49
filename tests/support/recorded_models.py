"""Small networks with seeded weights, whose exports recorded_exports.py records.

Relies on torch alone. Shapes are the least that still reach the exporter's rewrites: batch norms
behind convolutions, squeeze and excitation, attention with masks, caches, rotary positions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def data(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> Tensor:
    """Normal numbers that depend on the shape and the seed alone."""
    generator = torch.Generator().manual_seed(seed * 1000 + sum(shape))
    return torch.randn(*shape, generator=generator).to(dtype)


def integers(low: int, high: int, *shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed * 1000 + sum(shape))
    return torch.randint(low, high, shape, generator=generator)


def seeded(build: Callable[[], nn.Module]) -> nn.Module:
    """A network in eval mode: fixed weights, batch norms with statistics that are not trivial."""
    torch.manual_seed(0)
    model = build().eval()
    generator = torch.Generator().manual_seed(1)
    for module in model.modules():
        if isinstance(module, (nn.BatchNorm1d, nn.BatchNorm2d)):
            assert module.running_mean is not None and module.running_var is not None
            module.running_mean.normal_(0, 0.1, generator=generator)
            module.running_var.uniform_(0.5, 1.5, generator=generator)
    return model


class Functions(nn.Module):
    """The results of several functions of the same inputs."""

    def __init__(self, *functions: Callable[..., Any]) -> None:
        super().__init__()
        self.functions = functions

    def forward(self, *inputs: Any) -> list[Any]:
        return [function(*inputs) for function in self.functions]


class Function(nn.Module):
    """One function as a network, its results as they are."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Any) -> Any:
        return self.function(*inputs)


class Transposed(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.transpose(1, 2)


def mlp(width: int = 16) -> nn.Module:
    return nn.Sequential(nn.Linear(width, 32), nn.ReLU(), nn.Dropout(), nn.Linear(32, 4))


# ---- images


def normed(inside: int, outside: int, size: int = 1, act: Any = None, **options: Any) -> Any:
    """Convolution, batch norm and activation, with same padding."""
    conv = nn.Conv2d(inside, outside, size, padding=size // 2, bias=False, **options)
    return nn.Sequential(conv, nn.BatchNorm2d(outside), *([act] if act is not None else []))


class Squeeze(nn.Module):
    """Squeeze and excitation."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.down, self.up = nn.Conv2d(width, 4, 1), nn.Conv2d(4, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        scale = F.relu(self.down(F.adaptive_avg_pool2d(x, 1)))
        return x * F.hardsigmoid(self.up(scale))


class InvertedResidual(nn.Module):
    def __init__(
        self, inside: int, outside: int, stride: int, act: type[nn.Module], size: int, squeeze: bool
    ) -> None:
        super().__init__()
        wide = inside * 3
        self.residual = stride == 1 and inside == outside
        self.body = nn.Sequential(
            normed(inside, wide, 1, act()),
            normed(wide, wide, size, act(), stride=stride, groups=wide),
            *([Squeeze(wide)] if squeeze else []),
            normed(wide, outside),
        )

    def forward(self, x: Tensor) -> Tensor:
        y = self.body(x)
        return x + y if self.residual else y


def mobilenet_v2() -> nn.Module:
    blocks = [(8, 8, 1), (8, 12, 2), (12, 12, 1)]
    return nn.Sequential(
        normed(3, 8, 3, nn.ReLU6(), stride=2),
        *(InvertedResidual(i, o, s, nn.ReLU6, 3, False) for i, o, s in blocks),
        normed(12, 32, 1, nn.ReLU6()),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Dropout(0.2),
        nn.Linear(32, 10),
    )


def mobilenet_v3() -> nn.Module:
    return nn.Sequential(
        normed(3, 8, 3, nn.Hardswish(), stride=2),
        InvertedResidual(8, 8, 1, nn.ReLU, 3, True),
        InvertedResidual(8, 12, 2, nn.Hardswish, 5, True),
        InvertedResidual(12, 12, 1, nn.Hardswish, 5, True),
        normed(12, 24, 1, nn.Hardswish()),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(24, 32),
        nn.Hardswish(),
        nn.Linear(32, 10),
    )


class Residual(nn.Module):
    """Basic block of a ResNet, or its bottleneck."""

    def __init__(self, inside: int, outside: int, stride: int, bottleneck: bool) -> None:
        super().__init__()
        if bottleneck:
            layers = [
                normed(inside, 4, 1, nn.ReLU()),
                normed(4, 4, 3, nn.ReLU(), stride=stride),
                normed(4, outside),
            ]
        else:
            layers = [
                normed(inside, outside, 3, nn.ReLU(), stride=stride),
                normed(outside, outside, 3),
            ]
        self.body = nn.Sequential(*layers)
        same = stride == 1 and inside == outside
        self.shortcut = nn.Identity() if same else normed(inside, outside, 1, stride=stride)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.body(x) + self.shortcut(x))


def resnet() -> nn.Module:
    return nn.Sequential(
        normed(3, 8, 7, nn.ReLU(), stride=2),
        nn.MaxPool2d(3, 2, 1),
        Residual(8, 8, 1, False),
        Residual(8, 16, 2, False),
        Residual(16, 16, 1, True),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, 10),
    )


# ---- tokens


class Attention(nn.Module):
    """Block of a vision transformer; `by_hand` writes attention as products and a softmax."""

    def __init__(self, dim: int = 32, heads: int = 4, by_hand: bool = False) -> None:
        super().__init__()
        self.heads, self.by_hand = heads, by_hand
        self.norm, self.qkv = nn.LayerNorm(dim), nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)
        self.mlp = nn.Sequential(
            nn.LayerNorm(dim), nn.Linear(dim, 64), nn.GELU(), nn.Linear(64, dim)
        )

    def forward(self, x: Tensor) -> Tensor:
        batch, tokens, dim = x.shape
        q, k, v = (
            t.view(batch, tokens, self.heads, dim // self.heads).transpose(1, 2)
            for t in self.qkv(self.norm(x)).chunk(3, dim=-1)
        )
        if self.by_hand:
            scores = q @ k.transpose(-1, -2) / (dim // self.heads) ** 0.5
            y = scores.softmax(-1) @ v
        else:
            y = F.scaled_dot_product_attention(q, k, v)
        x = x + self.out(y.transpose(1, 2).reshape(batch, tokens, dim))
        return x + self.mlp(x)


class VisionTransformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 32, 8, stride=8)
        self.token = nn.Parameter(torch.randn(1, 1, 32))
        self.positions = nn.Parameter(torch.randn(1, 17, 32))
        self.blocks = nn.Sequential(Attention(), Attention(by_hand=True))
        self.norm, self.head = nn.LayerNorm(32), nn.Linear(32, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], dim=1) + self.positions
        return self.head(self.norm(self.blocks(x))[:, 0])


class Windows(nn.Module):
    """Attention in shifted windows, as in a Swin transformer."""

    def __init__(self) -> None:
        super().__init__()
        self.block, self.merge = Attention(16, 2), nn.Linear(64, 32, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.roll(x, (-2, -2), (1, 2))
        parts = x.view(1, 2, 4, 2, 4, 16).permute(0, 1, 3, 2, 4, 5).reshape(4, 16, 16)
        y = self.block(parts).view(1, 2, 2, 4, 4, 16).permute(0, 1, 3, 2, 4, 5)
        y = torch.roll(y.reshape(1, 8, 8, 16), (2, 2), (1, 2))
        corners = [y[:, i::2, j::2] for j in (0, 1) for i in (0, 1)]
        return self.merge(torch.cat(corners, -1))


class EncoderLayer(nn.Module):
    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.out = (nn.Linear(dim, dim) for _ in range(4))
        self.up, self.down = nn.Linear(dim, 2 * dim), nn.Linear(2 * dim, dim)
        self.first, self.last = nn.LayerNorm(dim), nn.LayerNorm(dim)

    def forward(self, x: Tensor, seen: Tensor) -> Tensor:
        q, k, v = (f(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for f in self.qkv())
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=seen)
        x = self.first(x + self.out(y.transpose(1, 2).flatten(2)))
        return self.last(x + self.down(F.gelu(self.up(x))))

    def qkv(self) -> tuple[nn.Module, ...]:
        return self.q, self.k, self.v


class Encoder(nn.Module):
    """A sentence encoder of two layers: tables, masked attention, the mean of the tokens."""

    def __init__(self, dim: int = 48, heads: int = 6) -> None:
        super().__init__()
        self.words, self.positions = nn.Embedding(64, dim), nn.Embedding(32, dim)
        self.types, self.norm = nn.Embedding(2, dim), nn.LayerNorm(dim)
        self.layers = nn.ModuleList(EncoderLayer(dim, heads) for _ in range(2))

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        places = torch.arange(tokens.shape[1])
        x = self.words(tokens) + self.positions(places) + self.types(torch.zeros_like(tokens))
        x, seen = self.norm(x), mask[:, None, None, :].bool()
        for layer in self.layers:
            x = layer(x, seen)
        weights = mask.unsqueeze(-1).to(x.dtype)
        return F.normalize((x * weights).sum(1) / weights.sum(1), dim=-1)


def sentences(length: int) -> tuple[Tensor, Tensor]:
    mask = torch.ones(2, length, dtype=torch.int64)
    mask[0, length // 2 + 1 :] = 0
    return integers(1, 64, 2, length), mask


class CachedAttention(nn.Module):
    """Attention of a decoder: rotary positions, fewer key heads than query heads, a cache."""

    def __init__(self, dim: int, heads: int, shared: int, positions: int) -> None:
        super().__init__()
        self.heads, self.shared, self.width = heads, shared, dim // heads
        self.qkv = nn.Linear(dim, (heads + 2 * shared) * self.width, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)
        angles = torch.outer(torch.arange(positions), 0.1 ** torch.arange(self.width // 2))
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())
        self.register_buffer("keys", torch.zeros(1, shared, positions, self.width))
        self.register_buffer("values", torch.zeros(1, shared, positions, self.width))

    def rotate(self, x: Tensor, position: Tensor) -> Tensor:
        a, b = x.unflatten(-1, (2, -1)).unbind(-2)
        cos, sin = self.cos[position], self.sin[position]
        return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)

    def forward(self, x: Tensor, position: Tensor) -> Tensor:
        sizes = [self.heads, self.shared, self.shared]
        parts = self.qkv(x).unflatten(-1, (-1, self.width)).transpose(1, 2)
        q, k, v = parts.split(sizes, dim=1)
        self.keys[:, :, position] = self.rotate(k, position)
        self.values[:, :, position] = v
        seen = torch.arange(self.keys.shape[2]) <= position[:, None]
        y = F.scaled_dot_product_attention(
            self.rotate(q, position), self.keys, self.values, attn_mask=seen, enable_gqa=True
        )
        return self.out(y.transpose(1, 2).flatten(2))


class Decoder(nn.Module):
    """A language model of one block that is fed at given positions."""

    def __init__(self, dim: int = 32) -> None:
        super().__init__()
        self.words = nn.Embedding(50, dim)
        self.before, self.between, self.after = (nn.RMSNorm(dim) for _ in range(3))
        self.attention = CachedAttention(dim, 4, 2, 16)
        self.gate, self.up = (nn.Linear(dim, 64, bias=False) for _ in range(2))
        self.down = nn.Linear(64, dim, bias=False)

    def forward(self, tokens: Tensor, position: Tensor) -> Tensor:
        x = self.words(tokens)
        x = x + self.attention(self.before(x), position)
        y = self.between(x)
        x = x + self.down(F.silu(self.gate(y)) * self.up(y))
        return self.after(x)[:, -1] @ self.words.weight.t()


def tokens_at(first: int, n: int) -> tuple[Tensor, Tensor]:
    return integers(0, 50, 1, n), torch.arange(first, first + n)


class Recurrent(nn.Module):
    def __init__(self, kind: str, bidirectional: bool = False) -> None:
        super().__init__()
        options: dict[str, Any] = {"batch_first": True, "bidirectional": bidirectional}
        self.cell = getattr(nn, kind)(6, 8, num_layers=2, **options)

    def forward(self, x: Tensor) -> Any:
        return self.cell(x)


# ---- state


class Counter(nn.Module):
    def __init__(self, sign: float = 1.0) -> None:
        super().__init__()
        self.sign = sign
        self.register_buffer("total", torch.tensor([5.0, -2.0, 0.5]))

    def forward(self, x: Tensor) -> Tensor:
        self.total.add_(x * self.sign)
        return self.total * 2.0


class Caches(nn.Module):
    """State that is written a row at a time, in the ways of decoders."""

    NAMES: Sequence[str] = ("index", "copied", "fixed", "item", "narrow", "layers", "spread")

    def __init__(self) -> None:
        super().__init__()
        for name in self.NAMES:
            layers = (3,) if name == "layers" else ()
            self.register_buffer(name, torch.zeros(*layers, 1, 2, 16, 8))

    def forward(self, x: Tensor, position: Tensor) -> Any:
        p = position[0].item()
        torch._check(p >= 0)
        torch._check(p < 16)
        assert isinstance(p, int) or hasattr(p, "node")
        self.index[:, :, position] = x
        self.copied.index_copy_(2, position, x)
        self.fixed[:, :, 3:5] = x
        self.item[:, :, p : p + 1] = x
        self.narrow.narrow(2, p, 1).copy_(x)
        self.layers[0, :, :, position] = x
        self.layers[2][:, :, p : p + 1] = x + self.layers[0].sum()
        self.spread.scatter_(2, position.view(1, 1, 1, 1).expand(1, 2, 1, 8), x)
        return [getattr(self, name).sum(-2) for name in self.NAMES]


class Kitchen(nn.Module):
    """A little of all that ExecutorchBackendConfig's fields turn on and off."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = normed(3, 8, 3, nn.ReLU())
        self.deep = nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.line, self.drop = nn.Linear(8, 24), nn.Dropout()
        self.register_buffer("total", torch.zeros(2, 24))
        self.register_buffer("scale", torch.linspace(0.5, 1.5, 24))

    def forward(self, x: Tensor) -> Any:
        x = F.max_pool2d(F.hardswish(self.deep(self.conv(x))), 2)
        y = self.line(self.drop(x.mean((2, 3)))) * (self.scale.exp() + 1)
        self.total.add_(y)
        q, k, v = y.view(2, 3, 8).unbind(1)
        a, b = torch.cat([q, k * 2 + 1, v.sigmoid()]).split([2, 4])
        z = a.permute(1, 0).permute(1, 0).contiguous() - b[1:3]
        return z.to(torch.float32).clamp(-1, 1).view(4, 4), self.total[1].exp(), y.softmax(-1)
