"""Quantized inputs and outputs: the outermost quantize or dequantize leaves the program.

The caller quantizes instead, with the parameters that the passes store as constant methods
(`forward_input0_scale` and so on). Works on the programs of an edge manager, or on one exported
program.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram
from torch.export.graph_signature import TensorArgument
from torch.fx.passes.infra.pass_base import PassResult

from executorch_py.exir.dialects.edge_ops import ops
from executorch_py.exir.ir.graph import output_node, placeholders
from executorch_py.exir.ir.op_traits import SYM_SHAPE_READS, op_key
from executorch_py.exir.ir.scalar_type import scalar_type_number
from executorch_py.exir.passes.user.pass_values import (
    ExportedProgramPassBase,
    ExportedProgramPassResult,
)
from executorch_py.exir.schema import ScalarType

_QUANTIZE = "quantized_decomposed::quantize_per_tensor"
_DEQUANTIZE = "quantized_decomposed::dequantize_per_tensor"
_REQUANTIZED = (torch.int8, torch.uint8, torch.int16, torch.uint16)
_KEYS = ("scale", "zp", "quant_min", "quant_max", "dtype")

Parameters = tuple[Any, ...]


def get_config_method_name(
    prefix: str | None = "forward", arg_type: str = "input", index: int = 0, key: str = "scale"
) -> str:
    """The name of the constant method that returns a parameter: `forward_input0_scale`."""
    if arg_type not in ("input", "output") or index < 0 or key not in _KEYS:
        raise AssertionError(
            f"expected arg_type 'input' or 'output', index 0 or more, and a key of {list(_KEYS)}, "
            f"got {arg_type!r}, {index} and {key!r}"
        )
    return f"{'' if prefix is None else prefix + '_'}{arg_type}{index}_{key}"


def quantize_input(
    exported_program: ExportedProgram, input_index: int, qparams: Mapping[str, Any] | None = None
) -> Parameters:
    """Take input `input_index` quantized; returns (scale, zp, min, max, dtype).

    `qparams` (scale, zp, dtype) other than the model's are converted inside the program.
    """
    names = exported_program.graph_signature.user_inputs
    if not 0 <= input_index < len(names):
        raise ValueError(
            f"input_index: expected at least 0 and less than {len(names)}, got {input_index}"
        )
    graph = exported_program.graph
    (node,) = (n for n in placeholders(graph) if n.name == names[input_index])
    quantize = _only_quantize(graph, node, input_index)
    found = tuple(quantize.args[1:])
    wanted = found if qparams is None else _given(qparams)
    if _same(found, wanted):
        node.meta["val"] = quantize.meta["val"]
        quantize.replace_all_uses_with(node)
        graph.erase_node(quantize)
        return found
    dtypes = (wanted[4], found[4])
    if any(dtype not in _REQUANTIZED for dtype in dtypes):
        raise ValueError(
            f"input {input_index}: expected 8-bit or 16-bit integers to requantize, got "
            f"{dtypes[0]} and {dtypes[1]}"
        )
    with graph.inserting_before(quantize):
        target = ops.edge.quantized_decomposed.dequantize_per_tensor.default
        dequantize = graph.call_function(target, (node, *wanted))
    dequantize.meta["val"] = node.meta["val"]
    node.meta["val"] = node.meta["val"].to(wanted[4])
    quantize.replace_input_with(node, dequantize)
    return wanted


def _only_quantize(graph: fx.Graph, node: fx.Node, index: int) -> fx.Node:
    """The quantize node that alone reads an input; several equal ones become the first."""
    users = [user for user in node.users if op_key(user.target) not in SYM_SHAPE_READS]
    ways = {(op_key(user.target), user.args[1:]) for user in users}
    if len(ways) != 1 or op_key(users[0].target) != _QUANTIZE:
        read_by = [str(user.target) for user in users]
        raise ValueError(
            f"input {index} ('{node.name}'): expected one quantize_per_tensor that reads it, got "
            f"{read_by}; quantize the input in the model, or leave it out"
        )
    first, *others = users
    for other in others:
        other.replace_all_uses_with(first)
        graph.erase_node(other)
    return first


def _given(qparams: Mapping[str, Any]) -> Parameters:
    missing = [key for key in ("scale", "zp", "dtype") if key not in qparams]
    if missing:
        raise AssertionError(f"qparams: expected scale, zp and dtype, got none for {missing}")
    limits = torch.iinfo(qparams["dtype"])
    return (qparams["scale"], qparams["zp"], limits.min, limits.max, qparams["dtype"])


def _same(found: Parameters, wanted: Parameters) -> bool:
    close = math.isclose(found[0], wanted[0], rel_tol=1e-5)
    return close and found[1] == wanted[1] and found[4] == wanted[4]


def quantize_output(exported_program: ExportedProgram, output_index: int) -> Parameters:
    """Return output `output_index` quantized; returns (scale, zp, min, max, dtype)."""
    graph = exported_program.graph
    node = output_node(graph)
    outputs = list(node.args[0])
    if not 0 <= output_index < len(outputs):
        raise ValueError(
            f"output_index: expected at least 0 and less than {len(outputs)}, got {output_index}"
        )
    dequantize: Any = outputs[output_index]
    if op_key(getattr(dequantize, "target", None)) != _DEQUANTIZE:
        made_by = getattr(dequantize, "target", dequantize)
        raise ValueError(
            f"output {output_index}: expected dequantize_per_tensor that makes it, got {made_by}; "
            "dequantize it in the model, or leave it out"
        )
    outputs[output_index] = dequantize.args[0]
    node.args = (tuple(outputs),)
    node.meta["val"] = tuple(o.meta["val"] if isinstance(o, fx.Node) else o for o in outputs)
    _rename_output(exported_program, output_index, outputs[output_index].name)
    graph.eliminate_dead_code()
    return tuple(dequantize.args[1:])


def _rename_output(ep: ExportedProgram, index: int, name: str) -> None:
    specs = ep.graph_signature.output_specs
    specs[index] = replace(specs[index], arg=TensorArgument(name=name))


class _QuantizeSide(ExportedProgramPassBase):
    """Inputs or outputs of a program: the base of the two passes."""

    side = ""

    def __init__(
        self, manager: Any, indices: Mapping[int, Any], method_name: str | None, ep: Any
    ) -> None:
        self.edge_program_manager = manager
        self.param_prefix_name = method_name
        self.exported_program = ep
        self._indices = dict(indices)
        self._found: dict[int, Parameters] = {}

    @abstractmethod
    def _apply(self, ep: ExportedProgram, index: int) -> Parameters:
        """Change the program, and return the parameters of the index."""

    def __call__(self, exported_program: Any) -> Any:
        """Run the pass over a program, or over the graph module of the `exported_program` given
        before.
        """
        if isinstance(exported_program, fx.GraphModule):
            return self.call(exported_program)
        return super().__call__(exported_program)

    def call(self, exported_program: Any) -> Any:
        """Change a program; given its graph module, the program that was given before."""
        if isinstance(exported_program, fx.GraphModule):
            program = self.exported_program or self.edge_program_manager.exported_program()
            return PassResult(exported_program, self.call(program).modified)
        for index in self._indices:
            parameters = self._apply(exported_program, index)
            self.edge_manager_update_quant_config_method(index, parameters)
        exported_program.graph_module.recompile()
        return ExportedProgramPassResult(exported_program, bool(self._indices))

    def edge_manager_update_quant_config_methods_all(self) -> None:
        """Store the parameters of all indices as constant methods of the manager."""
        for index, parameters in self._found.items():
            self.edge_manager_update_quant_config_method(index, parameters)

    def edge_manager_update_quant_config_method(self, index: int, parameters: Parameters) -> None:
        """Store the parameters of an index as constant methods of the manager, if there is one."""
        manager = self.edge_program_manager
        if manager is None:
            return
        if not manager._config_methods:
            manager._config_methods = {}
        for key, value in zip(_KEYS, parameters, strict=True):
            name = get_config_method_name(self.param_prefix_name, self.side, index, key)
            number = ScalarType(scalar_type_number(value)) if key == "dtype" else value
            manager._config_methods[name] = number


class QuantizeInputs(_QuantizeSide):
    """Quantized inputs: indices, or a dict from index to the parameters that callers will use."""

    side = "input"

    def __init__(
        self,
        edge_program_manager: Any,
        quantized_inputs_idx: Mapping[int, Any] | Sequence[int],
        method_name: str | None = None,
        exported_program: ExportedProgram | None = None,
    ) -> None:
        given = quantized_inputs_idx
        by_index = given if isinstance(given, Mapping) else dict.fromkeys(given)
        super().__init__(edge_program_manager, by_index, method_name, exported_program)
        self.quant_args = self._found

    def _apply(self, ep: ExportedProgram, index: int) -> Parameters:
        self.quant_args[index] = quantize_input(ep, index, self._indices[index])
        return self.quant_args[index]


class QuantizeOutputs(_QuantizeSide):
    """Quantized outputs, by index."""

    side = "output"

    def __init__(
        self,
        edge_program_manager: Any,
        quantized_outputs_idx_list: Sequence[int],
        method_name: str | None = None,
        exported_program: ExportedProgram | None = None,
    ) -> None:
        by_index = dict.fromkeys(quantized_outputs_idx_list)
        super().__init__(edge_program_manager, by_index, method_name, exported_program)
        self.dequant_args = self._found

    def _apply(self, ep: ExportedProgram, index: int) -> Parameters:
        self.dequant_args[index] = quantize_output(ep, index)
        return self.dequant_args[index]


def extract_io_quant_params(
    edge_prog: Any, *, input_idxs: Sequence[int] = (0,), output_idxs: Sequence[int] = (0,)
) -> dict[str, dict[str, dict[str, Any]]]:
    """Strip the quantization of inputs and outputs, in place; parameters by side and node name."""
    ep = edge_prog.exported_program()
    found: dict[str, dict[str, dict[str, Any]]] = {"inputs": {}, "outputs": {}}
    for index in input_idxs:
        inputs = QuantizeInputs(edge_prog, [index])
        inputs(ep)
        name = ep.graph_signature.user_inputs[index]
        found["inputs"][name] = _named(inputs.quant_args[index])
    for index in output_idxs:
        outputs = QuantizeOutputs(edge_prog, [index])
        outputs(ep)
        results: Any = output_node(ep.graph).args[0]
        found["outputs"][results[index].name] = _named(outputs.dequant_args[index])
    return found


def _named(parameters: Parameters) -> dict[str, Any]:
    *numbers, dtype = parameters
    names = ("scale", "zero_point", "quant_min", "quant_max", "dtype")
    values = (*numbers, ScalarType(scalar_type_number(dtype)))
    return dict(zip(names, values, strict=True))
