"""Products of the same rows become one call with the same bits, and norms and gates part of it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
from support.tolerance import F32_GROUPWISE, assert_near

from executorch_py.exir import ExecutorchBackendConfig, ExecutorchProgramManager, to_edge
from executorch_py.extension.llm.export.quantized_linear import quantize_layers
from executorch_py.runtime import Runtime

JOINT = "executorch_py::joint_qlinear_groups.out"
GATED = "executorch_py::gated_qlinear_groups.out"
SINGLE = "executorch_py::qlinear_groups.out"
NORM = "executorch_py::rms_norm.out"


class Block(torch.nn.Module):
    """Three products of the same rows, then a gate and a product with a residual."""

    def __init__(self, normalize: bool = False, activation: Any = torch.nn.functional.silu) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.q, self.k, self.v = (torch.nn.Linear(64, n) for n in (64, 32, 32))
        self.gate, self.up = (torch.nn.Linear(64, 96, bias=False) for _ in range(2))
        self.down = torch.nn.Linear(96, 64)
        self.norms = torch.nn.ModuleList(torch.nn.RMSNorm(64, 1e-5) for _ in range(2))
        self.normalize, self.activation = normalize, activation

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = self.norms[0](x) if self.normalize else x
        y = self.q(rows) + torch.cat([self.k(rows), self.v(rows)], -1)
        rows = self.norms[1](y) if self.normalize else y
        return y + self.down(self.activation(self.gate(rows)) * self.up(rows))


def lower(model: torch.nn.Module, *args: torch.Tensor) -> ExecutorchProgramManager:
    quantize_layers(model, 32)
    exported = torch.export.export(model.eval(), args)
    settings = ExecutorchBackendConfig(own_operators=True, target="executorch_py")
    return to_edge(exported).to_executorch(settings)


def calls(program: ExecutorchProgramManager) -> Counter[str]:
    plan = program.executorch_program.execution_plan[0]
    return Counter(f"{op.name}.{op.overload}" for op in plan.operators)


def run(program: ExecutorchProgramManager, x: torch.Tensor) -> torch.Tensor:
    method = Runtime.get().load_program(program.buffer).load_method("forward")
    result: torch.Tensor = method.execute([x])[0]
    return result


@pytest.mark.parametrize("rows", [1, 5, 200])
def test_joint_and_gated_products_have_the_bits_of_eager_torch(rows: int) -> None:
    model, x = Block(activation=torch.nn.functional.relu), torch.randn(rows, 64)
    program = lower(model, x)
    assert {JOINT, GATED, SINGLE} <= set(calls(program))
    assert torch.equal(run(program, x), model(x))


@pytest.mark.parametrize("activation", ["silu", "gelu"])
def test_norms_before_joint_products_become_part_of_them(activation: str) -> None:
    model = Block(normalize=True, activation=getattr(torch.nn.functional, activation))
    x = torch.randn(2, 7, 64)
    program = lower(model, x)
    names = calls(program)
    assert {JOINT, GATED} <= set(names) and NORM not in names
    assert_near(run(program, x), model(x), F32_GROUPWISE)


class Head(torch.nn.Module):
    """A norm and the only product that reads it; with `both`, the norm is a result as well."""

    def __init__(self, both: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.norm, self.head, self.both = torch.nn.RMSNorm(64), torch.nn.Linear(64, 40), both

    def forward(self, x: torch.Tensor) -> Any:
        rows = self.norm(x)
        return (self.head(rows), rows) if self.both else self.head(rows)


@pytest.mark.parametrize("both", [False, True])
def test_a_norm_that_others_read_stays_a_call(both: bool) -> None:
    model, x = Head(both), torch.randn(3, 64)
    program = lower(model, x)
    assert (NORM in calls(program)) is both
    wanted = model(x)
    assert_near(run(program, x), wanted[0] if both else wanted, F32_GROUPWISE)


def test_products_that_are_results_keep_their_names() -> None:
    class Outputs(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b, self.c = (torch.nn.Linear(32, 16) for _ in range(3))

        def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
            return {"first": self.a(x), "rest": self.b(x) + self.c(x)}

    model, x = Outputs(), torch.randn(2, 32)
    program = lower(model, x)
    method = Runtime.get().load_program(program.buffer).load_method("forward")
    assert [o.name for o in method.signature.outputs] == ["first", "rest"]
    got = method.execute([x])
    assert all(torch.equal(a, b) for a, b in zip(got, model(x).values(), strict=True))


def test_a_gate_of_different_rows_stays_two_products() -> None:
    class Two(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = torch.nn.Linear(32, 16), torch.nn.Linear(32, 16)

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.silu(self.a(x)) * self.b(y)

    program = lower(Two(), torch.randn(2, 32), torch.randn(2, 32))
    assert not {JOINT, GATED} & set(calls(program))
