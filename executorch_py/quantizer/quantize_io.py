"""Programs whose callers hand in integers and get integers back.

A converted model quantizes its inputs and dequantizes its results by itself. `quantize_io` takes
these conversions out of an exported program, before it is lowered, so that delegates read and
write the integers; what the caller must know of them become constant methods of the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram
from torch.export.graph_signature import OutputKind
from torch.utils import _pytree as pytree

from executorch_py.exir.ir.graph import copy_program, output_node, placeholders
from executorch_py.exir.ir.scalar_type import scalar_type_number
from executorch_py.exir.passes.quantized.quantize_io import (
    get_config_method_name,
    quantize_input,
    quantize_output,
)

_KEYS = ("scale", "zp", "quant_min", "quant_max", "dtype")


@dataclass(frozen=True)
class QuantizedIO:
    """What `quantize_io` gives: a program of integers, and what tells callers of them, by name:
    `forward_input0_scale`, `…_zp`, `…_quant_min`, `…_quant_max`, `…_dtype`, and of outputs."""

    program: ExportedProgram
    constant_methods: dict[str, Any]


def quantize_io(
    program: ExportedProgram,
    inputs: Sequence[int] | None = None,
    outputs: Sequence[int] | None = None,
    method_name: str = "forward",
) -> QuantizedIO:
    """An exported program of a converted model that takes and gives integers.

    inputs, outputs: which, by position; all of float tensors unless given. The caller computes
    `round(x / scale) + zp`, limited to quant_min and quant_max, and `(y - zp) * scale` of results.
    Lower the program with its constant methods:

        io = quantize_io(torch.export.export(quantized, inputs))
        to_edge_transform_and_lower(io.program, …, constant_methods=io.constant_methods)

    Raises ValueError for inputs that are not quantized first of all, and for outputs that are not
    results of a dequantization, all of them named.
    """
    if not isinstance(program, ExportedProgram):
        raise TypeError(
            f"program is a {type(program).__name__}: needs torch.export.export(quantized, inputs)"
        )
    made = copy_program(program)
    user_outputs = _user_outputs(made)
    wanted_inputs = _floats(_input_nodes(made)) if inputs is None else list(inputs)
    wanted_outputs = (
        _floats([output_node(made.graph).args[0][i] for i in user_outputs])
        if outputs is None
        else list(outputs)
    )
    methods: dict[str, Any] = {}
    problems: list[str] = []

    def publish(side: str, index: int, convert: Callable[[], tuple[Any, ...]]) -> Any:
        try:
            found = convert()
        except ValueError as error:
            problems.append(str(error))
            return None
        for key, value in zip(_KEYS, found, strict=True):
            name = get_config_method_name(method_name, side, index, key)
            methods[name] = int(scalar_type_number(value)) if key == "dtype" else value
        return found

    parameters = {
        i: publish("input", i, lambda i=i: quantize_input(made, i))  # type: ignore[misc]
        for i in wanted_inputs
    }
    for i in wanted_outputs:
        position = user_outputs[i] if 0 <= i < len(user_outputs) else i
        publish("output", i, lambda p=position: quantize_output(made, p))  # type: ignore[misc]
    if problems:
        raise ValueError(
            "\n".join(problems) + "\nNeeded: choose those that are with inputs=[…], outputs=[…]"
        )
    made.graph_module.recompile()
    _quantize_examples(made, parameters)
    return QuantizedIO(made, methods)


def _input_nodes(program: ExportedProgram) -> list[fx.Node]:
    by_name = {node.name: node for node in placeholders(program.graph)}
    return [by_name[str(name)] for name in program.graph_signature.user_inputs]


def _user_outputs(program: ExportedProgram) -> list[int]:
    """Where the caller's outputs stand among all, which begin with buffers that are written."""
    specs = program.graph_signature.output_specs
    return [i for i, spec in enumerate(specs) if spec.kind is OutputKind.USER_OUTPUT]


def _floats(nodes: Iterable[Any]) -> list[int]:
    values = [node.meta.get("val") if isinstance(node, fx.Node) else None for node in nodes]
    return [
        i for i, v in enumerate(values) if isinstance(v, torch.Tensor) and v.is_floating_point()
    ]


def _quantize_examples(program: ExportedProgram, parameters: dict[int, tuple[Any, ...]]) -> None:
    """The program's example inputs are what it takes now."""
    if program.example_inputs is None:
        return
    flat, structure = pytree.tree_flatten(program.example_inputs)
    for i, found in parameters.items():
        flat[i] = torch.ops.quantized_decomposed.quantize_per_tensor(flat[i], *found)
    program._example_inputs = pytree.tree_unflatten(flat, structure)


__all__ = ["QuantizedIO", "quantize_io"]
