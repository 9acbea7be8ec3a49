"""Scratch that small programs ask for: it follows the work, so that they fit small devices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from support.tolerance import F32, assert_near
from torch.nn import functional

from executorch_py.exir import to_edge
from executorch_py.runtime import Runtime

KIB = 1024


def scratch_of(model: torch.nn.Module, *inputs: Any, dynamic: Any = None, threads: int = 1) -> int:
    """Bytes of scratch of the program of a model, whose results equal eager torch's."""
    exported = torch.export.export(model.eval(), inputs, dynamic_shapes=dynamic)
    buffer = to_edge(exported).to_executorch().buffer
    method = Runtime.get().load_program(buffer, n_threads=threads).load_method("forward")
    with torch.no_grad():
        assert_near(method.execute(list(inputs))[0], model(*inputs), F32)
    return method.memory["scratch"]


class Product(torch.nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a @ b


class Attention(torch.nn.Module):
    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return functional.scaled_dot_product_attention(q, k, v)


SMALL: dict[str, tuple[Callable[[], torch.nn.Module], tuple[tuple[int, ...], ...], int]] = {
    "linear 4 to 3": (lambda: torch.nn.Linear(4, 3), ((1, 4),), KIB),
    "linear 4 to 3, eight rows": (lambda: torch.nn.Linear(4, 3), ((8, 4),), KIB),
    "linear 64 to 10": (lambda: torch.nn.Linear(64, 10), ((1, 64),), KIB),
    "product of computed matrices": (Product, ((4, 6), (6, 5)), KIB),
    "pointwise convolution": (lambda: torch.nn.Conv2d(4, 4, 1), ((1, 4, 6, 6),), KIB),
    "convolution 3 x 3": (lambda: torch.nn.Conv2d(2, 4, 3), ((1, 2, 8, 8),), 6 * KIB),
    "depthwise convolution": (lambda: torch.nn.Conv2d(4, 4, 3, groups=4), ((1, 4, 8, 8),), KIB),
    "transposed convolution": (lambda: torch.nn.ConvTranspose2d(2, 2, 2), ((1, 2, 4, 4),), 4 * KIB),
    "attention over four keys": (Attention, ((1, 1, 4, 8),) * 3, 6 * KIB),
}


@pytest.mark.parametrize("name", SMALL)
def test_a_small_program_needs_little_scratch(name: str) -> None:
    torch.manual_seed(0)
    make, shapes, most = SMALL[name]
    found = scratch_of(make(), *(torch.rand(shape) for shape in shapes))
    assert found <= most, f"{name}: expected at most {most} bytes of scratch, got {found}"


def test_scratch_grows_with_the_work() -> None:
    torch.manual_seed(0)
    found = [scratch_of(Product(), torch.rand(n, n), torch.rand(n, n)) for n in (8, 32, 128, 512)]
    assert found == sorted(found) and found[0] < found[-1]


def test_each_thread_has_scratch_of_its_own() -> None:
    torch.manual_seed(0)
    inputs = torch.rand(64, 64).half().float(), torch.rand(64, 64)
    one, three = (scratch_of(Product(), *inputs, threads=n) for n in (1, 3))
    assert three == 3 * one


def test_other_sizes_of_a_dynamic_product_fit() -> None:
    torch.manual_seed(0)
    rows = torch.export.Dim("rows", min=1, max=64)
    model = torch.nn.Linear(4, 3).eval()
    exported = torch.export.export(model, (torch.rand(8, 4),), dynamic_shapes=({0: rows},))
    buffer = to_edge(exported).to_executorch().buffer
    method = Runtime.get().load_program(buffer, n_threads=1).load_method("forward")
    assert method.memory["scratch"] <= 4 * KIB
    for n in (1, 2, 13, 14, 15, 64):
        x = torch.rand(n, 4)
        with torch.no_grad():
            assert_near(method.execute([x])[0], model(x), F32)
