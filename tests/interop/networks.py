"""Networks: small convolutional ones, transformers with a cache, quantized ones."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from support.tolerance import MOBILENET_STEPS, SMALL_CNN_STEP
from torch import nn

from interop.cases import Case, Inputs, Lambda


class Transposed(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.transpose(1, 2)


class BothWays(nn.Module):
    def __init__(self, kind: str) -> None:
        super().__init__()
        self.cell = getattr(nn, kind)(6, 8, num_layers=2, batch_first=True, bidirectional=True)

    def forward(self, x: torch.Tensor) -> Any:
        return self.cell(x)


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


class Embedder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(20, 6)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.table(ids).tanh()


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
        from support.quantized_models import quantized

        return Lambda(quantized(build(), (torch.randn(shape),), **settings))

    return convert


def _minilm() -> nn.Module:
    from models.transformer_models import minilm

    return minilm()


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
    """A small language model with a cache, whose inputs have positions."""

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


def _per_token(x: torch.Tensor) -> torch.Tensor:
    from importlib import import_module

    import_module("torch.ao.quantization.fx._decomposed")
    library, limits = torch.ops.quantized_decomposed, (-128, 127, torch.int8)
    scales, zeros = library.choose_qparams_per_token_asymmetric(x, torch.int8)
    codes = library.quantize_per_token(x, scales, zeros, *limits)
    result: torch.Tensor = library.dequantize_per_token(codes, scales, zeros, *limits, x.dtype)
    return result


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
        "minilm_with_its_trained_weights",
        _minilm,
        lambda: _sentences(2, 9, 30000),
        dynamic_shapes=lambda: ({1: torch.export.Dim("tokens", min=4, max=20)},) * 2,
        more=lambda: [_sentences(2, 20, 30000)],
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
    Case(
        "bidirectional_lstm",
        lambda: BothWays("LSTM"),
        lambda: (torch.randn(2, 5, 6),),
        dynamic_shapes=lambda: ({0: torch.export.Dim("batch", min=1, max=4)},),
        more=lambda: [(torch.randn(1, 5, 6),), (torch.randn(4, 5, 6),)],
    ),
    Case(
        "transformer",
        lambda: nn.Transformer(16, 2, 1, 1, 32, batch_first=True),
        lambda: (torch.randn(2, 5, 16), torch.randn(2, 4, 16)),
    ),
]


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
        tolerance=SMALL_CNN_STEP,
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
        tolerance=MOBILENET_STEPS,
    ),
]
