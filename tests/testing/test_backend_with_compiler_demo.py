"""The delegate BackendWithCompilerDemo: chains that it runs, and payloads that it refuses."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch
from support.tolerance import F32, assert_near

from executorch_py import errors
from executorch_py.exir import to_edge
from executorch_py.exir.backend.backend_api import to_backend
from executorch_py.exir.backend.test.backend_with_compiler_demo import BackendWithCompilerDemo
from executorch_py.exir.schema import CompileSpec
from executorch_py.runtime import Runtime

SQUARES = (torch.tensor([[1.0, 2], [3, 4]]), torch.tensor([[0.5, -1], [2, 1]]))


class Sin(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sin(x)


class MatMul(torch.nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.mm(a, b)


class MatMulAdd(torch.nn.Module):
    def forward(self, a: torch.Tensor, x: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.mm(a, x) + b


class AddSin(torch.nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.sin(a + b)


def delegated(
    model: torch.nn.Module, inputs: tuple[torch.Tensor, ...], specs: list[CompileSpec] | None = None
) -> bytes:
    edge = to_edge(torch.export.export(model, inputs)).exported_program()
    lowered = to_backend(BackendWithCompilerDemo.__name__, edge, specs or [])

    class Around(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lowered = lowered

        def forward(self, *values: torch.Tensor) -> torch.Tensor:
            return self.lowered(*values)

    return bytes(to_edge(torch.export.export(Around(), inputs)).to_executorch().buffer)


def run(buffer: bytes, inputs: tuple[torch.Tensor, ...]) -> torch.Tensor:
    method = Runtime.get().load_program(buffer).load_method("forward")
    return torch.from_numpy(np.asarray(method.execute([x.numpy() for x in inputs])[0]))


@pytest.mark.parametrize(
    ("model", "inputs"),
    [
        pytest.param(MatMul(), SQUARES, id="mm"),
        pytest.param(MatMul(), (torch.ones(2, 5), torch.ones(5, 3)), id="mm of other sizes"),
        pytest.param(MatMulAdd(), (*SQUARES, torch.ones(2, 2)), id="mm and add"),
    ],
)
def test_a_chain_gives_eagers_numbers(
    model: torch.nn.Module, inputs: tuple[torch.Tensor, ...]
) -> None:
    assert_near(run(delegated(model, inputs), inputs), model(*inputs), F32)


@pytest.mark.parametrize("size", [(1,), (2, 3), ()])
def test_a_sine_has_two_terms_of_the_series(size: tuple[int, ...]) -> None:
    x = torch.linspace(-1, 1, max(1, int(np.prod(size)))).reshape(size)
    result = run(delegated(Sin(), (x,)), (x,))
    assert_near(result, x - x**3 / 6, F32)


def test_a_further_operator_reads_the_result_before_it() -> None:
    x = torch.full((3,), 0.25)
    sum_ = x + x
    assert_near(run(delegated(AddSin(), (x, x.clone())), (x, x.clone())), sum_ - sum_**3 / 6, F32)


@pytest.mark.parametrize("value", [bytes([6, 0, 0, 0]), bytes([6])])
def test_a_compile_specification_above_four_is_an_invalid_argument(value: bytes) -> None:
    x = torch.zeros(6)
    specs = [CompileSpec("max_value", value)]
    with pytest.raises(errors.InvalidArgument, match="'max_value': expected at most 4, got 6"):
        run(delegated(Sin(), (x,), specs), (x,))


@pytest.mark.parametrize(
    ("found", "forged", "error", "message"),
    [
        (b"version:0", b"version:1", errors.DelegateInvalidCompatibility, "expected 0, got 1"),
        (b"1version", b"9version", errors.InvalidProgram, "as many entries as it has"),
        (b"1version", b"0version", errors.InvalidProgram, "1 or more, got 0"),
        (
            b"1version",
            b"xversion",
            errors.InvalidProgram,
            "'<count>version:<number>#', got 'xversion:0#op:demo::aten.sin.def'",
        ),
        (
            b"aten.sin",
            b"aten.\x1b\0\xff",
            errors.NotSupported,
            "got 'aten.???.default, numel:4, dtype'",
        ),
        (
            b"torch.float32",
            b"torch.float64",
            errors.NotSupported,
            "expected dtype torch.float32, got ', dtype:torch.float64<debug_hand'",
        ),
        (b"numel:4", b"numel:5", errors.NotSupported, "with 5 elements, got 4"),
        (
            b"numel:4",
            b"numel:x",
            errors.InvalidProgram,
            "expected a number of elements, got 'x, dtype:torch.float32<debug_han'",
        ),
        (
            b"aten.sin.default, numel:4, dtype:torch.float32<debug_handle>",
            b"aten.add.Tensor, numel:4, dtype:torch.float32<debug_handle>x",
            errors.InvalidProgram,
            "expected a debug handle and '#', got 'x",
        ),
        (b"<debug_handle>", b"<DEBUG_handle>", errors.NotSupported, "expected dtype"),
    ],
)
def test_a_damaged_payload_is_refused(
    found: bytes, forged: bytes, error: type[Exception], message: str
) -> None:
    x = torch.ones(4)
    buffer = delegated(Sin(), (x,))
    assert buffer.count(found) == 1
    with pytest.raises(error, match=re.escape(message)):
        run(buffer.replace(found, forged), (x,))


def test_a_chain_that_reads_more_than_it_is_given_is_refused() -> None:
    x = torch.ones(4)
    buffer = delegated(AddSin(), (x, x.clone())).replace(b"aten.sin.default", b"aten.add.Tensor\0")
    with pytest.raises(errors.InvalidProgram, match=r"expected a number of elements, got '\?, num"):
        run(buffer, (x, x.clone()))


@pytest.mark.parametrize(
    ("found", "forged", "message"),
    [
        (
            b"aten.sin.default, numel:4",
            b"aten.sin.default, numel:5",
            "an element-wise operator with 4 elements, got aten.sin.default with 5",
        ),
        (b"aten.add.Tensor", b"aten.mm.default", "[n, k] and [k, m], got [4] and [4]"),
    ],
)
def test_a_chain_whose_operators_do_not_fit_is_refused(
    found: bytes, forged: bytes, message: str
) -> None:
    x = torch.ones(4)
    buffer = delegated(AddSin(), (x, x.clone()))
    assert buffer.count(found) == 1
    with pytest.raises(errors.NotSupported, match=re.escape(message)):
        run(buffer.replace(found, forged), (x, x.clone()))
