"""Emitted programs: right results in planned memory, values as in the format, equal bytes."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim
from torch.utils import _pytree as pytree

from executorch_py.exir import schema as s
from executorch_py.exir import to_edge
from executorch_py.exir.emit import emit_program
from executorch_py.exir.error import ExportError

Check = Callable[..., Any]


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.fc = nn.Linear(4, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(torch.relu(self.norm(self.conv(x))).mean((2, 3))).softmax(-1)


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("n", torch.full((2,), 5.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.n.add_(x)
        return self.n * 2


def plan_of(program: Any, method: str = "forward") -> s.ExecutionPlan:
    plans = {plan.name: plan for plan in program.executorch_program.execution_plan}
    return plans[method]


MODELS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "convolution": (Block(), (torch.randn(2, 3, 6, 6),)),
    "lstm": (nn.LSTM(4, 6, batch_first=True), (torch.randn(2, 3, 4),)),
    "attention": (
        nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True),
        (torch.randn(2, 5, 8),),
    ),
    "several results": (lambda x: tuple(torch.topk(x, 2)), (torch.randn(3, 5),)),
    "lists of tensors": (
        lambda x: torch.cat(list(torch.split(x, 2, dim=1))[::-1], 1),
        (torch.randn(3, 6),),
    ),
    "optional lists": (lambda x, i: x[:, i], (torch.randn(4, 5), torch.tensor([0, 2]))),
    "views": (lambda x: (x.view(-1).view(4, 6) + 1, x.view(24)), (torch.randn(2, 3, 4),)),
    "outputs that are inputs": (lambda x, y: (x, x + y, y), (torch.ones(2), torch.ones(2))),
    "infinities": (
        lambda x: torch.where(x > 0, x, torch.full_like(x, -math.inf)),
        (torch.randn(3),),
    ),
    "no elements": (lambda x: torch.cat([x, x]) + 1, (torch.zeros(0, 3),)),
    "0-d": (lambda x: x * 2 + 1, (torch.tensor(3.5),)),
}


@pytest.mark.parametrize("name", MODELS)
def test_planned_memory_gives_eager_results(name: str, check: Check) -> None:
    torch.manual_seed(0)
    model, inputs = MODELS[name]
    if isinstance(model, nn.Module):
        model.eval()
    check(model, inputs, inputs)


def test_dynamic_sizes_flow_through_values(check: Check) -> None:
    def model(x: torch.Tensor) -> Any:
        return x.view(x.shape[0], 2, 3).relu().flatten(1) + 1, x.shape[0] * 2

    calls = [(torch.randn(n, 6),) for n in (4, 1, 16)]
    check(model, *calls, dynamic_shapes=(({0: Dim("b", min=1, max=16)},),))


def test_mutable_buffers_start_with_their_values_and_keep_state(emit: Check, load: Check) -> None:
    runner = load(emit(Counting(), (torch.ones(2),)))
    assert runner.run(torch.ones(2))[0].tolist() == [12, 12]
    assert runner.run(torch.ones(2) * 3)[0].tolist() == [18, 18]


def test_named_buffers_carry_their_name(emit: Check) -> None:
    program = emit(Counting(), (torch.ones(2),), emit_mutable_buffer_names=True)
    infos = [
        v.val.extra_tensor_info
        for v in plan_of(program).values
        if isinstance(v.val, s.Tensor) and v.val.extra_tensor_info is not None
    ]
    assert [info.fully_qualified_name for info in infos] == ["n"]
    assert infos[0].location is s.TensorDataLocation.SEGMENT


def test_equal_literals_are_one_value(emit: Check) -> None:
    def model(x: torch.Tensor) -> Any:
        for _ in range(4):
            x = x.permute(1, 0).amax(1, keepdim=True) * x
        return x

    program = emit(model, (torch.randn(3, 3),))
    values = [v.val for v in plan_of(program).values if not isinstance(v.val, s.Tensor)]
    repeated = [key for key, n in Counter(map(repr, values)).items() if n > 1]
    assert not repeated


def test_inputs_are_never_shared_with_literals(emit: Check) -> None:
    plan = plan_of(emit(lambda x, n: (x.sum(n), n), (torch.ones(2, 2), 1)))
    used = [i for call in plan.chains[0].instructions for i in call.instr_args.args]
    assert plan.inputs[1] not in used


def test_equal_weights_are_stored_once() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = nn.Parameter(torch.arange(64.0))
            self.b = nn.Parameter(torch.arange(64.0))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.a + self.b

    from executorch_py.exir import to_edge
    from executorch_py.exir.program.config import ExecutorchBackendConfig

    ep = torch.export.export(Twice(), (torch.ones(64),))
    config = ExecutorchBackendConfig(target="executorch-1.5")
    program = to_edge({"one": ep, "two": ep}).to_executorch(config)
    assert len(program.executorch_program.constant_buffer) == 2  # the placeholder and one


def test_container_strings_are_torch_tree_specs_with_a_signature(emit: Check) -> None:
    def model(d: Any, rest: Any) -> Any:
        return {"a": d["x"] + rest[0], "b": [rest[1] * 2]}

    inputs = ({"x": torch.ones(2)}, [torch.ones(2), torch.ones(3)])
    meta = plan_of(emit(model, inputs)).container_meta_type
    assert pytree.treespec_loads(meta.encoded_inp_str) == pytree.tree_structure((inputs, {}))
    assert pytree.treespec_loads(meta.encoded_out_str).num_leaves == 2
    signature = json.loads(meta.encoded_inp_str)[1]["signature"]
    assert [i["dtype"] for i in signature["inputs"]] == ["f32"] * 3
    assert [i["shape"] for i in signature["inputs"]] == [[2], [2], [3]]
    assert len(signature["outputs"]) == 2


def test_the_signature_tells_bounds_and_fixed_scalars(emit: Check) -> None:
    program = emit(
        lambda x, n, f, t, o: (x * n, n),
        (torch.randn(4, 6), 3, 1.5, "text", None),
        dynamic_shapes=(({0: Dim("b", min=2, max=16)}, None, None, None, None),),
    )
    signature = json.loads(plan_of(program).container_meta_type.encoded_inp_str)[1]["signature"]
    first, *others = signature["inputs"]
    assert first["shape"] == [[2, 16, "s0"], 6]
    assert [(o["type"], o.get("value")) for o in others] == [
        ("int", 3),
        ("float", 1.5),
        ("str", "text"),
        ("none", None),
    ]


def test_string_outputs_are_values(emit: Check, load: Check) -> None:
    program = emit(lambda x: (x + 1, "label"), (torch.ones(2),))
    assert load(program).run(torch.ones(2))[1] == "label"


def test_constant_methods_follow_in_the_order_given(load: Check) -> None:
    ep = torch.export.export(Block().eval(), (torch.randn(1, 3, 4, 4),))
    from executorch_py.exir import to_edge
    from executorch_py.exir.program.config import ExecutorchBackendConfig

    constants = {"z": 7, "name": "abc", "both": (1, [2.5]), "table": torch.arange(6)}
    program = to_edge(ep, constant_methods=constants).to_executorch(
        ExecutorchBackendConfig(target="executorch-1.5")
    )
    names = [plan.name for plan in program.executorch_program.execution_plan]
    assert names == ["forward", "z", "name", "both", "table"]
    assert load(program, "both").run() == [1, 2.5]
    assert load(program, "table").run()[0].tolist() == list(range(6))
    assert plan_of(program, "z").non_const_buffer_sizes == [0]


def test_a_method_and_a_constant_of_one_name_are_refused(emit: Check) -> None:
    program = emit(lambda x: x + 1, (torch.ones(2),))
    with pytest.raises(ExportError, match="'forward'"):
        emit_program(program.exported_program(), prim_getters={"forward": 1})


def test_external_weights_leave_the_program(emit: Check) -> None:
    program = emit(nn.Linear(4, 3), (torch.ones(1, 4),), external_constants=True)
    tensors = [v.val for v in plan_of(program).values if isinstance(v.val, s.Tensor)]
    external = [t for t in tensors if t.extra_tensor_info is not None]
    assert external and all(t.allocation_info is None for t in external)
    assert len(program.executorch_program.constant_buffer) == 1
    assert set(program._tensor_data) == {"_default_external_constant"}


def test_stack_traces_are_one_per_instruction(emit: Check) -> None:
    program = emit(Block(), (torch.randn(1, 3, 4, 4),), emit_stacktrace=True)
    (chain,) = plan_of(program).chains
    assert chain.stacktrace is not None
    assert len(chain.stacktrace) == len(chain.instructions)
    assert any(frame.name == "forward" for frames in chain.stacktrace for frame in frames.items)


def test_emission_leaves_the_programs_as_they_were(emit: Check) -> None:
    program = emit(Counting(), (torch.ones(2),))
    first = program.buffer
    again = emit_program({"forward": program.exported_program()})
    assert again.program == program.executorch_program and bytes(first) == bytes(program.buffer)


SCRIPT = """
import hashlib, torch, warnings
warnings.simplefilter("ignore")
from executorch_py.exir import to_edge
from executorch_py.exir.program.config import ExecutorchBackendConfig
torch.manual_seed(0)
model = torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True).eval()
with torch.no_grad():
    ep = torch.export.export(model, (torch.ones(2, 5, 8),))
    program = to_edge(ep).to_executorch(ExecutorchBackendConfig(target="executorch-1.5"))
print(hashlib.sha256(bytes(program.buffer)).hexdigest())
"""


def test_two_processes_write_the_same_bytes() -> None:
    def digest(seed: str) -> str:
        return subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env={"PYTHONHASHSEED": seed, "PATH": "", "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    assert digest("1") == digest("2")


def test_signature_states_the_bounds_that_the_user_gave() -> None:
    batch = torch.export.Dim("batch", min=1, max=64)
    exported = torch.export.export(
        torch.nn.Conv2d(1, 2, 3), (torch.randn(3, 1, 8, 8),), dynamic_shapes=({0: batch},)
    )
    plan = to_edge(exported).to_executorch().executorch_program.execution_plan[0]
    _, tree = json.loads(plan.container_meta_type.encoded_inp_str)
    assert tree["signature"]["inputs"][0]["shape"] == [[1, 64, "s0"], 1, 8, 8]
