"""Data that scripts for upstream read from exported programs: weights by name, bytes, handles."""

from __future__ import annotations

import struct
from typing import Any

import pytest
import torch
from torch.export import export

from executorch_py.exir import ExecutorchBackendConfig, to_edge
from executorch_py.exir._serialize._program import deserialize_pte_binary, serialize_pte_binary
from executorch_py.exir.backend.canonical_partitioners.duplicate_constant_node_pass import (
    duplicate_constant_node,
)
from executorch_py.exir.backend.utils import DelegateMappingBuilder
from executorch_py.exir.print_program import inspect_node


class Layers(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(5, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x).sin() + 1


X = torch.ones(5, 5)


def lowered(model: torch.nn.Module, *inputs: Any, **config: Any) -> Any:
    return to_edge(export(model, inputs)).to_executorch(ExecutorchBackendConfig(**config))


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (True, {"_default_external_constant": ["linear.bias", "linear.weight"]}),
        (lambda n: "heavy" if "weight" in n.name else None, {"heavy": ["linear.weight"]}),
    ],
)
def test_weights_in_a_data_file_keep_their_names_and_bytes(
    choice: Any, expected: dict[str, list[str]]
) -> None:
    model = Layers()
    output = lowered(model, X, external_constants=choice)._emitter_output
    found = {file: sorted(names) for file, names in output.external_constant_map.items()}
    assert found == expected
    for names in output.external_constant_map.values():
        for name, index in names.items():
            stored = bytes(output.external_constant_buffer[index])
            assert stored == model.get_parameter(name).detach().numpy().tobytes()


def test_weights_that_training_updates_are_not_computed_with() -> None:
    from torch.export.experimental import _export_forward_backward

    class Loss(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(3, 3)
            self.frozen = torch.nn.Linear(3, 3).requires_grad_(False)
            self.loss = torch.nn.CrossEntropyLoss()

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            result: torch.Tensor = self.loss(self.frozen(self.linear(x)).softmax(dim=0), y)
            return result

    inputs = (torch.ones(3), torch.tensor([1.0, 0.0, 0.0]))
    joint = _export_forward_backward(export(Loss(), inputs, strict=True))
    program = to_edge(joint).to_executorch()
    signature = program.exported_program().graph_signature
    assert {"linear.weight", "linear.bias"} <= set(signature.inputs_to_parameters.values())
    assert "frozen.weight" not in signature.inputs_to_parameters.values()
    assert len(signature.output_specs) == 1 + 2 + 2, "a loss, two gradients, two weights"


def test_constants_of_a_program_are_bytes() -> None:
    class Constant(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.constant = torch.arange(6.0).reshape(2, 3).t()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.constant

    program = lowered(Constant(), torch.zeros(3, 2))
    (buffer,) = program.executorch_program.constant_buffer[1:]
    assert struct.unpack("6f", buffer.storage) == (0, 3, 1, 4, 2, 5)
    assert deserialize_pte_binary(program.buffer).program.constant_buffer[1] == buffer


def test_a_file_read_and_written_again_is_the_same_file() -> None:
    buffer = lowered(Layers(), X).buffer
    assert bytes(serialize_pte_binary(deserialize_pte_binary(buffer))) == buffer


def test_debug_handles_of_a_lowered_graph_are_those_of_its_operators() -> None:
    class Waves(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.sin().cos()

    nodes = list(lowered(Waves(), X).exported_program().graph.nodes)
    handles = [n.meta["debug_handle"] for n in nodes if n.meta.get("debug_handle") is not None]
    assert len(handles) == len(set(handles)) == 2
    builder = DelegateMappingBuilder(generated_identifiers=True)
    assert builder.insert_delegate_mapping_entry(nodes=nodes) == 0
    assert builder.get_delegate_mapping() == {0: tuple(handles)}


def test_copies_of_a_shared_constant_are_numbered_from_0() -> None:
    class Shared(torch.nn.Module):
        const: torch.Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("const", torch.ones(2))

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
            return x + self.const, x - self.const, x * self.const

    program = to_edge(export(Shared(), (torch.ones(2),))).exported_program()
    assert duplicate_constant_node(program, "b_const") == {"b_const_copy_0", "b_const_copy_1"}


def test_an_inspected_node_shows_where_it_was_written() -> None:
    graph = to_edge(export(Layers(), (X,))).exported_program().graph
    (sine,) = (n for n in graph.nodes if "sin" in str(n.target))
    text = inspect_node(graph, sine)
    assert f"--> {sine.format_node()}" in text
    assert "Traceback (most recent call last):" in text and "self.linear(x).sin()" in text
