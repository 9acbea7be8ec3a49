"""Control flow as jumps and moves: every operator gives eager's results, run after run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._higher_order_ops.map import map as map_over
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.export import Dim

from executorch_py.exir import schema as s
from executorch_py.exir import to_edge
from executorch_py.runtime import Runtime

ONES = torch.ones(3)
Check = Callable[..., Any]


def test_cond_takes_the_branch_that_its_predicate_says(check: Check) -> None:
    def model(p: Any, x: Any) -> Any:
        return torch.cond(p, lambda t: t.sin() + 1, lambda t: t * t, (x,))

    check(model, (torch.tensor(True), ONES), (torch.tensor(False), ONES * 2))


def test_results_of_two_conds_do_not_overwrite_each_other(check: Check) -> None:
    def model(x: Any) -> Any:
        a = torch.cond(x.sum() > 0, lambda t: t + 1, lambda t: t - 1, (x,))
        b = torch.cond(x.sum() > 1, lambda t: t * 3, lambda t: t * 2, (x,))
        return a + b, a

    check(model, (ONES,), (-ONES,), (ONES * 0.1,))


def test_conds_nest(check: Check) -> None:
    def model(x: Any) -> Any:
        def inner(t: Any) -> Any:
            return torch.cond(t.sum() > 2, lambda u: u.cos(), lambda u: u.sin(), (t,)) + t

        return torch.cond(x.sum() > 0, inner, lambda t: t - 1, (x,))

    check(model, (ONES,), (ONES * 0.1,), (-ONES,))


def test_map_takes_several_tensors_and_gives_several(check: Check) -> None:
    def model(x: Any, y: Any, z: Any) -> Any:
        return map_over(lambda t, z: (t[0] * t[1] + z, t[0] - t[1]), (x, y), z)

    first = (torch.randn(4, 3), torch.randn(4, 3), torch.randn(3))
    check(model, first, first)


def test_scan_carries_over_dynamic_lengths(check: Check) -> None:
    def model(c: Any, xs: Any) -> Any:
        return scan(lambda c, x: (c + x, c * x), c, xs)

    calls = [(torch.ones(3), torch.randn(n, 3)) for n in (5, 8, 2)]
    check(model, *calls, dynamic_shapes=(({}, {0: Dim("n", min=2, max=9)}),))


def test_while_loop_runs_as_often_as_its_condition_holds(check: Check) -> None:
    def model(x: Any, n: Any) -> Any:
        start = torch.zeros((), dtype=torch.int64)
        return while_loop(lambda i, y: i < n.clone(), lambda i, y: (i + 1, y * 2 + i), (start, x))

    check(model, *[(ONES * k, torch.tensor(k)) for k in (4, 0, 7, 1)])


def test_while_loop_carries_integers(check: Check) -> None:
    def model(x: Any) -> Any:
        return while_loop(lambda i, y: i < 5, lambda i, y: (i + 1, y.sin() + 1), (0, x))

    check(model, (ONES,), (ONES * 3,))


def test_while_loop_swaps_carried_tensors(check: Check) -> None:
    def model(x: Any, y: Any) -> Any:
        start = torch.zeros((), dtype=torch.int64)
        return while_loop(
            lambda i, a, b: i < 3, lambda i, a, b: (i + 1, b.clone(), a + b), (start, x, y)
        )

    check(model, (ONES, ONES * 2), (ONES * 5, ONES))


def test_loops_nest_and_start_over(check: Check) -> None:
    def model(x: Any) -> Any:
        def body(i: Any, y: Any) -> Any:
            return i + 1, map_over(lambda row: row * 2, y)

        return while_loop(lambda i, y: i < 3, body, (torch.tensor(0), x))

    check(model, (torch.ones(2, 3),), (torch.ones(2, 3),))


@pytest.mark.parametrize("nested", [False, True])
def test_loops_over_nothing_have_no_round(nested: bool) -> None:
    class Model(torch.nn.Module):
        def forward(self, carry: torch.Tensor, xs: torch.Tensor) -> Any:
            def rows(x: torch.Tensor) -> Any:
                return map_over(lambda y: y * 2, x) if nested else x * 2

            final, seen = scan(lambda c, x: (c + x.sum(), c * 2), carry, xs)
            return map_over(rows, xs), final, seen

    size = {0: Dim("n", min=0, max=8), 1: Dim("m", min=0, max=5)}
    inputs = (ONES, torch.ones(4, 3, 2))
    exported = torch.export.export(Model(), inputs, dynamic_shapes=(None, size))
    method = Runtime.get().load_program(to_edge(exported).to_executorch().buffer)
    for n in (4, 0, 8, 0, 1):
        rows, final, seen = method.run(ONES, torch.ones(n, 2, 2))
        assert torch.equal(rows, torch.full((n, 2, 2), 2.0))
        assert torch.equal(final, ONES + 4 * n)
        assert torch.equal(seen, (1 + 4 * torch.arange(n))[:, None] * 2.0 * torch.ones(n, 3))


def test_loop_counters_are_values_of_their_own(check: Check) -> None:
    program = check(lambda x: map_over(lambda row: row + 0, x), (torch.ones(1, 3),))
    plan = program.executorch_program.execution_plan[0]
    written = {
        i.instr_args.move_to
        for i in plan.chains[0].instructions
        if isinstance(i.instr_args, s.MoveCall)
    }
    literals = [i for i, v in enumerate(plan.values) if v.val == s.Int(0) and i not in written]
    assert len(literals) == 1, "the literal 0 is one value, the counter another"


def test_jumps_stay_inside_the_chain(check: Check) -> None:
    def model(p: Any, x: Any) -> Any:
        return torch.cond(p, lambda t: t + 1, lambda t: t - 1, (x,))

    program = check(model, (torch.tensor(True), ONES))
    (chain,) = program.executorch_program.execution_plan[0].chains
    for instruction in chain.instructions:
        if isinstance(instruction.instr_args, s.JumpFalseCall):
            assert 0 <= instruction.instr_args.destination_instruction <= len(chain.instructions)
