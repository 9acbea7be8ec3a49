"""Architectures written by hand that make pictures, move them, or describe scenes and flows."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.table_entry import Architecture, floats, image, integers, several


def times(steps: Tensor) -> Tensor:
    """Sines and cosines of a step's number."""
    angles = steps.float() * torch.exp(-math.log(10000) * torch.arange(8) / 8)
    return torch.cat([angles.cos(), angles.sin()], -1)


class Residual(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.before, self.first = nn.GroupNorm(4, inputs), nn.Conv2d(inputs, outputs, 3, padding=1)
        self.between = nn.GroupNorm(4, outputs)
        self.second, self.skip = nn.Conv2d(outputs, outputs, 3, padding=1), nn.Identity()
        self.time = nn.Linear(32, 2 * outputs)
        if inputs != outputs:
            self.skip = nn.Conv2d(inputs, outputs, 1)  # type: ignore[assignment]

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        scale, shift = self.time(F.silu(time))[:, :, None, None].chunk(2, 1)
        y = self.between(self.first(F.silu(self.before(x)))) * (1 + scale) + shift
        return self.skip(x) + self.second(F.silu(y))


class Diffusion(nn.Module):
    """A U-Net of diffusion: a step's number, attention to itself and to words."""

    def __init__(self) -> None:
        super().__init__()
        self.time = nn.Sequential(nn.Linear(16, 32), nn.SiLU(), nn.Linear(32, 32))
        self.first = nn.Conv2d(3, 16, 3, padding=1)
        self.down, self.middle = Residual(16, 16), Residual(16, 32)
        self.shrink = nn.Conv2d(16, 16, 3, stride=2, padding=1)
        self.norm, self.parts, self.mix = (
            nn.GroupNorm(4, 32),
            nn.Conv1d(32, 96, 1),
            nn.Conv1d(32, 32, 1),
        )
        self.words = nn.MultiheadAttention(32, 4, kdim=12, vdim=12, batch_first=True)
        self.up, self.join = Residual(32, 16), Residual(32, 16)
        self.last = nn.Sequential(nn.GroupNorm(4, 16), nn.SiLU(), nn.Conv2d(16, 3, 3, padding=1))

    def attend(self, x: Tensor, words: Tensor) -> Tensor:
        batch, width, height, columns = x.shape
        parts = self.parts(self.norm(x).flatten(2)).chunk(3, 1)
        query, key, value = (y.view(batch, 4, 8, height * columns).transpose(2, 3) for y in parts)
        y = F.scaled_dot_product_attention(query, key, value).transpose(2, 3)
        x = x.flatten(2) + self.mix(y.reshape(batch, width, height * columns))
        rows = x.transpose(1, 2)
        y = self.words(rows, words, words, need_weights=False)[0]
        return (x + y.transpose(1, 2)).view(batch, width, height, columns)

    def forward(self, x: Tensor, steps: Tensor, words: Tensor) -> Tensor:
        time = self.time(times(steps))
        kept = self.down(self.first(x), time)
        x = self.attend(self.middle(self.shrink(kept), time), words)
        x = F.interpolate(self.up(x, time), scale_factor=2.0, mode="nearest")
        return self.last(self.join(torch.cat([x, kept], 1), time))


class Patches(nn.Module):
    """A transformer of diffusion, whose norms are scaled by the step and the class (DiT)."""

    def __init__(self) -> None:
        super().__init__()
        self.patch, self.places = (
            nn.Conv2d(4, 32, 2, stride=2),
            nn.Parameter(torch.randn(1, 16, 32)),
        )
        self.time, self.table, self.head = (
            nn.Linear(16, 32),
            nn.Embedding(10, 32),
            nn.Linear(32, 16),
        )
        self.scales = nn.ModuleList(nn.Linear(32, 192) for _ in range(2))
        self.attention = nn.ModuleList(
            nn.MultiheadAttention(32, 4, batch_first=True) for _ in range(2)
        )
        self.layers = nn.ModuleList(
            nn.Sequential(nn.Linear(32, 64), nn.GELU("tanh"), nn.Linear(64, 32)) for _ in range(2)
        )

    def forward(self, x: Tensor, steps: Tensor, kind: Tensor) -> Tensor:
        given = F.silu(self.time(times(steps)) + self.table(kind).sum(1))
        x = self.patch(x).flatten(2).transpose(1, 2) + self.places
        for scales, attention, layers in zip(self.scales, self.attention, self.layers, strict=True):
            shift, scale, gate, shift_2, scale_2, gate_2 = scales(given).unsqueeze(1).chunk(6, -1)
            y = F.layer_norm(x, (32,)) * (1 + scale) + shift
            x = x + gate * attention(y, y, y, need_weights=False)[0]
            x = x + gate_2 * layers(F.layer_norm(x, (32,)) * (1 + scale_2) + shift_2)
        x = self.head(x).view(-1, 4, 4, 2, 2, 4)
        return torch.einsum("nhwpqc->nchpwq", x).reshape(-1, 4, 8, 8)


class Styles(nn.Module):
    """Convolutions with weights of each sample, as one of several groups (StyleGAN 2)."""

    def __init__(self) -> None:
        super().__init__()
        self.map = nn.Sequential(nn.Linear(16, 16), nn.LeakyReLU(0.2), nn.Linear(16, 16))
        self.start, self.rgb = nn.Parameter(torch.randn(1, 16, 4, 4)), nn.Conv2d(16, 3, 1)
        self.weights = nn.ParameterList(torch.randn(16, 16, 3, 3) * 0.1 for _ in range(3))
        self.styles = nn.ModuleList(nn.Linear(16, 16) for _ in range(3))
        taps = torch.tensor([1.0, 3.0, 3.0, 1.0])
        self.register_buffer("blur", taps.outer(taps).expand(16, 1, 4, 4) / 64)

    def forward(self, noise: Tensor) -> Tensor:
        batch = noise.shape[0]
        given = self.map(noise * (noise.square().mean(1, keepdim=True) + 1e-8).rsqrt())
        x = self.start.repeat(batch, 1, 1, 1)
        for weight, style in zip(self.weights, self.styles, strict=True):
            own = weight[None] * (style(given) + 1)[:, None, :, None, None]
            own = own * (own.square().sum((2, 3, 4), keepdim=True) + 1e-8).rsqrt()
            size = x.shape[-2:]
            x = F.conv2d(x.reshape(1, -1, *size), own.view(-1, 16, 3, 3), padding=1, groups=batch)
            x = F.leaky_relu(x.view(batch, 16, *size), 0.2) * math.sqrt(2)
            x = F.interpolate(x, scale_factor=2.0, mode="bilinear", align_corners=False)
            x = F.conv2d(F.pad(x, (2, 1, 2, 1)), self.blur, groups=16)
        return self.rgb(x).tanh()


class Codes(nn.Module):
    """An autoencoder through the nearest vectors of a book (VQ-VAE)."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(3, 16, 4, 2, 1), nn.ReLU(), nn.Conv2d(16, 8, 4, 2, 1)
        )
        self.book = nn.Embedding(32, 8)
        self.decoder = nn.Sequential(
            nn.ConvTranspose2d(8, 16, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(16, 3, 4, 2, 1)
        )

    def forward(self, x: Tensor) -> Any:
        found = self.encoder(x).permute(0, 2, 3, 1)
        flat, book = found.reshape(-1, 8), self.book.weight
        distance = flat.square().sum(1, keepdim=True) - 2 * flat @ book.t() + book.square().sum(1)
        codes = distance.argmin(1)
        chosen = (F.one_hot(codes, 32).float() @ book).view_as(found)
        return self.decoder(chosen.permute(0, 3, 1, 2)), codes.view(found.shape[:-1])


class Couplings(nn.Module):
    """Affine couplings and mixing matrices, with their determinants, there and back (Glow)."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 8)) for _ in range(3)
        )
        self.mixers = nn.ParameterList(
            torch.linalg.qr(torch.randn(8, 8))[0] * 1.1 for _ in range(3)
        )

    def forward(self, x: Tensor) -> Any:
        total = torch.zeros(x.shape[0])
        for layers, mixer in zip(self.layers, self.mixers, strict=True):
            a, b = (x @ mixer).split(4, 1)
            scale, shift = layers(a).chunk(2, 1)
            x = torch.cat([a, b * scale.tanh().exp() + shift], 1)
            total = total + scale.tanh().sum(1) + torch.linalg.slogdet(mixer)[1]
        back = x
        for i in (2, 1, 0):
            a, b = back.split(4, 1)
            scale, shift = self.layers[i](a).chunk(2, 1)
            back = torch.cat([a, (b - shift) * (-scale.tanh()).exp()], 1)
            back = back @ torch.inverse(self.mixers[i])
        return x, total, back


