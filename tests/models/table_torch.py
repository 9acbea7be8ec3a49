"""Architectures of torch.nn: recurrent networks, attention, and small classics written by hand."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from models.table_entry import Architecture, Outputs, floats, integers, several


class Recurrent(nn.Module):
    """A recurrent layer and a classifier of its last step."""

    def __init__(self, kind: type[nn.Module], **options: Any) -> None:
        super().__init__()
        self.cells = kind(12, 24, batch_first=True, **options)  # type: ignore[call-arg]
        width = options.get("proj_size") or 24
        self.head = nn.Linear(width * (2 if options.get("bidirectional") else 1), 5)

    def forward(self, x: torch.Tensor) -> Any:
        y, _ = self.cells(x)
        return self.head(y[:, -1]), y


class Cells(nn.Module):
    """A cell stepped over a sequence."""

    def __init__(self, kind: type[nn.Module]) -> None:
        super().__init__()
        self.cell = kind(12, 24)  # type: ignore[call-arg]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        state = None
        found = []
        for step in x.unbind(1):
            state = self.cell(step, state)
            found.append(state[0] if isinstance(state, tuple) else state)
        return torch.stack(found, 1)


class Translator(nn.Module):
    """Encoder and decoder with additive attention, after Bahdanau."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(100, 16)
        self.encoder = nn.GRU(16, 24, batch_first=True, bidirectional=True)
        self.decoder = nn.GRUCell(16 + 48, 24)
        self.query, self.key, self.score = nn.Linear(24, 24), nn.Linear(48, 24), nn.Linear(24, 1)
        self.head = nn.Linear(24, 100)

    def forward(self, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        memory, last = self.encoder(self.table(source))
        state = last[0]
        found = []
        for word in self.table(target).unbind(1):
            scores = self.score(torch.tanh(self.query(state).unsqueeze(1) + self.key(memory)))
            context = (scores.softmax(1) * memory).sum(1)
            state = self.decoder(torch.cat([word, context], -1), state)
            found.append(self.head(state))
        return torch.stack(found, 1)


class ConvLSTM(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gates = nn.Conv2d(3 + 8, 32, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = cell = x.new_zeros(x.shape[0], 8, *x.shape[-2:])
        for step in x.unbind(1):
            i, f, o, g = self.gates(torch.cat([step, hidden], 1)).chunk(4, 1)
            cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
            hidden = o.sigmoid() * cell.tanh()
        return hidden


def block(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU()
    )


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList([block(3, 8), block(8, 16), block(16, 32)])
        self.up = nn.ModuleList(
            [nn.ConvTranspose2d(32, 16, 2, stride=2), nn.ConvTranspose2d(16, 8, 2, stride=2)]
        )
        self.join = nn.ModuleList([block(32, 16), block(16, 8)])
        self.head = nn.Conv2d(8, 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept = []
        for i, layer in enumerate(self.down):
            x = layer(x if i == 0 else F.max_pool2d(x, 2))
            kept.append(x)
        for up, join, skip in zip(self.up, self.join, kept[-2::-1], strict=True):
            x = join(torch.cat([up(x), skip], 1))
        return self.head(x)


class TemporalConvolution(nn.Module):
    """Dilated causal convolutions with residual sums."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv1d(6, 16, 1)
        self.layers = nn.ModuleList(nn.Conv1d(16, 16, 3, dilation=2**i) for i in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        for i, layer in enumerate(self.layers):
            x = x + layer(F.pad(x, (2 * 2**i, 0))).relu()
        return x


class WaveNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv1d(1, 16, 1)
        self.gates = nn.ModuleList(
            nn.Conv1d(16, 32, 2, dilation=2**i, padding=2**i) for i in range(5)
        )
        self.skips = nn.ModuleList(nn.Conv1d(16, 16, 1) for _ in range(5))
        self.head = nn.Conv1d(16, 32, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x, total = self.first(x), 0
        for gates, skip in zip(self.gates, self.skips, strict=True):
            a, b = gates(x)[..., : x.shape[-1]].chunk(2, 1)
            found = skip(a.tanh() * b.sigmoid())
            total, x = total + found, x + found
        return self.head(F.relu(total))


class Ranking(nn.Module):
    """Embeddings, dot products between them and two perceptrons, as in DLRM."""

    def __init__(self) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(100, 8, mode="sum") for _ in range(4))
        self.bottom = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 8), nn.ReLU())
        self.top = nn.Sequential(nn.Linear(18, 16), nn.ReLU(), nn.Linear(16, 1), nn.Sigmoid())

    def forward(self, dense: torch.Tensor, sparse: torch.Tensor) -> torch.Tensor:
        x = self.bottom(dense)
        vectors = torch.stack([x, *(t(sparse[:, i]) for i, t in enumerate(self.tables))], 1)
        products = vectors @ vectors.transpose(1, 2)
        rows, columns = torch.tril_indices(5, 5, -1).unbind()
        return self.top(torch.cat([x, products[:, rows, columns]], 1))


class Factorization(nn.Module):
    """A factorization machine beside a perceptron, as in DeepFM."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.table = nn.Embedding(200, 1), nn.Embedding(200, 8)
        self.deep = nn.Sequential(nn.Linear(48, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        v = self.table(ids)
        pairs = 0.5 * (v.sum(1).square() - v.square().sum(1)).sum(1, keepdim=True)
        return torch.sigmoid(self.linear(ids).sum(1) + pairs + self.deep(v.flatten(1)))


class Autoencoder(nn.Module):
    """A variational autoencoder that decodes the mean."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(block(1, 8), nn.MaxPool2d(2), block(8, 16), nn.MaxPool2d(2))
        self.mean, self.variance = nn.Linear(16 * 49, 6), nn.Linear(16 * 49, 6)
        self.decoder = nn.Sequential(
            nn.Linear(6, 16 * 49),
            nn.Unflatten(1, (16, 7, 7)),
            nn.ConvTranspose2d(16, 8, 4, stride=2, padding=1),
            nn.ELU(),
            nn.ConvTranspose2d(8, 1, 4, stride=2, padding=1),
            nn.Sigmoid(),
        )

    def forward(self, x: torch.Tensor) -> Any:
        features = self.encoder(x).flatten(1)
        mean = self.mean(features)
        return self.decoder(mean), mean, self.variance(features)


class Sines(nn.Module):
    """A coordinate network whose activations are sines (SIREN)."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(2, 32), nn.Linear(32, 32), nn.Linear(32, 3)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers[:-1]:
            x = torch.sin(3 * layer(x))
        return self.layers[-1](x)


class Subpixel(nn.Module):
    """Super-resolution by a pixel shuffle (ESPCN)."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 16, 5, padding=2),
            nn.Tanh(),
            nn.Conv2d(16, 9, 3, padding=1),
            nn.PixelShuffle(3),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


def generator() -> nn.Module:
    layers: list[nn.Module] = []
    for inputs, outputs in ((16, 32), (32, 16), (16, 8)):
        layers += [
            nn.ConvTranspose2d(inputs, outputs, 4, stride=2, padding=1),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
        ]
    return nn.Sequential(*layers, nn.Conv2d(8, 3, 3, padding=1), nn.Tanh())


def encoder() -> nn.Module:
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, norm_first=True)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


def attention() -> nn.Module:
    return Outputs(nn.MultiheadAttention(32, 4, batch_first=True), ("query", "key", "value"))


def transformer() -> nn.Module:
    return nn.Transformer(32, 4, 2, 2, 64, batch_first=True)


def convolutions() -> nn.Module:
    """LeNet-5."""
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2),
        nn.Tanh(),
        nn.AvgPool2d(2),
        nn.Conv2d(6, 16, 5),
        nn.Tanh(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(400, 120),
        nn.Tanh(),
        nn.Linear(120, 84),
        nn.Tanh(),
        nn.Linear(84, 10),
    )


STEPS = floats(2, 16, 12)
WORDS = floats(1, 10, 32)


def _row(name: str, kind: str, make: Any, inputs: Any) -> Architecture:
    return Architecture(name, "torch.nn", kind, make, inputs)


ARCHITECTURES = (
    _row("RNN", "recurrent", lambda: Recurrent(nn.RNN), STEPS),
    _row("RNN, ReLU", "recurrent", lambda: Recurrent(nn.RNN, nonlinearity="relu"), STEPS),
    _row("LSTM", "recurrent", lambda: Recurrent(nn.LSTM), STEPS),
    _row("LSTM, 3 layers", "recurrent", lambda: Recurrent(nn.LSTM, num_layers=3), STEPS),
    _row("LSTM, both ways", "recurrent", lambda: Recurrent(nn.LSTM, bidirectional=True), STEPS),
    _row("LSTM, projected", "recurrent", lambda: Recurrent(nn.LSTM, proj_size=8), STEPS),
    _row("LSTM, 200 steps", "recurrent", lambda: Recurrent(nn.LSTM), floats(1, 200, 12)),
    _row("GRU", "recurrent", lambda: Recurrent(nn.GRU), STEPS),
    _row("GRU, both ways", "recurrent", lambda: Recurrent(nn.GRU, bidirectional=True), STEPS),
    _row("LSTMCell", "recurrent", lambda: Cells(nn.LSTMCell), STEPS),
    _row("GRUCell", "recurrent", lambda: Cells(nn.GRUCell), STEPS),
    _row(
        "GRU translator", "recurrent", Translator, several(integers(1, 8), integers(1, 6, below=90))
    ),
    _row("ConvLSTM", "recurrent", ConvLSTM, floats(1, 4, 3, 8, 8)),
    _row("MultiheadAttention", "text", attention, several(WORDS, WORDS, WORDS)),
    _row("TransformerEncoder", "text", encoder, WORDS),
    _row("Transformer", "text", transformer, several(WORDS, floats(1, 6, 32))),
    _row("LeNet-5", "vision", convolutions, floats(1, 1, 28, 28)),
    _row("U-Net", "segmentation", UNet, floats(1, 3, 32, 32)),
    _row("temporal convolutions", "time series", TemporalConvolution, floats(1, 6, 40)),
    _row("WaveNet", "audio", WaveNet, floats(1, 1, 100)),
    _row("DLRM", "ranking", Ranking, several(floats(4, 5), integers(4, 4, 3))),
    _row("DeepFM", "ranking", Factorization, integers(4, 6, below=200)),
    _row("variational autoencoder", "generative", Autoencoder, floats(1, 1, 28, 28)),
    _row("DCGAN generator", "generative", generator, floats(1, 16, 4, 4)),
    _row("SIREN", "generative", Sines, floats(64, 2)),
    _row("ESPCN", "generative", Subpixel, floats(1, 1, 16, 16)),
)
