"""Names in a file's signature: those of the model, whatever computes the values in the end."""

from __future__ import annotations

import dataclasses
import json
from collections import OrderedDict, namedtuple
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import fx, nn
from torch.export import export

from executorch_py.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch_py.exir import (
    ExecutorchBackendConfig,
    ExecutorchProgramManager,
    to_edge,
    to_edge_transform_and_lower,
)
from executorch_py.exir.ir.graph import source_line
from executorch_py.exir.ir.stack_trace import assigned_variable, is_users, trace_frames
from executorch_py.runtime import Runtime, Signature

X = torch.ones(2, 3)


@dataclasses.dataclass
class Result:
    """A dataclass as models return it."""

    logits: torch.Tensor
    hidden: torch.Tensor | None = None


torch.export.register_dataclass(Result)
Pair = namedtuple("Pair", ["left", "right"])


class Model(nn.Module):
    """A layer whose result `logits` a function puts in a structure."""

    def __init__(self, structure: Callable[[torch.Tensor, torch.Tensor], Any]) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)
        self.structure = structure

    def forward(self, input: torch.Tensor) -> Any:
        logits = self.layer(input).relu()
        return self.structure(logits, input)


def programs(model: nn.Module) -> list[ExecutorchProgramManager]:
    """The model as portable calls, with this project's operators, and delegated."""
    exported = export(model, (X,))
    lowered = to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()])
    own = ExecutorchBackendConfig(own_operators=True)
    return [
        to_edge(exported).to_executorch(),
        to_edge(exported).to_executorch(own),
        lowered.to_executorch(),
    ]


def signature(program: ExecutorchProgramManager) -> Signature:
    return Runtime.get().load_program(program.buffer).signature


@pytest.mark.parametrize(
    ("structure", "names"),
    [
        (lambda logits, x: logits, ["logits"]),
        (lambda logits, x: logits + 1, ["output_0"]),
        (lambda logits, x: (logits, x + 1), ["logits", "output_1"]),
        (lambda logits, x: (logits + 1, logits, x), ["output_0", "logits", "input"]),
        (lambda logits, x: {"scores": logits, "shifted": x + 1}, ["scores", "shifted"]),
        (lambda logits, x: {"all": [logits, {"x": x * 2}]}, ["all.0", "all.1.x"]),
        (lambda logits, x: OrderedDict(b=logits, a=x * 2), ["b", "a"]),
        (lambda logits, x: Pair(logits + 1, x * 2), ["left", "right"]),
        (lambda logits, x: Result(logits + 1), ["logits"]),
        (lambda logits, x: Result(logits + 1, x * 2), ["logits", "hidden"]),
    ],
)
def test_outputs_have_keys_fields_and_variables_of_the_model(
    structure: Callable[[torch.Tensor, torch.Tensor], Any], names: list[str]
) -> None:
    for program in programs(Model(structure)):
        found = signature(program)
        assert list(found.output_names) == names
        assert found.input_names == ("input",)  # torch's placeholder is input_1


def test_statements_of_several_lines_name_the_variable_they_assign() -> None:
    class Statements(nn.Module):
        def pick(self, first: torch.Tensor, second: torch.Tensor) -> Any:
            return first, second

        def forward(self, x: torch.Tensor) -> Any:
            scores = (
                x.relu()
                + 1
            )  # fmt: skip
            return scores, *self.pick(
                first=x * 2,
                second=x * 3,
            )

    (program, *_) = programs(Statements())
    assert signature(program).output_names == ("scores", "output_1", "output_2")


def test_packages_whose_names_begin_with_torch_are_the_users() -> None:
    graph = fx.Graph()
    node = graph.placeholder("x")
    inside = Path(torch.__file__).parent / "nn" / "functional.py"
    outside = Path(torch.__file__).parent.with_name("torchvision") / "models.py"
    lines = [f'  File "{file}", line 3, in f\n    {code}' for file, code in
             ((inside, "a = 1"), (outside, "logits = f(x)"), (inside, "b = 2"))]  # fmt: skip
    node.meta["stack_trace"] = "\n".join(lines)
    assert [is_users(frame) for frame in trace_frames(node)] == [False, True, False]
    assert source_line(node) == f'File "{outside}", line 3, in f: logits = f(x)'
    assert [assigned_variable(frame) for frame in trace_frames(node)] == ["a", "logits", "b"]
    node.meta["stack_trace"] = f'  File "{outside}", line 3, in f\n    logits=f(x),'
    assert assigned_variable(*trace_frames(node)) is None  # an argument of a call


def test_inputs_with_names_of_builtins_are_given_by_these_names() -> None:
    class Ranged(nn.Module):
        def forward(self, min: torch.Tensor, max: torch.Tensor, limit: torch.Tensor) -> Any:
            return max - min + limit

    program = to_edge(export(Ranged(), (X, X * 2, X * 3))).to_executorch()
    method = Runtime.get().load_program(program.buffer).load_method("forward")
    assert method.signature.input_names == ("min", "max", "limit")
    x = np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(method(max=x * 2, min=x, limit=x * 3), x * 4)


def test_errors_name_inputs_as_the_model_does() -> None:
    program = to_edge(export(Model(lambda logits, x: logits), (X,))).to_executorch()
    method = Runtime.get().load_program(program.buffer).load_method("forward")
    with pytest.raises(ValueError, match=r"input 0 \('input'\) of method 'forward'"):
        method.execute([X.double()])


def test_mutated_state_does_not_shift_the_names_of_outputs() -> None:
    class Counter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("total", torch.zeros(2, 3))

        def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
            self.total.add_(x)
            return {"sum": self.total + 0, "twice": x * 2}

    assert signature(to_edge(export(Counter(), (X,))).to_executorch()).output_names == (
        "sum",
        "twice",
    )


def test_names_cost_few_bytes_and_torchs_loader_skips_them() -> None:
    program = to_edge(export(Model(lambda logits, x: {"scores": logits}), (X,))).to_executorch()
    text = program.executorch_program.execution_plan[0].container_meta_type.encoded_inp_str
    assert json.loads(text)[1]["signature"]["outputs"][0]["name"] == "scores"
    assert torch.utils._pytree.treespec_loads(text).num_leaves == 1
