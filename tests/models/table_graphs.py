"""Architectures written by hand: graphs, clouds of points, discrete choices, filters."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.table_entry import Architecture, floats, integers, several


class GraphConvolution(nn.Module):
    """Sums over an edge list, scaled by the degrees of both ends (GCN)."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 16), nn.Linear(16, 4)

    def spread(self, x: Tensor, edges: Tensor) -> Tensor:
        source, target = edges.unbind()
        degree = torch.ones(x.shape[0]).index_add(0, target, torch.ones(edges.shape[1]))
        scale = degree.rsqrt()
        messages = x[source] * (scale[source] * scale[target]).unsqueeze(1)
        return torch.zeros_like(x).index_add(0, target, messages) + x / degree.unsqueeze(1)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        hidden = self.spread(self.first(x), edges).relu()
        return self.spread(self.second(hidden), edges).log_softmax(-1)


class GraphAttention(nn.Module):
    """A softmax over the edges of each node (GAT)."""

    def __init__(self) -> None:
        super().__init__()
        self.project, self.head = nn.Linear(8, 24, bias=False), nn.Linear(24, 3)
        self.source, self.target = nn.Parameter(torch.randn(4, 6)), nn.Parameter(torch.randn(4, 6))

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        source, target = edges.unbind()
        hidden = self.project(x).view(-1, 4, 6)
        scores = (hidden * self.source).sum(-1)[source] + (hidden * self.target).sum(-1)[target]
        scores = F.leaky_relu(scores, 0.2)
        index = target.unsqueeze(1).expand(-1, 4)
        top = torch.full((x.shape[0], 4), -1e9).scatter_reduce(0, index, scores, "amax")
        weights = (scores - top[target]).exp()
        total = torch.zeros(x.shape[0], 4).scatter_add(0, index, weights)
        weights = weights / (total[target] + 1e-9)
        messages = hidden[source] * weights.unsqueeze(-1)
        return self.head(F.elu(torch.zeros_like(hidden).index_add(0, target, messages).flatten(1)))


class Samples(nn.Module):
    """Farthest points, their nearest neighbours, and the largest feature of each group."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 16))
        self.head = nn.Linear(16, 4)

    def forward(self, x: Tensor) -> Tensor:
        rows = torch.arange(x.shape[0])
        farthest = torch.zeros(x.shape[0], dtype=torch.int64)
        distance = torch.full(x.shape[:2], 1e10)
        kept = []
        for _ in range(6):
            kept.append(farthest)
            center = x[rows, farthest].unsqueeze(1)
            distance = torch.minimum(distance, (x - center).square().sum(-1))
            farthest = distance.argmax(-1)
        centers = torch.gather(x, 1, torch.stack(kept, 1).unsqueeze(-1).expand(-1, -1, 3))
        near = torch.cdist(centers, x).topk(5, largest=False).indices
        groups = x[rows[:, None, None], near] - centers.unsqueeze(2)
        return self.head(self.features(groups).amax(2).mean(1))


class EdgeConvolution(nn.Module):
    """A convolution over pairs of a point and a neighbour (DGCNN)."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(6, 16, 1), nn.BatchNorm2d(16), nn.LeakyReLU(0.2))
        self.head = nn.Linear(32, 4)

    def forward(self, x: Tensor) -> Tensor:
        batch, width, count = x.shape
        squares = x.square().sum(1, keepdim=True)
        closeness = 2 * x.transpose(2, 1) @ x - squares - squares.transpose(2, 1)
        near = closeness.topk(4, dim=-1).indices + torch.arange(batch).view(-1, 1, 1) * count
        points = x.transpose(2, 1).reshape(batch * count, width)
        neighbours = points[near.view(-1)].view(batch, count, 4, width)
        own = x.transpose(2, 1).unsqueeze(2).expand(-1, -1, 4, -1)
        pairs = torch.cat([neighbours - own, own], 3).permute(0, 3, 1, 2)
        found = self.features(pairs).max(-1).values
        return self.head(torch.cat([found.amax(2), found.mean(2)], 1))


