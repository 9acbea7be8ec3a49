"""The reference delegate end to end: lowered, loaded, run and compared with eager torch.

Damaged payloads and missing backends raise errors that name the delegate.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.export import Dim, export

from executorch_py import errors
from executorch_py.backends.reference import ReferencePartitioner
from executorch_py.exir import schema as s
from executorch_py.exir import to_edge
from executorch_py.exir.serialize.pte import (
    PTEFile,
    deserialize_pte_binary,
    serialize_pte_binary,
)
from executorch_py.runtime import Runtime


class Scaled(nn.Module):
    """A module that is one delegate: two constants, three operations."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.linspace(-1, 1, 6).reshape(2, 3))
        self.register_buffer("shift", torch.arange(6.0).reshape(2, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x * self.scale - self.shift) + x


class Interrupted(nn.Module):
    """A module that an unsupported operation divides into two delegates."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        sharp = torch.sigmoid(x + y)
        return torch.relu(sharp * x - y), sharp


class Elementwise(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.relu(x + y) * y


X = torch.tensor([[1.0, -2.0, 3.0], [-0.5, 0.0, 8.0]])
Y = torch.tensor([[0.5, 2.0, -3.0], [4.0, -0.0, 1.0]])


def lowered(methods: Any, *, own_constants: bool = False, **options: Any) -> bytes:
    manager = to_edge(methods).to_backend(ReferencePartitioner(own_constants=own_constants))
    return bytes(manager.to_executorch(**options).buffer)


def run(data: bytes, *inputs: torch.Tensor, method: str = "forward") -> list[Any]:
    loaded = Runtime.get().load_program(data).load_method(method)
    return [np.asarray(value) for value in loaded.execute([x.numpy() for x in inputs])]


def plan_of(data: bytes, i: int = 0) -> s.ExecutionPlan:
    return deserialize_pte_binary(data).program.execution_plan[i]


@pytest.mark.parametrize("own_constants", [False, True], ids=["constants outside", "owned"])
def test_constants_come_as_inputs_or_as_the_delegates_own_data(own_constants: bool) -> None:
    model = Scaled().eval()
    data = lowered(export(model, (X,)), own_constants=own_constants)
    plan, named = plan_of(data), deserialize_pte_binary(data).named_data
    assert [d.id for d in plan.delegates] == ["ReferenceBackend"] and not plan.operators
    assert len(named.pte_data if named else {}) == (2 if own_constants else 0)
    np.testing.assert_array_equal(run(data, X)[0], model(X).detach().numpy())


def test_several_delegates_share_a_program_with_kernels() -> None:
    data = lowered(export(Interrupted(), (X, Y)))
    plan = plan_of(data)
    assert len(plan.delegates) == 2 and len(plan.operators) == 1
    found, wanted = run(data, X, Y), Interrupted()(X, Y)
    for ours, theirs in zip(found, wanted, strict=True):
        torch.testing.assert_close(torch.from_numpy(ours), theirs)


@pytest.mark.parametrize("n", [1, 2, 63, 64, 65, 200])
def test_sizes_may_be_dynamic(n: int) -> None:
    rows = Dim("rows", min=1, max=200)
    shapes = {"x": {0: rows}, "y": {0: rows}}
    data = lowered(export(Elementwise(), (X, Y), dynamic_shapes=shapes))
    assert len(plan_of(data).delegates) == 1
    x, y = torch.randn(n, 3), torch.randn(n, 3)
    np.testing.assert_array_equal(run(data, x, y)[0], Elementwise()(x, y).numpy())


def test_two_methods_have_delegates_of_their_own() -> None:
    data = lowered(
        {"one": export(Scaled(), (X,)), "two": export(Elementwise(), (X, Y))}, own_constants=True
    )
    model = Scaled()
    np.testing.assert_array_equal(run(data, X, method="one")[0], model(X).detach().numpy())
    np.testing.assert_array_equal(run(data, X, Y, method="two")[0], Elementwise()(X, Y).numpy())


def test_a_run_can_be_repeated_with_other_inputs() -> None:
    method = (
        Runtime.get().load_program(lowered(export(Elementwise(), (X, Y)))).load_method("forward")
    )
    for scale in (1.0, -2.0, 0.0):
        wanted = Elementwise()(scale * X, Y)
        found = method.execute([(scale * X).numpy(), Y.numpy()])[0]
        np.testing.assert_array_equal(np.asarray(found), wanted.numpy())


# ---- damaged payloads


def with_payload(data: bytes, change: Callable[[bytes], bytes]) -> bytes:
    file = deserialize_pte_binary(data)
    payloads = [
        s.BackendDelegateInlineData(change(bytes(p.data)))
        for p in file.program.backend_delegate_data
    ]
    program = replace(file.program, backend_delegate_data=payloads)
    changed = PTEFile(program, file.mutable_data, file.named_data)
    return bytes(serialize_pte_binary(changed, extract_delegate_segments=True))


def word(position: int, value: int) -> Callable[[bytes], bytes]:
    """Make a change of one word of the payload; negative positions count from the end."""

    def change(payload: bytes) -> bytes:
        at = position % len(payload)
        return payload[:at] + struct.pack("<I", value) + payload[at + 4 :]

    return change


# Layout of Scaled's payload with own constants: head of 24 bytes, then nodes of 16 bytes
# (opcode, in0, in1, out): x * scale, - shift, relu, + x; then two constants.
DAMAGE = {
    "magic": (
        word(0, 0x1B004B50),
        errors.DelegateInvalidCompatibility,
        "expected it to begin with 'ETRF', got bytes 50 4b 0 1b",
    ),
    "version": (
        word(4, 2),
        errors.DelegateInvalidCompatibility,
        "expected payload version 1, got 2",
    ),
    "inputs": (word(8, 1 << 21), errors.InvalidProgram, "each, got 2097152 inputs"),
    "fewer inputs": (
        word(8, 0),
        errors.InvalidProgram,
        "is read before|expected an opcode|written",
    ),
    "outputs": (word(12, 1 << 31), errors.InvalidProgram, "2147483648 outputs"),
    "temporaries": (word(16, 0xFFFFFFFF), errors.InvalidProgram, "4294967295 temporaries"),
    "nodes": (word(20, 1 << 28), errors.InvalidProgram, "truncated"),
    "opcode 0": (word(24, 0), errors.InvalidProgram, "got opcode 0 and values 0, "),
    "opcode 9": (word(24, 9), errors.InvalidProgram, "got opcode 9"),
    "second operand": (
        word(24 + 32 + 8, 1),
        errors.InvalidProgram,
        "a node of opcode 4: expected no second operand, got value 1",
    ),
    "operand": (word(28, 99), errors.InvalidProgram, "expected an opcode of 1 to 4 and values"),
    "operand missing": (
        word(32, 0xFFFFFFFF),
        errors.InvalidProgram,
        "expected an opcode of 1 to 4 and values",
    ),
    "result is an input": (
        word(36, 0),
        errors.InvalidProgram,
        "expected an opcode of 1 to 4 and values",
    ),
    "result is a constant": (
        word(36, 5),
        errors.InvalidProgram,
        "expected an opcode of 1 to 4 and values",
    ),
    "read too early": (word(28, 1), errors.InvalidProgram, "read before it is written"),
    "written twice": (word(24 + 16 + 12, 2), errors.InvalidProgram, "twice"),
    "constants": (word(24 + 64, 1 << 30), errors.InvalidProgram, "truncated"),
    "constant id": (word(24 + 64 + 4, 7), errors.InvalidProgram, "got 7"),
    "key length": (word(24 + 64 + 8, 5000), errors.InvalidProgram, "5000 bytes"),
    "key": (word(-4, 0x30303030), errors.NotFound, "named data"),
    "cut": (lambda payload: payload[:40], errors.InvalidProgram, "truncated"),
    "empty": (
        lambda payload: b"",
        errors.DelegateInvalidCompatibility,
        "expected it to begin with 'ETRF', got 0 bytes",
    ),
}


@pytest.fixture(scope="module")
def owned() -> bytes:
    return lowered(export(Scaled(), (X,)), own_constants=True)


@pytest.mark.parametrize("defect", DAMAGE)
def test_a_damaged_payload_is_refused_with_the_delegate_named(owned: bytes, defect: str) -> None:
    change, kind, words = DAMAGE[defect]
    with pytest.raises(kind, match=words) as found:
        run(with_payload(owned, change), X)
    assert "ReferenceBackend" in str(found.value)


def test_a_payload_cut_at_any_length_is_refused(owned: bytes) -> None:
    (payload,) = deserialize_pte_binary(owned).program.backend_delegate_data
    for n in range(len(bytes(payload.data))):
        with pytest.raises(errors.ExecutorchError):
            run(with_payload(owned, lambda whole, n=n: whole[:n]), X)  # type: ignore[misc]


def test_named_data_of_the_wrong_length_is_refused_when_it_is_used(owned: bytes) -> None:
    file = deserialize_pte_binary(owned)
    assert file.named_data is not None
    buffers = [b[:8] for b in file.named_data.buffers]
    short = replace(file.named_data, buffers=buffers)
    data = bytes(serialize_pte_binary(replace(file, named_data=short)))
    with pytest.raises(errors.InvalidProgram, match="expected 6 elements, got 8 bytes"):
        run(data, X)


def test_an_unknown_backend_is_refused_with_its_id_and_what_there_is(owned: bytes) -> None:
    file = deserialize_pte_binary(owned)
    (plan,) = file.program.execution_plan
    delegates = [replace(d, id="MissingBackend") for d in plan.delegates]
    program = replace(file.program, execution_plan=[replace(plan, delegates=delegates)])
    data = bytes(serialize_pte_binary(replace(file, program=program)))
    with pytest.raises(errors.NotFound, match=r"MissingBackend.*available:.*ReferenceBackend"):
        run(data, X)
