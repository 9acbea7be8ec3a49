"""Method.trace: copies of the results of every instruction, in the order of the run."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from executorch_py.exir import to_edge
from executorch_py.runtime import Method, Runtime


def method_of(model: torch.nn.Module, *inputs: torch.Tensor) -> Method:
    program = to_edge(torch.export.export(model.eval(), inputs)).to_executorch()
    return Runtime.get().load_program(program.buffer).load_method("forward")


class Steps(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.exp(torch.sort(x * 2, descending=True)[0]).sum(0)


def test_a_trace_has_the_results_of_each_instruction_although_memory_is_reused() -> None:
    x = torch.randn(3, 8)
    method = method_of(Steps(), x)
    trace = method.trace([x])
    by_operator = {operator: results for _, operator, results in trace}
    assert [index for index, _, _ in trace] == sorted(index for index, _, _ in trace)
    (doubled,) = by_operator["aten::mul.out"]
    assert torch.equal(doubled, x * 2)
    (pair,) = by_operator["aten::sort.values"]
    assert torch.equal(pair[0], (x * 2).sort(descending=True)[0])
    ((result,),) = [results for _, operator, results in trace[-1:]]
    assert torch.equal(result, method.execute([x])[0])


class Branches(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda t: t + 1, lambda t: t - 1, (x,))


def test_jumps_have_no_results() -> None:
    x = torch.ones(3)
    trace = method_of(Branches(), x).trace([x])
    assert [(name, len(results)) for _, name, results in trace] == [
        ("aten::sum.IntList_out", 1),
        ("aten::gt.Scalar_out", 1),
        ("jump", 0),
        ("aten::add.out", 1),
        ("jump", 0),
    ]


def test_a_trace_gives_arrays_for_arrays() -> None:
    x = torch.randn(3, 8)
    trace = method_of(Steps(), x).trace([x.numpy()])
    assert isinstance(trace[-1][2][0], np.ndarray)


def test_a_trace_checks_its_inputs() -> None:
    x = torch.randn(3, 8)
    with pytest.raises(ValueError, match="input 0"):
        method_of(Steps(), x).trace([x.double()])