class Tagger(nn.Module):
    """A bidirectional LSTM and a random field: the best path of tags and the sum over all."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(100, 8)
        self.cells = nn.LSTM(8, 8, bidirectional=True, batch_first=True)
        self.head, self.moves = nn.Linear(16, 5), nn.Parameter(torch.randn(5, 5))

    def forward(self, words: Tensor) -> Any:
        scores = self.head(self.cells(self.table(words))[0])
        best = total = scores[:, 0]
        back = []
        for step in scores[:, 1:].unbind(1):
            top, place = (best.unsqueeze(2) + self.moves).max(1)
            back.append(place)
            best = top + step
            total = torch.logsumexp(total.unsqueeze(2) + self.moves, 1) + step
        score, tag = best.max(1)
        path = [tag]
        for place in reversed(back):
            tag = place.gather(1, tag.unsqueeze(1)).squeeze(1)
            path.append(tag)
        return score, torch.stack(path[::-1], 1), total.logsumexp(1)


class Filter(nn.Module):
    """A Kalman filter of two states."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("step", torch.tensor([[1.0, 0.1], [0.0, 1.0]]))
        self.register_buffer("sight", torch.tensor([[1.0, 0.0], [0.5, 1.0]]))
        self.noise, self.error = nn.Parameter(torch.eye(2) * 0.01), nn.Parameter(torch.eye(2) * 0.1)

    def forward(self, seen: Tensor) -> Any:
        state = seen.new_zeros(seen.shape[0], 2, 1)
        spread = torch.eye(2).expand(seen.shape[0], 2, 2)
        found = []
        for one in seen.unbind(1):
            state, spread = self.step @ state, self.step @ spread @ self.step.T + self.noise
            doubt = self.sight @ spread @ self.sight.T + self.error
            gain = torch.linalg.solve(doubt, self.sight @ spread).transpose(1, 2)
            state = state + gain @ (one.unsqueeze(-1) - self.sight @ state)
            spread = (torch.eye(2) - gain @ self.sight) @ spread
            found.append(state.squeeze(-1))
        return torch.stack(found, 1), torch.diagonal(spread, dim1=1, dim2=2)


class Process(nn.Module):
    """The mean and the variance of a Gaussian process, by a Cholesky factor."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("known", torch.randn(12, 3))
        self.register_buffer("values", torch.randn(12, 1))
        self.scale = nn.Parameter(torch.zeros(3))

    def kernel(self, a: Tensor, b: Tensor) -> Tensor:
        return torch.exp(-0.5 * torch.cdist(a * self.scale.exp(), b * self.scale.exp()).square())

    def forward(self, x: Tensor) -> Any:
        factor = torch.linalg.cholesky(self.kernel(self.known, self.known) + 0.1 * torch.eye(12))
        across = self.kernel(self.known, x)
        mean = across.transpose(-1, -2) @ torch.cholesky_solve(self.values, factor)
        part = torch.linalg.solve_triangular(factor, across, upper=False)
        return mean.squeeze(-1), 1 - part.square().sum(-2)


class Memory(nn.Module):
    """A neural Turing machine: addresses by content, erasing and adding."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(14, 16)
        self.control, self.head = nn.Linear(16, 25), nn.Linear(24, 4)

    def forward(self, x: Tensor) -> Any:
        start = 0.1 + 0.01 * torch.arange(10.0)
        memory = start.view(1, 10, 1).expand(x.shape[0], 10, 8)
        read, state, found = x.new_zeros(x.shape[0], 8), None, []
        for step in x.unbind(1):
            state = self.cell(torch.cat([step, read], 1), state)
            key, sharp, erase, add = self.control(state[0]).split([8, 1, 8, 8], 1)
            likeness = F.cosine_similarity(memory, key.tanh().unsqueeze(1), dim=-1)
            weights = (F.softplus(sharp) * likeness).softmax(-1).unsqueeze(-1)
            read = (weights * memory).sum(1)
            memory = memory * (1 - weights * erase.sigmoid().unsqueeze(1))
            memory = memory + weights * add.tanh().unsqueeze(1)
            found.append(self.head(torch.cat([state[0], read], 1)))
        return torch.stack(found, 1), memory


