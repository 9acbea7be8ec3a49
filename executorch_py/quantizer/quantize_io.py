"""Quantized inputs and outputs: programs that take and return integers.

A converted model quantizes its inputs and dequantizes its outputs itself. `quantize_io` removes
these conversions from an exported program before lowering, so that delegates read and write the
integers. The scales and zero points that callers need become constant methods of the file.
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
    """The result of `quantize_io`: a program of integers, and constant methods for its callers.

    The methods are `forward_input0_scale`, `…_zp`, `…_quant_min`, `…_quant_max`, `…_dtype`, and
    the same for `output0` and so on.
    """

    program: ExportedProgram
    constant_methods: dict[str, Any]


def quantize_io(
    program: ExportedProgram,
    inputs: Sequence[int] | None = None,
    outputs: Sequence[int] | None = None,
    method_name: str = "forward",
) -> QuantizedIO:
    """A copy of a converted model's exported program that takes and returns integers.

    inputs, outputs: positions; by default those of all float tensors. The caller computes
    `round(x / scale) + zp`, clamped to quant_min and quant_max, and `(y - zp) * scale` of results.
    Lower the program with its constant methods:

        io = quantize_io(torch.export.export(quantized, inputs))
        to_edge_transform_and_lower(io.program, …, constant_methods=io.constant_methods)

    Raises ValueError for inputs that are read other than by a quantization, and for outputs that
    are not results of a dequantization; the message names all of them.
    """
    if not isinstance(program, ExportedProgram):
        raise TypeError(
            "program: expected torch.export.export(quantized, inputs), "
            f"got a {type(program).__name__}"
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
            "\n".join(problems) + "\nChoose quantized ones with inputs=[…], outputs=[…]"
        )
    made.graph_module.recompile()
    _quantize_examples(made, parameters)
    return QuantizedIO(made, methods)


def _input_nodes(program: ExportedProgram) -> list[fx.Node]:
    by_name = {node.name: node for node in placeholders(program.graph)}
    return [by_name[str(name)] for name in program.graph_signature.user_inputs]


def _user_outputs(program: ExportedProgram) -> list[int]:
    """Positions of the caller's outputs among all outputs, which begin with mutated buffers."""
    specs = program.graph_signature.output_specs
    return [i for i, spec in enumerate(specs) if spec.kind is OutputKind.USER_OUTPUT]


def _floats(nodes: Iterable[Any]) -> list[int]:
    """Positions of the nodes that are float tensors."""
    values = [node.meta.get("val") if isinstance(node, fx.Node) else None for node in nodes]
    return [
        i for i, v in enumerate(values) if isinstance(v, torch.Tensor) and v.is_floating_point()
    ]


def _quantize_examples(program: ExportedProgram, parameters: dict[int, tuple[Any, ...]]) -> None:
    """Quantize the program's example inputs like its inputs."""
    if program.example_inputs is None:
        return
    flat, structure = pytree.tree_flatten(program.example_inputs)
    for i, found in parameters.items():
        flat[i] = torch.ops.quantized_decomposed.quantize_per_tensor(flat[i], *found)
    program._example_inputs = pytree.tree_unflatten(flat, structure)


__all__ = ["QuantizedIO", "quantize_io"]
