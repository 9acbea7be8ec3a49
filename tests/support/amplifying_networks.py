"""Networks that amplify one rounding to a visible part of their results, and their quantization.

Weights and inputs are random, with seeds. Relies on the project's own quantizer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from executorch_py.backends.xnnpack import XnnpackPartitioner
from executorch_py.exir import ExecutorchBackendConfig, to_edge_transform_and_lower
from executorch_py.exir.program.executorch import ExecutorchProgramManager
from executorch_py.quantizer import XNNPACKQuantizer, calibrate, convert_pt2e, prepare_pt2e
from support.quantized_models import SmallNet

Network = tuple[Callable[[], nn.Module], tuple[torch.Tensor, ...]]


def randn(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1))


class Block(nn.Module):
    """A convolution whose result is brought back to the size of its input."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(8, 8, 3, padding=1)
        self.norm = nn.InstanceNorm2d(8, affine=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.norm(self.conv(x))) - 0.5 * x


class Deep(nn.Module):
    """Untrained and deep: one rounding at the start becomes a tenth of the result."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.blocks = nn.Sequential(*(Block() for _ in range(16)))
        self.last = nn.Linear(128, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = nn.functional.adaptive_avg_pool2d(self.blocks(self.first(x)), 4)
        return self.last(y.flatten(1))


class Recurrent(nn.Module):
    """Cells that round the same state again and again; both results are given."""

    def __init__(self, kind: type[nn.Module] = nn.GRU, layers: int = 1) -> None:
        super().__init__()
        self.cells = kind(12, 24, layers, batch_first=True)  # type: ignore[call-arg]
        self.head = nn.Linear(24, 5)

    def forward(self, x: torch.Tensor) -> Any:
        y, _ = self.cells(x)
        return self.head(y[:, -1]), y


class Attention(nn.Module):
    """Attention with a bias for each pair of tokens and a hard swish, as in LevIT."""

    def __init__(self, width: int = 32, heads: int = 4, tokens: int = 16) -> None:
        super().__init__()
        self.qkv, self.heads = nn.Linear(width, 3 * width), heads
        self.bias = nn.Parameter(torch.randn(heads, tokens, tokens))
        self.out = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, n, c = x.shape
        q, k, v = self.qkv(x).reshape(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2) * (c // self.heads) ** -0.5 + self.bias
        y = (scores.softmax(-1) @ v).transpose(1, 2).reshape(b, n, c)
        return x + self.out(nn.functional.hardswish(y))


class Several(nn.Module):
    """Outputs that end in a quantized layer, in float operators, and in sums of both."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(32, 32), nn.Linear(32, 8)

    def forward(self, x: torch.Tensor) -> Any:
        y = self.a(x).relu()
        z = self.b(y)
        return z, z.softmax(-1), torch.exp(z) + y.sum(-1, keepdim=True), z.norm(dim=-1)


class Chaos(nn.Module):
    """Sines of sines, which turn the rounding of one float into the whole result."""

    def __init__(self, n_layers: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(*(nn.Linear(32, 32) for _ in range(n_layers)))
        for layer in self.layers:
            nn.init.normal_(layer.weight, std=0.6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = torch.sin(layer(x) * 2)
        return x


def attention(n_layers: int = 4) -> nn.Module:
    return nn.Sequential(*(Attention() for _ in range(n_layers)))


NETWORKS: dict[str, Network] = {
    "small": (SmallNet, (randn(1, 3, 16, 16),)),
    "deep": (Deep, (randn(1, 3, 16, 16),)),
    "gru": (Recurrent, (randn(2, 9, 12),)),
    "attention": (attention, (randn(1, 16, 32),)),
    "several": (Several, (randn(1, 16, 32),)),
}
LOWERINGS = ("xnnpack", "portable", "integers")


def quantized(network: Network, config: Any) -> nn.Module:
    """The converted module of a network that saw three random inputs."""
    make, inputs = network
    torch.manual_seed(0)
    exported = torch.export.export(make().eval(), inputs).module()
    prepared = prepare_pt2e(exported, XNNPACKQuantizer().set_global(config))
    more = [tuple(_another(x) for x in inputs) for _ in range(2)]
    calibrate(prepared, [inputs, *more], progress=False)
    return convert_pt2e(prepared)


def _another(x: torch.Tensor) -> torch.Tensor:
    return torch.randn_like(x) if x.is_floating_point() else x.flip(-1)


def lowered(
    model: nn.Module, inputs: Sequence[torch.Tensor], lowering: str
) -> ExecutorchProgramManager:
    """The program of XNNPACK, of portable kernels, or of the project's integer kernels."""
    with torch.no_grad():
        exported = torch.export.export(model, tuple(inputs))
    partitioner = [XnnpackPartitioner()] if lowering == "xnnpack" else []
    edge = to_edge_transform_and_lower(exported, partitioner=partitioner)
    return edge.to_executorch(ExecutorchBackendConfig(own_operators=lowering == "integers"))