class Rays(nn.Module):
    """Colours and densities along rays, composed front to back (NeRF)."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(27, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU())
        self.density, self.colour = nn.Linear(32, 1), nn.Linear(32, 3)

    def forward(self, origin: Tensor, direction: Tensor) -> Any:
        depth = torch.linspace(0.5, 2.0, 8)
        places = origin[:, None] + direction[:, None] * depth[:, None]
        angles = (places[..., None] * 2.0 ** torch.arange(4)).flatten(-2)
        x = self.layers(torch.cat([places, angles.sin(), angles.cos()], -1))
        clear = torch.exp(-self.density(x)[..., 0].relu() * (depth[1] - depth[0]))
        passed = torch.cumprod(torch.cat([torch.ones_like(clear[:, :1]), clear], -1), -1)[:, :-1]
        weights = (1 - clear) * passed
        return (weights[..., None] * self.colour(x).sigmoid()).sum(1), (weights * depth).sum(1)


class Splines(nn.Module):
    """Sums of splines by the recursion of Cox and de Boor (KAN)."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("knots", (torch.arange(-3, 9) * 0.4 - 1.0).repeat(4, 1))
        self.weights, self.base = nn.Parameter(torch.randn(5, 4, 8)), nn.Linear(4, 5)

    def forward(self, x: Tensor) -> Tensor:
        y, knots = x.unsqueeze(-1), self.knots
        basis = ((y >= knots[:, :-1]) & (y < knots[:, 1:])).to(x.dtype)
        for k in range(1, 4):
            left = (y - knots[:, : -(k + 1)]) / (knots[:, k:-1] - knots[:, : -(k + 1)])
            right = (knots[:, k + 1 :] - y) / (knots[:, k + 1 :] - knots[:, 1:-k])
            basis = left * basis[..., :-1] + right * basis[..., 1:]
        return self.base(F.silu(x)) + torch.einsum("nik,oik->no", basis, self.weights)


