"""Random operators from export to run: supported models, and reproducible seeds."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from executorch_py import exir
from executorch_py.runtime import Runtime

X = torch.full((4, 256), 0.5)

DRAWS: dict[str, Callable[[Tensor], Tensor]] = {
    "rand": lambda x: torch.rand(4, 256) + x,
    "rand_like": lambda x: torch.rand_like(x),
    "randn_like": lambda x: torch.randn_like(x),
    "randint": lambda x: torch.randint(0, 10, (4, 256)) + x,
    "randint_like": lambda x: torch.randint_like(x, 3, 9),
    "randperm": lambda x: torch.randperm(256) + x,
    "multinomial": lambda x: torch.multinomial(x, 64).float(),
    "bernoulli": lambda x: torch.bernoulli(x),
    "bernoulli_p": lambda x: x.clone().bernoulli_(0.3),
    "normal": lambda x: torch.normal(x, x),
    "normal_": lambda x: x.clone().normal_(1.0, 2.0),
    "uniform_": lambda x: x.clone().uniform_(1.0, 2.0),
    "exponential_": lambda x: x.clone().exponential_(),
    "cauchy_": lambda x: x.clone().cauchy_(),
    "geometric_": lambda x: x.clone().geometric_(0.5),
    "log_normal_": lambda x: x.clone().log_normal_(),
    "gumbel_softmax": lambda x: nn.functional.gumbel_softmax(x),
    "rrelu": lambda x: nn.functional.rrelu(x - 1, training=True),
}


class Drawing(nn.Module):
    def __init__(self, draw: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.draw = draw

    def forward(self, x: Tensor) -> Tensor:
        return self.draw(x)


def _load(draw: Callable[[Tensor], Tensor]) -> exir.ExecutorchProgramManager:
    return exir.to_edge(torch.export.export(Drawing(draw), (X,))).to_executorch()


@pytest.mark.parametrize("name", DRAWS)
def test_a_model_that_draws_runs_and_its_numbers_resemble_eager_s(name: str) -> None:
    program = _load(DRAWS[name])
    method = Runtime.get().load_program(program.buffer).load_method("forward")
    (first,), (second,) = method.execute([X]), method.execute([X])
    torch.manual_seed(0)
    expected = DRAWS[name](X)
    assert first.shape == expected.shape and first.dtype == expected.dtype
    assert not torch.equal(first, second), "a second run draws anew"
    method.seed(0)
    assert torch.equal(method.execute([X])[0], first), "seed 0 is what a method starts with"
    method.seed(1)
    assert not torch.equal(method.execute([X])[0], first)
    for q in (0.25, 0.5, 0.75):  # cauchy has no mean: compare quantiles
        a, b = (t.double().flatten().quantile(q) for t in (first, expected))
        spread = (expected.double().quantile(0.9) - expected.double().quantile(0.1)).abs()
        assert abs(a - b) <= 0.35 * spread + 1e-9 or name in ("bernoulli", "bernoulli_p")


def test_two_draws_of_one_run_are_two_draws() -> None:
    program = _load(lambda x: torch.stack([torch.rand(64), torch.rand(64)]) + x[0, 0])
    a, b = program.run(X)
    assert not torch.equal(a, b)


def test_a_draw_is_never_folded_into_a_constant() -> None:
    program = _load(lambda x: torch.rand(4, 256).exp() * x)
    method = Runtime.get().load_program(program.buffer).load_method("forward")
    assert not torch.equal(method.execute([X])[0], method.execute([X])[0])


def test_two_loads_draw_the_same_numbers() -> None:
    program = _load(lambda x: torch.rand_like(x))
    runs = [
        Runtime.get().load_program(program.buffer).load_method("forward").execute([X])[0]
        for _ in range(2)
    ]
    assert torch.equal(*runs)
