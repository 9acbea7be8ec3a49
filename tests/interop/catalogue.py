"""The programs that each side exports and the other runs.

Imported by both virtual environments, so it relies on torch alone. A case is a module, its example
inputs, and further inputs for other sizes; weights come from a seed, so both sides see the same
numbers.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch._higher_order_ops.map import map as torch_map
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop

Inputs = tuple[Any, ...]


@dataclass(frozen=True)
class Case:
    """One program.

    `more` are inputs of other sizes; `stateful` cases run their inputs in order on one loaded
    method.
    """

    name: str
    build: Callable[[], nn.Module]
    inputs: Callable[[], Inputs]
    dynamic_shapes: Callable[[], Any] | None = None
    more: Callable[[], list[Inputs]] | None = None
    stateful: bool = False
    upstream_exports: bool = (
        True  # False: a defect of upstream's exporter or kernels stands in the way
    )
    from_library: bool = False  # needs a library that only .venv has: traced there for both sides
    tolerance: tuple[float, float] = (1e-4, 1e-5)

    def all_inputs(self) -> list[Inputs]:
        torch.manual_seed(7)
        sets = [self.inputs()]
        return sets + (self.more() if self.more else [])

    def module(self) -> nn.Module:
        torch.manual_seed(0)
        return self.build().eval()

    def export(self) -> torch.export.ExportedProgram:
        torch.manual_seed(7)
        shapes = self.dynamic_shapes() if self.dynamic_shapes else None
        with torch.no_grad():
            return torch.export.export(self.module(), self.inputs(), dynamic_shapes=shapes)


class Lambda(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


def op(name: str, function: Callable[..., Any], *shapes: tuple[int, ...], **kwargs: Any) -> Case:
    """A case of one function over f32 tensors of the given shapes."""
    return Case(
        name,
        lambda: Lambda(function),
        lambda: tuple(torch.randn(shape) for shape in shapes),
        **kwargs,
    )


def typed(
    name: str, function: Callable[..., Any], dtype: torch.dtype, *shapes: tuple[int, ...]
) -> Case:
    """A case of one function over tensors of one dtype."""

    def inputs() -> Inputs:
        if dtype == torch.bool:
            return tuple(torch.rand(shape) > 0.5 for shape in shapes)
        if dtype.is_floating_point:
            return tuple(torch.randn(shape).to(dtype) for shape in shapes)
        return tuple(torch.randint(1, 50, shape).to(dtype) for shape in shapes)

    loose = {torch.float16: (1e-2, 1e-2), torch.bfloat16: (4e-2, 4e-2)}
    return Case(name, lambda: Lambda(function), inputs, tolerance=loose.get(dtype, (1e-5, 1e-6)))


class SmallCnn(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(8),
            nn.ReLU6(),
            nn.Conv2d(8, 8, 3, padding=1, groups=8),
            nn.Hardswish(),
            nn.Conv2d(8, 16, 1),
            nn.MaxPool2d(2),
        )
        self.classifier = nn.Linear(16, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.classifier(self.features(x).mean(dim=(2, 3)))


class Attention(nn.Module):
    def __init__(self, dim: int = 32, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)
        self.mlp = nn.Sequential(
            nn.LayerNorm(dim), nn.Linear(dim, 64), nn.GELU(), nn.Linear(64, dim)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, dim = x.shape
        q, k, v = (
            t.view(batch, tokens, self.heads, dim // self.heads).transpose(1, 2)
            for t in self.qkv(self.norm(x)).chunk(3, dim=-1)
        )
        y = nn.functional.scaled_dot_product_attention(q, k, v)
        x = x + self.out(y.transpose(1, 2).reshape(batch, tokens, dim))
        return x + self.mlp(x)


class Recurrent(nn.Module):
    def __init__(self, kind: str) -> None:
        super().__init__()
        self.cell = getattr(nn, kind)(6, 8, num_layers=2, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.cell(x)[0]


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


class Transposed(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.transpose(1, 2)


class BothWays(nn.Module):
    def __init__(self, kind: str) -> None:
        super().__init__()
        self.cell = getattr(nn, kind)(6, 8, num_layers=2, batch_first=True, bidirectional=True)

    def forward(self, x: torch.Tensor) -> Any:
        return self.cell(x)


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


class Embedder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(20, 6)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.table(ids).tanh()


class ScalarInputs(nn.Module):
    def forward(self, x: torch.Tensor, n: int, f: float, b: bool) -> torch.Tensor:
        return (x * n + f) if b else x


def _batch(low: int = 1, high: int = 16) -> Any:
    return torch.export.Dim("batch", min=low, max=high)


def _rows(*sizes: int) -> Callable[[], list[Inputs]]:
    return lambda: [(torch.randn(n, 4),) for n in sizes]


DTYPES = {
    "f32": torch.float32,
    "f64": torch.float64,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "i64": torch.int64,
    "i32": torch.int32,
    "i16": torch.int16,
    "i8": torch.int8,
    "u8": torch.uint8,
}

ELEMENTWISE = (
    [
        typed(f"add_{name}", lambda a, b: a + b, dtype, (3, 4), (4,))
        for name, dtype in DTYPES.items()
    ]
    + [
        typed(f"mul_{name}", lambda a, b: a * b, dtype, (2, 5), (2, 1))
        for name, dtype in DTYPES.items()
        if name in {"f32", "f16", "i64", "i32", "u8"}
    ]
    + [
        typed("logical_and_b8", torch.logical_and, torch.bool, (3, 4), (3, 4)),
        typed("bitwise_and_i32", torch.bitwise_and, torch.int32, (3, 4), (3, 4)),
        typed("sub_f64", lambda a, b: a - b, torch.float64, (3, 4), (3, 4)),
        op("div", torch.div, (3, 4), (3, 4)),
        op("sigmoid_tanh", lambda x: torch.sigmoid(x) + torch.tanh(x), (4, 5)),
        op("exp_log", lambda x: torch.log(torch.exp(x) + 1), (4, 5)),
        op("rsqrt_abs", lambda x: torch.rsqrt(x.abs() + 1), (4, 5)),
        op("sin_cos_neg", lambda x: torch.sin(x) * torch.cos(-x), (4, 5)),
        op("gelu", nn.functional.gelu, (4, 5)),
        op("gelu_tanh", lambda x: nn.functional.gelu(x, approximate="tanh"), (4, 5)),
        op("relu_clamp", lambda x: torch.clamp(x.relu(), 0.1, 0.7), (4, 5)),
        op("pow_scalar", lambda x: x.pow(2) + x.pow(3), (4, 5)),
        op("where_compare", lambda a, b: torch.where(a > b, a, b * 2), (3, 4), (3, 4)),
        op("compare_scalars", lambda a: ((a >= 0.1) | (a != 0), (a < 0).logical_not()), (3, 4)),
        op("floor_sqrt", lambda a: a.abs().sqrt().floor(), (3, 4)),
        op("scalar_promotion", lambda a: (a + 1, a * 2.5, 3 - a), (3, 4)),
    ]
)

SHAPES = [
    op("permute", lambda x: x.permute(2, 0, 1) + 0, (2, 3, 4)),
    op("view_flatten", lambda x: (x + 1).view(6, 4).reshape(2, 12) * 2, (2, 3, 4)),
    op("cat", lambda a, b: torch.cat([a, b], dim=1), (2, 3), (2, 4)),
    op("stack_unbind", lambda a, b: torch.stack([a, b], 1).unbind(0), (2, 3), (2, 3)),
    op("slice_select", lambda x: (x[1:, ::2] + 0, x.select(1, 2) * 1), (3, 5)),
    op("expand_unsqueeze", lambda x: x.unsqueeze(1).expand(3, 4, 5) * 1.0, (3, 5)),
    op("squeeze", lambda x: x.squeeze(1) + 1, (3, 1, 5)),
    op("split", lambda x: [y + 1 for y in x.split([2, 3], dim=1)], (3, 5)),
    op("repeat", lambda x: x.repeat(2, 3), (2, 3)),
    op("pad", lambda x: nn.functional.pad(x, (1, 2, 0, 1), value=0.5), (2, 3, 4)),
    op("flip", lambda x: x.flip(0, 1), (2, 3)),
    op("zero_dim", lambda x: x.sum() * 2, (2, 3)),
    op("full_arange", lambda x: x + torch.arange(4) + torch.full((4,), 2.0), (3, 4)),
]

REDUCTIONS = [
    op("mean_dims", lambda x: x.mean(dim=(0, 2)), (2, 3, 4)),
    op("sum_keepdim", lambda x: x.sum(dim=1, keepdim=True), (2, 3, 4)),
    op("amax_any", lambda x: (x.amax(dim=1), (x > 1).any(dim=0)), (3, 4)),
    op("softmax", lambda x: torch.softmax(x, dim=-1), (3, 7)),
    op("log_softmax", lambda x: torch.log_softmax(x, dim=1), (3, 7)),
    op("cumsum", lambda x: x.cumsum(dim=1), (3, 7)),
    op("topk", lambda x: tuple(torch.topk(x, 3, dim=1)), (3, 7)),
    op("max_dim", lambda x: tuple(x.max(dim=1)), (3, 7)),
    op("argmax", lambda x: x.argmax(dim=1), (3, 7)),
    op("var", lambda x: x.var(dim=1), (3, 7)),
]

MATRICES = [
    op("mm", torch.mm, (3, 4), (4, 5)),
    op("bmm", torch.bmm, (2, 3, 4), (2, 4, 5)),
    op("addmm", torch.addmm, (5,), (3, 4), (4, 5)),
    Case("linear", lambda: nn.Linear(6, 5), lambda: (torch.randn(3, 6),)),
    Case("conv1d", lambda: nn.Conv1d(3, 5, 3, padding=1), lambda: (torch.randn(2, 3, 9),)),
    Case(
        "conv2d_dilated_grouped",
        lambda: nn.Conv2d(4, 6, 3, stride=2, padding=2, dilation=2, groups=2),
        lambda: (torch.randn(1, 4, 11, 10),),
    ),
    Case(
        "conv_transpose2d",
        lambda: nn.ConvTranspose2d(4, 3, 3, stride=2, padding=1, output_padding=1),
        lambda: (torch.randn(1, 4, 5, 6),),
    ),
    Case("layer_norm", lambda: nn.LayerNorm(8), lambda: (torch.randn(3, 8),)),
    Case("group_norm", lambda: nn.GroupNorm(2, 6), lambda: (torch.randn(2, 6, 4, 3),)),
    Case("batch_norm", lambda: nn.BatchNorm2d(4), lambda: (torch.randn(2, 4, 3, 3),)),
    Case("max_pool", lambda: nn.MaxPool2d(3, 2, 1), lambda: (torch.randn(1, 2, 9, 8),)),
    Case("avg_pool", lambda: nn.AvgPool2d(3, 2, 1), lambda: (torch.randn(1, 2, 9, 8),)),
    Case("adaptive_pool", lambda: nn.AdaptiveAvgPool2d((2, 3)), lambda: (torch.randn(1, 2, 9, 8),)),
    op(
        "upsample_bilinear",
        lambda x: nn.functional.interpolate(x, scale_factor=2.0, mode="bilinear"),
        (1, 2, 4, 5),
    ),
]

INDEXING = [
    Case("embedding", Embedder, lambda: (torch.tensor([[1, 4, 19], [0, 2, 3]]),)),
    Case(
        "gather",
        lambda: Lambda(lambda x, i: x.gather(1, i)),
        lambda: (torch.randn(3, 5), torch.tensor([[0, 4], [1, 1], [2, 3]])),
    ),
    Case(
        "index_tensor",
        lambda: Lambda(lambda x, i: x[i, :, i]),
        lambda: (torch.randn(4, 3, 4), torch.tensor([0, 3])),
    ),
    Case(
        "index_put",
        lambda: Lambda(lambda x, i, v: x.index_put((i,), v)),
        lambda: (torch.randn(4, 3), torch.tensor([1, 3]), torch.randn(2, 3)),
    ),
    Case(
        "masked_fill",
        lambda: Lambda(lambda x: x.masked_fill(x > 0, -1.0)),
        lambda: (torch.randn(4, 3),),
    ),
]

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


class Encoder(nn.Module):
    """A BERT as small sentence encoders are: embeddings, masked attention, mean pooling."""

    def __init__(self, dim: int = 48, heads: int = 6) -> None:
        super().__init__()
        self.heads = heads
        self.words = nn.Embedding(200, dim)
        self.positions = nn.Embedding(32, dim)
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(3))
        self.qkv = nn.ModuleList(nn.Linear(dim, dim) for _ in range(4))
        self.mlp = nn.Sequential(nn.Linear(dim, 96), nn.GELU(), nn.Linear(96, dim))

    def forward(self, tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        x = self.words(tokens) + self.positions(torch.arange(tokens.shape[1]))
        x = self.norms[0](x)
        q, k, v = (f(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for f in self.qkv[:3])
        seen = mask[:, None, None, :].bool()
        y = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=seen)
        x = self.norms[1](x + self.qkv[3](y.transpose(1, 2).flatten(2)))
        x = self.norms[2](x + self.mlp(x))
        weights = mask.unsqueeze(-1).to(x.dtype)
        return nn.functional.normalize((x * weights).sum(1) / weights.sum(1), dim=-1)


def _vision(name: str, **kwargs: Any) -> Callable[[], nn.Module]:
    def build() -> nn.Module:
        from models.vision import build as build_vision

        model = build_vision(name, **kwargs)
        if name.startswith("vit"):
            nn.init.xavier_uniform_(model.heads.head.weight)  # all zeros until it is trained
        return model

    return build


def _torchvision(name: str, **kwargs: Any) -> Callable[[], nn.Module]:
    def build() -> nn.Module:
        from models.vision import torchvision_models

        model: nn.Module = getattr(torchvision_models(), name)(**kwargs)
        return model

    return build


def _quantized(
    build: Callable[[], nn.Module], *shape: int, **settings: Any
) -> Callable[[], nn.Module]:
    @functools.cache
    def convert() -> nn.Module:
        from models.quantized import quantized

        return Lambda(quantized(build(), (torch.randn(shape),), **settings))

    return convert


def _transformers(name: str) -> Callable[[], nn.Module]:
    def build() -> nn.Module:
        from models.transformer_models import SUBJECTS

        return SUBJECTS[name].build()

    return build


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

    def rotate(self, x: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        a, b = x.unflatten(-1, (2, -1)).unbind(-2)
        cos, sin = self.cos[position], self.sin[position]
        return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)

    def forward(self, x: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        sizes = [self.heads, self.shared, self.shared]
        parts = self.qkv(x).unflatten(-1, (-1, self.width)).transpose(1, 2)
        q, k, v = parts.split(sizes, dim=1)
        self.keys[:, :, position] = self.rotate(k, position)
        self.values[:, :, position] = v
        seen = torch.arange(self.keys.shape[2]) <= position[:, None]
        y = nn.functional.scaled_dot_product_attention(
            self.rotate(q, position), self.keys, self.values, attn_mask=seen, enable_gqa=True
        )
        return self.out(y.transpose(1, 2).flatten(2))


class Decoder(nn.Module):
    """A small language model that is fed at given positions and remembers the earlier ones."""

    def __init__(self, dim: int = 32, layers: int = 2) -> None:
        super().__init__()
        self.words = nn.Embedding(50, dim)
        self.norms = nn.ModuleList(nn.RMSNorm(dim) for _ in range(2 * layers + 1))
        self.attention = nn.ModuleList(CachedAttention(dim, 4, 2, 16) for _ in range(layers))
        self.gates = nn.ModuleList(nn.Linear(dim, 64, bias=False) for _ in range(layers))
        self.ups = nn.ModuleList(nn.Linear(dim, 64, bias=False) for _ in range(layers))
        self.downs = nn.ModuleList(nn.Linear(64, dim, bias=False) for _ in range(layers))

    def forward(self, tokens: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        x = self.words(tokens)
        for i, attention in enumerate(self.attention):
            x = x + attention(self.norms[2 * i](x), position)
            y = self.norms[2 * i + 1](x)
            x = x + self.downs[i](nn.functional.silu(self.gates[i](y)) * self.ups[i](y))
        return self.norms[-1](x)[:, -1] @ self.words.weight.t()


def _tokens_at(first: int, n: int) -> Inputs:
    return torch.randint(0, 50, (1, n)), torch.arange(first, first + n)


def _token_ids(length: int) -> Inputs:
    return (torch.randint(3, 99, (1, length)),)


def _picture(size: int) -> Callable[[], Inputs]:
    return lambda: (torch.randn(1, 3, size, size),)


def _sentences(batch: int, length: int, words: int = 200) -> Inputs:
    mask = torch.ones(batch, length, dtype=torch.int64)
    mask[0, length // 2 + 1 :] = 0
    return torch.randint(1, words, (batch, length)), mask


MODELS = [
    Case("mobilenet_v2", _vision("mobilenet_v2"), _picture(64)),
    Case("mobilenet_v3_small", _vision("mobilenet_v3_small"), _picture(64)),
    Case("resnet18", _vision("resnet18"), _picture(64)),
    Case(
        "vit",
        lambda: nn.Sequential(
            nn.Conv2d(3, 32, 8, stride=8), nn.Flatten(2), Transposed(), Attention(), Attention()
        ),
        _picture(32),
    ),
    Case(
        "sentence_encoder",
        Encoder,
        lambda: _sentences(2, 9),
        dynamic_shapes=lambda: ({1: torch.export.Dim("tokens", min=4, max=24)},) * 2,
        more=lambda: [_sentences(2, 4), _sentences(2, 24)],
    ),
    Case(
        "torchvision_vit",
        _torchvision(
            "VisionTransformer",
            image_size=64,
            patch_size=16,
            num_layers=3,
            num_heads=3,
            hidden_dim=96,
            mlp_dim=192,
            num_classes=10,
        ),
        _picture(64),
    ),
    Case(
        "torchvision_swin",
        _torchvision(
            "SwinTransformer",
            patch_size=[4, 4],
            embed_dim=24,
            depths=[2, 2],
            num_heads=[2, 4],
            window_size=[4, 4],
            num_classes=10,
        ),
        _picture(64),
    ),
    Case(
        "bert",
        _transformers("bert"),
        lambda: _sentences(2, 9, 100),
        dynamic_shapes=lambda: ({1: torch.export.Dim("tokens", min=4, max=20)},) * 2,
        more=lambda: [_sentences(2, 4, 100), _sentences(2, 20, 100)],
        from_library=True,
    ),
    Case(
        "llama",
        _transformers("llama"),
        lambda: _token_ids(7),
        dynamic_shapes=lambda: ({1: torch.export.Dim("tokens", min=2, max=20)},),
        more=lambda: [_token_ids(2), _token_ids(20)],
        from_library=True,
    ),
    Case(
        "decoder_with_cache",
        Decoder,
        lambda: _tokens_at(0, 5),
        dynamic_shapes=lambda: tuple(
            {axis: torch.export.Dim("tokens", min=1, max=8)} for axis in (1, 0)
        ),
        more=lambda: [_tokens_at(5, 1), _tokens_at(6, 1), _tokens_at(7, 8)],
        stateful=True,
    ),
    Case("bidirectional_lstm", lambda: BothWays("LSTM"), lambda: (torch.randn(2, 5, 6),)),
    Case(
        "transformer",
        lambda: nn.Transformer(16, 2, 1, 1, 32, batch_first=True),
        lambda: (torch.randn(2, 5, 16), torch.randn(2, 4, 16)),
    ),
]


def _per_token(x: torch.Tensor) -> torch.Tensor:
    from importlib import import_module

    import_module("torch.ao.quantization.fx._decomposed")
    library, limits = torch.ops.quantized_decomposed, (-128, 127, torch.int8)
    scales, zeros = library.choose_qparams_per_token_asymmetric(x, torch.int8)
    codes = library.quantize_per_token(x, scales, zeros, *limits)
    result: torch.Tensor = library.dequantize_per_token(codes, scales, zeros, *limits, x.dtype)
    return result


def _counted(x: torch.Tensor, n: torch.Tensor) -> Any:
    return while_loop(lambda i, x: i < n, lambda i, x: (i + 1, x * 1.5), (torch.tensor(0), x))


def _mapped_pairs(xs: torch.Tensor, ys: torch.Tensor) -> Any:
    return torch_map(lambda pair: (pair[0] * pair[1], pair[0] - pair[1]), (xs, ys))


def _first_rows(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    k = n.item()
    torch._check(k >= 0)
    torch._check(k <= 5)
    return x[:k] * 2


QUANTIZED = [
    Case(
        "quantized_cnn",
        _quantized(
            SmallCnn,
            2,
            3,
            16,
            16,
            is_per_channel=True,
            dynamic_shapes=({0: torch.export.Dim("n", min=2, max=8)},),
        ),
        lambda: (torch.randn(3, 3, 16, 16),),
        dynamic_shapes=lambda: (({0: torch.export.Dim("n", min=2, max=8)},),),
        more=lambda: [(torch.randn(n, 3, 16, 16),) for n in (2, 8)],
        from_library=True,
    ),
    Case(
        "quantized_linear_dynamic",
        _quantized(
            lambda: nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)),
            3,
            16,
            is_per_channel=True,
            is_dynamic=True,
        ),
        lambda: (torch.randn(3, 16),),
        from_library=True,
    ),
    Case(
        "quantized_per_token",
        lambda: Lambda(_per_token),
        lambda: (torch.randn(2, 3, 16),),
        from_library=True,
    ),
    Case(
        "quantized_mobilenet_v2",
        _quantized(_vision("mobilenet_v2"), 1, 3, 64, 64, is_per_channel=True),
        lambda: (torch.randn(1, 3, 64, 64),),
        from_library=True,
        tolerance=(0.0, 4e-3),  # two steps of the last scale: convolutions differ in the last bit
    ),
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


def _parts(x: torch.Tensor) -> Any:
    """Parts along the outermost dimension, which share the memory of the whole."""
    q, k, v = x.sin().view(2, 8, 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
    y = ((q @ k.transpose(-1, -2)).softmax(-1) @ v).flatten(0, 1)
    a, b = y.split([1, 3])
    return y[1:3] + y[-1], y.view(8, 16)[5].exp(), y[2][4:], a.relu(), b.view(3, 32)


def _wholes(x: torch.Tensor) -> Any:
    """Concatenations whose parts are computed in their places."""
    a, b = x.sin(), x.cos()
    y = torch.cat([a, x[:1], torch.stack([b[0], a[1]])])
    return y * 2, torch.cat([y, b.exp().view(2, 8)]), a + b


def _checked(position: torch.Tensor) -> int:
    p: int = position[0].item()  # type: ignore[assignment]
    torch._check(p >= 0)
    torch._check(p < 16)
    return p


class Caches(nn.Module):
    """State that is updated a row at a time, in all the ways that decoders write it."""

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


SHARED_MEMORY = [
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

CASES = {
    case.name: case
    for case in ELEMENTWISE
    + SHAPES
    + REDUCTIONS
    + MATRICES
    + INDEXING
    + STRUCTURES
    + MODELS
    + QUANTIZED
    + BY_DATA
    + SHARED_MEMORY
}