class Warped(nn.Module):
    """A picture moved by a map that a small network finds (spatial transformer)."""

    def __init__(self) -> None:
        super().__init__()
        self.find = nn.Sequential(
            nn.Conv2d(1, 4, 5), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(144, 6)
        )
        self.head = nn.Conv2d(1, 4, 3)

    def forward(self, x: Tensor) -> Any:
        map_ = self.find(x).view(-1, 2, 3) * 0.3 + torch.eye(2, 3)
        grid = F.affine_grid(map_, list(x.size()), align_corners=False)
        moved = F.grid_sample(x, grid, align_corners=False)
        return self.head(moved), moved


class Boxes(nn.Module):
    """A head of YOLO: boxes of a grid, the best of them, and those that overlap a better one."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 8, 3, 2, 1),
            nn.BatchNorm2d(8),
            nn.SiLU(),
            nn.Conv2d(8, 16, 3, 2, 1),
            nn.SiLU(),
        )
        self.head = nn.Conv2d(16, 21, 1)
        self.register_buffer("anchors", torch.tensor([[8.0, 10], [16, 12], [20, 30]]))

    def forward(self, x: Tensor) -> Any:
        found = self.head(self.features(x))
        batch, _, height, width = found.shape
        y = found.view(batch, 3, 7, height, width).permute(0, 1, 3, 4, 2).contiguous().sigmoid()
        rows, columns = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
        y[..., 0:2] = (y[..., 0:2] * 2.0 - 0.5 + torch.stack((columns, rows), 2)) * 4
        y[..., 2:4] = (y[..., 2:4] * 2) ** 2 * self.anchors.view(1, 3, 1, 1, 2)
        y = y.view(batch, -1, 7)
        scores, place = (y[..., 4] * y[..., 5:].amax(-1)).topk(10, dim=1)
        kept = y.gather(1, place.unsqueeze(-1).expand(-1, -1, 7))
        center, half = kept[..., :2], kept[..., 2:4] / 2
        boxes = torch.cat([center - half, center + half], -1)
        low = torch.maximum(boxes[:, :, None, :2], boxes[:, None, :, :2])
        high = torch.minimum(boxes[:, :, None, 2:], boxes[:, None, :, 2:])
        both, area = (high - low).clamp(min=0).prod(-1), kept[..., 2:4].prod(-1)
        overlap = both / (area[:, :, None] + area[:, None] - both)
        hidden = (overlap.triu(1) > 0.5).any(1)
        return (
            boxes,
            torch.where(hidden, torch.zeros_like(scores), scores),
            kept[..., 5:].argmax(-1),
        )


class Masked(nn.Module):
    """A wave, the mask that a network finds for its spectrogram, and the wave again."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("window", torch.hann_window(32))
        self.find = nn.Conv1d(17, 17, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        spectrum = torch.stft(x, 32, 8, window=self.window, return_complex=True)
        masked = spectrum * self.find(spectrum.abs()).sigmoid()
        return torch.istft(masked, 32, 8, window=self.window, length=x.shape[-1])


def _row(name: str, kind: str, make: Any, inputs: Any) -> Architecture:
    return Architecture(name, "torch.nn", kind, make, inputs)


STEP = integers(1, 1, below=10)
ARCHITECTURES = (
    _row("diffusion U-Net", "generative", Diffusion, several(image(8), STEP, floats(1, 5, 12))),
    _row("DiT", "generative", Patches, several(floats(1, 4, 8, 8), STEP, STEP)),
    _row("Glow", "generative", Couplings, floats(1, 8)),
    _row("KAN", "regression", Splines, floats(1, 4)),
    _row("mask of a spectrogram", "audio", Masked, floats(1, 160)),
    _row("NeRF", "generative", Rays, several(floats(1, 3), floats(1, 3))),
    _row("spatial transformer", "vision", Warped, floats(1, 1, 16, 16)),
    _row("StyleGAN 2", "generative", Styles, floats(1, 16)),
    _row("VQ-VAE", "generative", Codes, floats(1, 3, 16, 16)),
    _row("YOLO head", "detection", Boxes, image(32)),
)
