"""State, control flow, nested and scalar inputs, sizes that follow from data, shared memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch._higher_order_ops.map import map as torch_map
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop

from interop.cases import Case, Lambda, _rows, op
from interop.networks import Attention, Recurrent, SmallCnn


class KvCache(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("cache", torch.zeros(8, 4))

    def forward(self, x: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        self.cache[position] = x
        return self.cache.sum(dim=0)


class Counter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total.add_(x)
        return self.total * 2.0


class Branch(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda y: y * 2 + 1, lambda y: y - 3, (x,))


class Mapped(nn.Module):
    def forward(self, xs: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch_map(lambda x, z: (x + z).relu(), xs, y)


class Scanned(nn.Module):
    def forward(self, init: torch.Tensor, xs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return scan(lambda carry, x: (carry + x, carry * x), init, xs)


class Nested(nn.Module):
    def forward(
        self, pair: tuple[torch.Tensor, dict[str, torch.Tensor]], z: list[torch.Tensor]
    ) -> Any:
        a, named = pair
        return {"sum": a + named["b"], "list": [z[0] * 2, (z[1],)]}


class ScalarInputs(nn.Module):
    def forward(self, x: torch.Tensor, n: int, f: float, b: bool) -> torch.Tensor:
        return (x * n + f) if b else x


def _batch(low: int = 1, high: int = 16) -> Any:
    return torch.export.Dim("batch", min=low, max=high)


def _counted(x: torch.Tensor, n: torch.Tensor) -> Any:
    return while_loop(lambda i, x: i < n, lambda i, x: (i + 1, x * 1.5), (torch.tensor(0), x))


def _mapped_pairs(xs: torch.Tensor, ys: torch.Tensor) -> Any:
    return torch_map(lambda pair: (pair[0] * pair[1], pair[0] - pair[1]), (xs, ys))


def _first_rows(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    k = n.item()
    torch._check(k >= 0)
    torch._check(k <= 5)
    return x[:k] * 2


def _parts(x: torch.Tensor) -> Any:
    """Parts along the outermost dimension, which share the memory of the whole."""
    q, k, v = x.sin().view(2, 8, 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
    y = ((q @ k.transpose(-1, -2)).softmax(-1) @ v).flatten(0, 1)
    a, b = y.split([1, 3])
    return y[1:3] + y[-1], y.view(8, 16)[5].exp(), y[2][4:], a.relu(), b.view(3, 32)


def _wholes(x: torch.Tensor) -> Any:
    """Concatenations whose parts are computed in the result's memory."""
    a, b = x.sin(), x.cos()
    y = torch.cat([a, x[:1], torch.stack([b[0], a[1]])])
    return y * 2, torch.cat([y, b.exp().view(2, 8)]), a + b


def _checked(position: torch.Tensor) -> int:
    p: int = position[0].item()  # type: ignore[assignment]
    torch._check(p >= 0)
    torch._check(p < 16)
    return p


class Caches(nn.Module):
    """State that is updated a row at a time, in all ways that decoders use."""

    NAMES = ("index", "copied", "fixed", "head", "item", "narrow", "layers", "layer", "spread")

    def __init__(self) -> None:
        super().__init__()
        for name in self.NAMES:
            layers = (3,) if name.startswith("layer") else ()
            self.register_buffer(name, torch.zeros(*layers, 1, 2, 16, 8))

    def forward(self, x: torch.Tensor, position: torch.Tensor) -> Any:
        p = _checked(position)
        self.index[:, :, position] = x
        self.copied.index_copy_(2, position, x)
        self.fixed[:, :, 3:5] = x
        self.head[:, 1] = x[:, 0] * 2
        self.item[:, :, p : p + 1] = x
        self.narrow.narrow(2, p, 1).copy_(x)
        self.layers[0, :, :, position] = x
        self.layers[2][:, :, p : p + 1] = x + self.layers[0].sum()
        self.layer[1, 0, 1] = x[0, 0]
        self.spread.scatter_(2, position.view(1, 1, 1, 1).expand(1, 2, 1, 8), x)
        return [getattr(self, name).sum(-2) for name in self.NAMES]


STRUCTURES = [
    Case("small_cnn", SmallCnn, lambda: (torch.randn(1, 3, 16, 16),)),
    Case(
        "channels_last",
        lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 2, 1)).to(
            memory_format=torch.channels_last
        ),
        lambda: (torch.randn(1, 3, 16, 16).to(memory_format=torch.channels_last),),
    ),
    Case("transformer_block", Attention, lambda: (torch.randn(2, 6, 32),)),
    Case("lstm", lambda: Recurrent("LSTM"), lambda: (torch.randn(2, 5, 6),)),
    Case("gru", lambda: Recurrent("GRU"), lambda: (torch.randn(2, 5, 6),)),
    Case(
        "dynamic_batch",
        lambda: nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)),
        lambda: (torch.randn(3, 4),),
        dynamic_shapes=lambda: ({0: _batch()},),
        more=_rows(1, 16, 2),
    ),
    Case(
        "dynamic_tokens",
        Attention,
        lambda: (torch.randn(1, 6, 32),),
        dynamic_shapes=lambda: ({1: torch.export.Dim("tokens", min=2, max=24)},),
        more=lambda: [(torch.randn(1, n, 32),) for n in (2, 24, 9)],
    ),
    Case(
        "dynamic_view",
        lambda: Lambda(lambda x: (x + 1).view(x.shape[0] * 2, 2).relu()),
        lambda: (torch.randn(3, 4),),
        dynamic_shapes=lambda: (({0: _batch()},),),
        more=_rows(2, 16),
    ),
    Case(
        "symbolic_arithmetic",
        lambda: Lambda(lambda x: torch.arange(x.shape[0] * 3 - 1) + x.sum()),
        lambda: (torch.randn(3, 4),),
        dynamic_shapes=lambda: (({0: _batch()},),),
        more=_rows(2, 16),
    ),
    Case(
        "cond",
        Branch,
        lambda: (torch.ones(3, 4),),
        more=lambda: [(-torch.ones(3, 4),), (torch.ones(3, 4) * 2,)],
    ),
    Case("map", Mapped, lambda: (torch.randn(5, 3), torch.randn(3))),
    Case("scan", Scanned, lambda: (torch.randn(3), torch.randn(4, 3))),
    Case(
        "kv_cache",
        KvCache,
        lambda: (torch.randn(1, 4), torch.tensor([2])),
        more=lambda: [(torch.randn(1, 4), torch.tensor([p])) for p in (0, 2, 7)],
        stateful=True,
    ),
    Case(
        "counter",
        Counter,
        lambda: (torch.randn(3),),
        more=lambda: [(torch.randn(3),) for _ in range(3)],
        stateful=True,
    ),
    Case(
        "nested_inputs",
        Nested,
        lambda: (
            (torch.randn(2), {"b": torch.randn(2)}),
            [torch.randn(3), torch.randn(1)],
        ),
    ),
    Case("scalar_inputs", ScalarInputs, lambda: (torch.randn(3), 2, 0.5, True)),
]