class Segments(nn.Module):
    """Attention with relative positions, shifted in place, over a segment and the one before."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.query = nn.Embedding(100, 16), nn.Linear(16, 16)
        self.pair, self.place = nn.Linear(16, 32), nn.Linear(16, 16)
        self.content, self.position = (nn.Parameter(torch.randn(4, 4)) for _ in range(2))

    def forward(self, words: Tensor, before: Tensor) -> Any:
        x = self.table(words)
        batch, count, width = x.shape
        whole = torch.cat([before, x], 1)
        length = whole.shape[1]
        query = self.query(x).view(batch, count, 4, 4)
        key, value = (y.view(batch, length, 4, 4) for y in self.pair(whole).chunk(2, -1))
        angles = torch.arange(length - 1, -1, -1.0)[:, None] / 10 ** torch.arange(0, 4, 0.5)
        place = self.place(torch.cat([angles.sin(), angles.cos()], -1)).view(length, 4, 4)
        scores = torch.einsum("bihd,bjhd->bhij", query + self.content, key)
        moved = F.pad(torch.einsum("bihd,jhd->bhij", query + self.position, place), (1, 0))
        moved = moved.view(batch, 4, length + 1, count)[:, :, 1:].reshape(batch, 4, count, length)
        mask = torch.ones(count, length, dtype=torch.bool).triu(1 + length - count)
        weights = ((scores + moved) * 0.5).masked_fill(mask, float("-inf")).softmax(-1)
        return torch.einsum("bhij,bjhd->bihd", weights, value).reshape(batch, count, width), x


class Operator(nn.Module):
    """A product with weights of the lowest frequencies (Fourier neural operator)."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last, self.beside = nn.Linear(2, 8), nn.Linear(8, 1), nn.Conv1d(8, 8, 1)
        self.weights = nn.Parameter(torch.randn(8, 8, 5, dtype=torch.cfloat) * 0.2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x).permute(0, 2, 1)
        spectrum = torch.fft.rfft(x)
        mixed = torch.zeros_like(spectrum)
        mixed[:, :, :5] = torch.einsum("bix,iox->box", spectrum[:, :, :5], self.weights)
        x = F.gelu(torch.fft.irfft(mixed, n=x.shape[-1]) + self.beside(x))
        return self.last(x.permute(0, 2, 1))


def _row(name: str, kind: str, make: Any, inputs: Any) -> Architecture:
    return Architecture(name, "torch.nn", kind, make, inputs)


GRAPH = several(floats(10, 8), integers(2, 24, least=0, below=10))
ARCHITECTURES = (
    _row("DGCNN", "points", EdgeConvolution, floats(1, 3, 16)),
    _row("Fourier neural operator", "physics", Operator, floats(1, 16, 2)),
    _row("GAT", "graph", GraphAttention, GRAPH),
    _row("Gaussian process", "regression", Process, floats(1, 6, 3)),
    _row("GCN", "graph", GraphConvolution, GRAPH),
    _row("Kalman filter", "time series", Filter, floats(1, 5, 2)),
    _row("LSTM-CRF", "text", Tagger, integers(1, 7)),
    _row("neural Turing machine", "recurrent", Memory, floats(1, 4, 6)),
    _row("PointNet++", "points", Samples, floats(1, 20, 3)),
    _row("Transformer-XL", "text", Segments, several(integers(1, 5), floats(1, 4, 16))),
)
