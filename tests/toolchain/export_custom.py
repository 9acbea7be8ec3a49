"""Export of models that call operators of mylib, for test_op_library.py: export_custom.py SO… DIR.

A script, run in a process of its own: loaded operators stay for the life of a process. Users define
only the functional operators; torch gets the rest from the exporter.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch

import executorch_py
from executorch_py.exir import to_edge
from executorch_py.exir.error import ExportError

Registered = Callable[..., Any]


def custom_op(name: str, mutates_args: tuple[str, ...]) -> Callable[[Registered], Any]:
    """The decorator torch.library.custom_op, with a type."""
    return cast(
        Callable[[Registered], Any], torch.library.custom_op(name, mutates_args=mutates_args)
    )


@custom_op("mylib::softcap", mutates_args=())
def softcap(x: torch.Tensor, cap: float) -> torch.Tensor:
    return cap * torch.tanh(x / cap)


@custom_op("mylib::split_sign", mutates_args=())
def split_sign(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return x.clamp(min=0), x.clamp(max=0)


@custom_op("mylib::count", mutates_args=("seen",))
def count(seen: torch.Tensor, by: int) -> None:
    seen.add_(by)


@custom_op("mylib::weigh", mutates_args=())
def weigh(x: torch.Tensor, bias: torch.Tensor | None, weights: list[int]) -> torch.Tensor:
    return x * sum(weights) + (0 if bias is None else bias)


for operator in (softcap, weigh):
    operator.register_fake(lambda x, *rest: torch.empty_like(x))
split_sign.register_fake(lambda x: (torch.empty_like(x), torch.empty_like(x)))


class Capped(torch.nn.Module):
    def __init__(self, cap: float) -> None:
        super().__init__()
        self.cap = cap

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return softcap(x, self.cap) + 1


class Several(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(1, dtype=torch.int64))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        positive, negative = split_sign(x)
        count(self.seen, 2)
        return weigh(positive, negative, [1, 2, 3]), weigh(negative, None, [4]), self.seen + 0


def main(libraries: list[str], folder: Path) -> None:
    x = torch.linspace(-3, 3, 24).reshape(2, 12)
    try:
        to_edge(torch.export.export(Capped(2.0), (x,))).to_executorch()
        raise SystemExit("the operator has no kernel and was exported")
    except ExportError as error:
        print(error)
    for library in libraries:
        print(executorch_py.load_ops(library))
    dynamic = {"x": {1: torch.export.Dim("n", min=1, max=20000)}}
    for name, model, shapes in (
        ("softcap", Capped(2.0), dynamic),
        ("wrong_cap", Capped(-1.0), None),
        ("several", Several(), None),
    ):
        exported = torch.export.export(model, (x,), dynamic_shapes=shapes)
        to_edge(exported).to_executorch().save(str(folder / f"{name}.pte"))
    long = torch.linspace(-9, 9, 40000).reshape(2, 20000)
    several = Several()
    arrays = {"x": x, "long": long, "capped": Capped(2.0)(x), "long_capped": Capped(2.0)(long)}
    arrays.update({f"several_{i}": out for i, out in enumerate(several(x))})
    np.savez(folder / "eager.npz", **{name: value.numpy() for name, value in arrays.items()})


if __name__ == "__main__":
    main(sys.argv[1:-1], Path(sys.argv[-1]))
