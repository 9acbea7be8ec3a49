"""Epilogues are parsed when a method is loaded; tensors may be known only in a run."""

from __future__ import annotations

import numpy as np
import pytest
from support.program_maker import MethodMaker, program_bytes

from executorch_py import errors
from executorch_py.exir import schema
from executorch_py.runtime import Runtime

X = np.array([-2.0, -0.5, 0.0, 1.5], np.float32)
Y = np.array([1.0, 1.0, -3.0, 2.0], np.float32)


def chain(method: MethodMaker, x: int, text: int, numbers: list[float], tensors: list[int]) -> int:
    out = method.tensor((4,))
    listed = method.value(schema.DoubleList(numbers)), method.value(schema.TensorList(tensors))
    method.call("executorch_py::chain.out", x, text, *listed, out, out)
    return out


def test_a_tensor_that_an_instruction_replaces_is_looked_up_in_each_run() -> None:
    method = MethodMaker()
    x, y, residual = (method.tensor((4,)) for _ in range(3))
    method.instructions.append(schema.Instruction(schema.MoveCall(y, residual)))
    out = chain(method, x, method.scalar("add:0_ relu mul:s_"), [2.0], [residual])
    method.inputs, method.outputs = [x, y], [out]
    loaded = Runtime.get().load_program(program_bytes(method)).load_method("forward")
    for given in (Y, Y + 1):
        np.testing.assert_array_equal(loaded.execute([X, given])[0], 2 * np.maximum(X + given, 0))


def test_a_wrong_epilogue_is_refused_at_load() -> None:
    method = MethodMaker()
    x = method.tensor((4,))
    method.inputs, method.outputs = [x], [chain(method, x, method.scalar("swish"), [], [])]
    program = Runtime.get().load_program(program_bytes(method))
    with pytest.raises(errors.ExecutorchError, match="epilogue: there is no step 'swish'"):
        program.load_method("forward")


def test_a_text_that_an_instruction_replaces_is_refused_at_load() -> None:
    method = MethodMaker()
    x, text = method.tensor((4,)), method.scalar("relu")
    method.instructions.append(schema.Instruction(schema.MoveCall(method.scalar("abs"), text)))
    method.inputs, method.outputs = [x], [chain(method, x, text, [], [])]
    program = Runtime.get().load_program(program_bytes(method))
    with pytest.raises(errors.ExecutorchError, match=r"expected a text .* got no text"):
        program.load_method("forward")