BY_DATA = [
    Case(
        "masked_select",
        lambda: Lambda(lambda x: x[x > 0] * 2),
        lambda: (torch.randn(3, 4),),
        more=lambda: [(torch.ones(3, 4),), (-torch.ones(3, 4),)],
    ),
    Case(
        "item_slice",
        lambda: Lambda(_first_rows),
        lambda: (torch.randn(5, 4), torch.tensor(3)),
        more=lambda: [(torch.randn(5, 4), torch.tensor(n)) for n in (1, 5)],
    ),
    # Upstream's emitter knows neither of these; its runtime runs them.
    Case(
        "while_loop",
        lambda: Lambda(_counted),
        lambda: (torch.randn(3), torch.tensor(4)),
        more=lambda: [(torch.randn(3), torch.tensor(n)) for n in (0, 1, 9)],
        upstream_exports=False,
    ),
    Case(
        "map_of_pairs",
        lambda: Lambda(_mapped_pairs),
        lambda: (torch.randn(4, 3), torch.randn(4, 3)),
        upstream_exports=False,
    ),
    Case(
        "bool_and_int_inputs",
        lambda: Lambda(lambda b, i, j: (torch.where(b, i, j.to(torch.int64)), b & (i > 2), i + j)),
        lambda: (
            torch.tensor([True, False, True]),
            torch.tensor([1, 5, 3]),
            torch.tensor([2, 4, 6], dtype=torch.int32),
        ),
    ),
]


class Overwriting(nn.Module):
    """Operators whose first (or only) whole operand is not used later, so that its memory is
    reused."""

    FLOATS: tuple[Callable[..., torch.Tensor], ...] = (
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
        nn.functional.gelu,
        nn.functional.elu,
        nn.functional.leaky_relu,
        nn.functional.hardtanh,
        lambda x: x.clamp(-0.5, 0.7),
        lambda x: x.clamp(min=0.1),
        lambda x: (x.square() + 1).log(),
        lambda x: (x.square() + 1).sqrt(),
        lambda x: (x.square() + 1).rsqrt(),
        lambda x: x.softmax(-1),
        lambda x: x.softmax(0),
        lambda x: nn.functional.gelu(x, approximate="tanh"),
        lambda x: x.pow(3),
        lambda x: x + x,
        lambda x: x * 1.5,
        lambda x: x - 2,
        lambda x: 2 - x,
        lambda x: x + x.sum(0),
        lambda x: x.sum(1, True) * x,
        lambda x: x / x.sum(0),
        lambda x: x.maximum(x.mean(0)),
        lambda x: x.mean(0).minimum(x),
        lambda x: x.remainder(0.25),
        lambda x: x.fmod(0.25),
        lambda x: torch.where(x > 0, x, x.sum(0)),
        lambda x: torch.where(x > 0, 1.0, x),
        lambda x: x.masked_fill(x > 0, 2),
    )
    INTEGERS: tuple[Callable[..., torch.Tensor], ...] = (
        torch.bitwise_not,
        lambda x: x & 12,
        lambda x: x | x.amax(0),
        lambda x: x ^ 5,
        lambda x: x + 3,
        lambda x: x * x.amin(0),
        lambda x: x.clamp(0, 9),
        torch.neg,
    )
    BOOLS: tuple[Callable[..., torch.Tensor], ...] = (
        torch.logical_not,
        lambda x: x.logical_and(x.any(0)),
        lambda x: x.any(0).logical_or(x),
    )

    def forward(self, x: torch.Tensor, i: torch.Tensor, b: torch.Tensor) -> Any:
        floats = [f(x.neg()) for f in self.FLOATS]
        integers = [f(i.neg()) for f in self.INTEGERS]
        return floats, integers, [f(b.logical_not()) for f in self.BOOLS]


SHARED_MEMORY = [
    Case(
        "overwritten_operands",
        Overwriting,
        lambda: (torch.randn(5, 67), torch.randint(-50, 50, (3, 21)), torch.rand(3, 37) > 0.5),
    ),
    Case(
        "caches",
        Caches,
        lambda: (torch.randn(1, 2, 1, 8), torch.tensor([2])),
        more=lambda: [(torch.randn(1, 2, 1, 8), torch.tensor([p])) for p in (0, 15, 2)],
        stateful=True,
    ),
    op("wholes_of_parts", _wholes, (2, 8)),
    op("parts_of_tensors", _parts, (2, 8, 24)),
]
