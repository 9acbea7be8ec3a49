"""Programs with several methods, external weights or state.

Either exporter writes them (`package` is `executorch` or `executorch_py`: the names are the same),
either runtime runs them, in their own virtual environments, on files in folder / name.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

Calls = list[tuple[str, tuple[Any, ...]]]


def randn(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Linear(4, 8)
        self.second = nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.relu(self.first(x)))


class Depthwise(nn.Module):
    """A weight of shape (8, 1, 3, 3) in channels-last memory, whose dim order is ambiguous."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv = nn.Conv2d(8, 8, 3, groups=8)
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(x)


class Accumulate(nn.Module):
    def __init__(self, factor: float = 1.0) -> None:
        super().__init__()
        self.factor = factor
        self.register_buffer("total", torch.tensor([5.0, -2.0, 0.5]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total.add_(x * self.factor)
        return self.total * 2.0


@dataclass(frozen=True)
class Feature:
    """Methods, how they are lowered, and the calls to make on one loaded file, in order."""

    methods: Callable[[], dict[str, tuple[nn.Module, tuple[Any, ...]]]]
    calls: Calls
    config: Callable[[str], dict[str, Any]] = lambda package: {}
    constants: dict[str, Any] = field(default_factory=dict)
    data_file: bool = False
    together: bool = False  # all methods are loaded from one program, which lets them share memory

    def expected(self) -> list[list[Any]]:
        modules = {name: module for name, (module, _) in self.methods().items()}
        results = []
        for name, inputs in self.calls:
            value = modules[name](*inputs) if name in modules else self.constants[name]
            results.append([value.detach().clone() if isinstance(value, torch.Tensor) else value])
        return results


def one(module: Callable[[], nn.Module], x: torch.Tensor) -> Callable[[], Any]:
    return lambda: {"forward": (module(), (x,))}


def planned(**options: Any) -> Callable[[str], dict[str, Any]]:
    def config(package: str) -> dict[str, Any]:
        passes = importlib.import_module(f"{package}.exir.passes")
        return {"memory_planning_pass": passes.MemoryPlanningPass(**options)}

    return config


def banked(package: str) -> dict[str, Any]:
    module = importlib.import_module(f"{package}.exir.banked_memory_planning")
    banks = [module.Bank("sram", 64, 1), module.Bank("dram", 4096, 2)]
    target = module.TargetMemoryMap(banks)
    return {"memory_planning_pass": module.banked_memory_planning_pass(target)}


def initial_values(package: str) -> dict[str, Any]:
    passes = importlib.import_module(f"{package}.exir.passes.init_mutable_pass")
    return {"passes": [passes.InitializedMutableBufferPass(["total"])]}


class Remember(nn.Module):
    """Writes a slice of a cache that other methods read."""

    def __init__(self, cache: nn.Module) -> None:
        super().__init__()
        self.cache = cache

    def forward(self, x: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        self.cache.rows[position] = x
        return self.cache.rows.cumsum(0)


class Cache(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("rows", torch.zeros(6, 3))


def prefill_and_decode() -> dict[str, tuple[nn.Module, tuple[Any, ...]]]:
    cache = Cache()
    many, single = (randn(3, 3), torch.arange(3)), (randn(1, 3), torch.tensor([0]))
    return {"prefill": (Remember(cache), many), "decode": (Remember(cache), single)}


def counters() -> dict[str, tuple[nn.Module, tuple[Any, ...]]]:
    return {"up": (Counter(1.0), (S,)), "down": (Counter(-1.0), (S,))}


class Counter(nn.Module):
    def __init__(self, sign: float) -> None:
        super().__init__()
        self.sign = sign
        self.register_buffer("count", torch.zeros(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count.add_(x * self.sign)
        return self.count * 2.0


X, S = randn(2, 4), torch.tensor([1.0, 2.0, 3.0])
IMAGE = randn(1, 8, 5, 5).to(memory_format=torch.channels_last)
FEATURES = {
    "external_weights": Feature(
        one(Net, X),
        [("forward", (X,))],
        lambda package: {"external_constants": True},
        data_file=True,
    ),
    "external_channels_last_weights": Feature(
        one(Depthwise, IMAGE),
        [("forward", (IMAGE,))],
        lambda package: {"external_constants": True},
        data_file=True,
    ),
    "methods_and_constants": Feature(
        lambda: {"net": (Net(), (X,)), "accumulate": (Accumulate(), (S,))},
        [("net", (X,)), ("get_max_seq_len", ()), ("get_name", ()), ("get_scale", ())],
        constants={"get_max_seq_len": 128, "get_name": "net", "get_scale": 0.5},
    ),
    "unplanned_inputs_and_outputs": Feature(
        one(Net, X),
        [("forward", (X,)), ("forward", (X * 2,))],
        planned(alloc_graph_input=False, alloc_graph_output=False),
    ),
    "initial_values_of_state": Feature(
        one(Accumulate, S), [("forward", (S,)), ("forward", (S,))], initial_values
    ),
    # State has the same address in the memory of every method; the caller chooses whether they
    # share it.
    "shared_state": Feature(
        lambda: {"add": (Accumulate(), (S,)), "subtract": (Accumulate(-1.0), (S,))},
        [("add", (S,)), ("add", (S,))],
        lambda package: initial_values(package) | planned(share_mutable_buffers=True)(package),
    ),
    "prefill_and_decode": Feature(
        prefill_and_decode,
        [
            ("prefill", (randn(3, 3), torch.arange(3))),
            ("decode", (randn(1, 3), torch.tensor([3]))),
            ("decode", (randn(1, 3) * 2, torch.tensor([4]))),
            ("prefill", (randn(3, 3) + 1, torch.arange(3))),
            ("decode", (randn(1, 3), torch.tensor([5]))),
        ],
        planned(share_mutable_buffers=True),
        together=True,
    ),
    # A module never shares the memory of its methods, even if the file does.
    "methods_with_state_of_their_own": Feature(
        counters, [("up", (S,)), ("down", (S,)), ("up", (S,)), ("down", (S * 3,)), ("up", (S,))]
    ),
    "external_weights_and_state": Feature(
        lambda: {"net": (Net(), (X,)), "up": (Counter(1.0), (S,))},
        [("net", (X,)), ("up", (S,)), ("net", (X * 2,)), ("up", (S,))],
        lambda package: {"external_constants": True, "emit_mutable_buffer_names": True},
        data_file=True,
    ),
    "unaligned_segments_and_views_kept": Feature(
        one(Net, X),
        [("forward", (X,))],
        lambda p: {"segment_alignment": 1, "remove_view_copy": False},
    ),
    "memory_aligned_to_64": Feature(one(Net, X), [("forward", (X,))], planned(alignment=64)),
    "two_banks": Feature(one(Net, X), [("forward", (X,))], banked),
    "outputs_given_by_the_caller": Feature(
        one(Net, X), [("forward", (X,))], planned(alloc_graph_output=False)
    ),
    "updates_in_place": Feature(
        counters, [("up", (S,)), ("up", (S,))], lambda package: {"run_reinplace_pass": True}
    ),
    "delegate_data_inside": Feature(
        one(Net, X), [("forward", (X,))], lambda package: {"extract_delegate_segments": False}
    ),
    "aligned_to_64": Feature(
        one(Net, X),
        [("forward", (X,))],
        lambda package: {"constant_tensor_alignment": 64, "segment_alignment": 4096},
    ),
}


def write(package: str, name: str, folder: Path) -> None:
    exir, feature = importlib.import_module(f"{package}.exir"), FEATURES[name]
    exported = {
        method: torch.export.export(module, inputs)
        for method, (module, inputs) in feature.methods().items()
    }
    edge = exir.to_edge(exported, constant_methods=feature.constants or None)
    config = exir.ExecutorchBackendConfig(**feature.config(package))
    program = edge.to_executorch(config)
    (folder / name).mkdir()
    program.save(str(folder / name / "program.pte"))
    if feature.data_file:
        program.write_tensor_data_to_file(str(folder / name))


def copied(outputs: list[Any]) -> list[Any]:
    """Outputs may lie in planned memory, which the next run writes."""
    return [v.clone() if isinstance(v, torch.Tensor) else v for v in outputs]


def run(package: str, name: str, folder: Path) -> None:
    """Writes results.pt: the flat outputs of the feature's calls, in order."""
    portable = importlib.import_module(f"{package}.extension.pybindings.portable_lib")
    runtime = importlib.import_module(f"{package}.runtime")
    feature, place = FEATURES[name], folder / name
    paths = [str(place / "program.pte"), *map(str, place.glob("*.ptd"))]
    if feature.together:
        program = runtime.Runtime.get().load_program(paths[0])
        loaded = {method: program.load_method(method) for method, _ in feature.calls}
        results = [copied(loaded[method].execute(list(x))) for method, x in feature.calls]
    else:
        module = portable._load_for_executorch(*paths)
        results = [copied(module.run_method(method, x)) for method, x in feature.calls]
    torch.save(results, place / "results.pt")
