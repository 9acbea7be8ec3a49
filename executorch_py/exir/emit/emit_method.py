"""One method as an execution plan: its inputs with their data, its graph, its outputs.

The placeholders come first: parameters, buffers and constants take their bytes from the exported
program, inputs become values that callers set. Mutable buffers keep their initial values.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram
from torch.export.graph_signature import (
    ConstantArgument,
    InputKind,
    InputSpec,
    OutputKind,
    TensorArgument,
)

from executorch_py.exir import schema
from executorch_py.exir.emit.emit_constants import dense, tensor_value
from executorch_py.exir.emit.emit_signature import Symbols, container_metadata, describe
from executorch_py.exir.emit.emit_values import Ref, scalar_value
from executorch_py.exir.emit.emitter import MethodEmitter, ProgramState
from executorch_py.exir.error import InternalError, NotSupportedError
from executorch_py.exir.ir.graph import lookup_tensor
from executorch_py.exir.ir.interface_names import input_name, output_names
from executorch_py.exir.ir.tensor_spec import TensorSpec

_DATA_KINDS = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)
_OF_USER = (OutputKind.USER_OUTPUT, OutputKind.LOSS_OUTPUT)
# Results that a method writes to its state or inputs instead of returning them.
WRITTEN_BACK = (OutputKind.BUFFER_MUTATION, OutputKind.USER_INPUT_MUTATION)


class MethodPlan:
    """Emits one method; `plan` is the result, `emitter` holds the notes for tools."""

    def __init__(
        self,
        name: str,
        ep: ExportedProgram,
        program: ProgramState,
        emit_stacktrace: bool,
        emit_mutable_buffer_names: bool,
    ) -> None:
        self._ep = ep
        self._names_buffers = emit_mutable_buffer_names
        self._mutated = set(ep.graph_signature.buffers_to_mutate.values())
        self._inputs: list[Ref] = []
        self._symbols = Symbols()
        self._described_inputs: list[dict[str, Any]] = []
        self.emitter = MethodEmitter(ep, program, emit_stacktrace)
        self.plan = self._emit(name)

    def _emit(self, name: str) -> schema.ExecutionPlan:
        gm, em = self._ep.graph_module, self.emitter
        if "non_const_buffer_sizes" not in gm.meta:
            raise InternalError(f"method '{name}' was not memory-planned before emission")
        specs = {spec.arg.name: spec for spec in self._ep.graph_signature.input_specs}
        values = {
            node: self._placeholder(node, specs.get(node.name))
            for node in gm.graph.nodes
            if node.op == "placeholder"
        }
        results = em.flat(em.run_graph(gm, values))
        outputs, described = self._outputs(results)
        return schema.ExecutionPlan(
            name=name,
            container_meta_type=container_metadata(self._ep, self._described_inputs, described),
            values=em.values.values,
            inputs=[ref.id for ref in self._inputs],
            outputs=[ref.id for ref in outputs],
            chains=[em.chain()],
            operators=em.code.operators,
            delegates=em.delegates,
            non_const_buffer_sizes=[int(size) for size in gm.meta["non_const_buffer_sizes"]],
            non_const_buffer_device=gm.meta.get("non_const_buffer_device"),
        )

    # ---- placeholders

    def _placeholder(self, node: fx.Node, spec: InputSpec | None) -> Ref:
        if spec is not None and spec.kind in _DATA_KINDS:
            value = self._data(node, spec)
            ref = self.emitter.values.fresh(value)
            self.emitter.values.bind_spec(node.meta["spec"], ref)
            return ref
        if spec is not None and spec.kind is not InputKind.USER_INPUT:
            raise NotSupportedError(
                f"input '{node.name}': expected a tensor or a number, got a "
                f"{spec.kind.name.lower()}, which no program file can hold",
            )
        ref = self._user_input(node, spec)
        self._inputs.append(ref)
        described = describe(
            input_name(node),
            self.emitter.values.values[ref.id].val,
            node.meta.get("val"),
            self._ep.range_constraints,
            self._symbols,
        )
        self._described_inputs.append(described)
        return ref

    def _user_input(self, node: fx.Node, spec: InputSpec | None) -> Ref:
        """Inputs are never shared with literals: callers set them."""
        em, what = self.emitter, node.meta.get("spec")
        if isinstance(what, TensorSpec):
            ref = em.emit_spec(what)
            assert isinstance(ref, Ref)
            return ref
        if isinstance(what, (torch.SymInt, torch.SymBool, torch.SymFloat)):
            hint = what.node.hint if what.node.has_hint() else 0
            return em.values.fresh(scalar_value(_plain_number(what, hint)))
        if what is None and spec is not None and isinstance(spec.arg, ConstantArgument):
            what = spec.arg.value
        return em.values.fresh(scalar_value(what))

    def _data(self, node: fx.Node, spec: InputSpec) -> schema.Tensor:
        """The tensor of a parameter, buffer or constant, with its bytes in the program's store."""
        where, fqn = node.meta["spec"], spec.target
        tensor = lookup_tensor(self._ep, fqn) if fqn is not None else None
        if tensor is None or fqn is None or not isinstance(where, TensorSpec):
            raise InternalError(f"input '{node.name}': the program has no tensor named {fqn!r}")
        data, dim_order = dense(tensor)
        if data.dtype != where.dtype or list(data.shape) != list(where.shape):
            raise InternalError(
                f"'{fqn}': expected {where.dtype}{list(where.shape)}, as in the graph, "
                f"got {data.dtype}{list(data.shape)}"
            )
        allocation = self.emitter.allocation(where)
        extra = self._extra_info(node, where, fqn, spec, allocation)
        index = self._store(node, data, fqn, extra, allocation)
        return tensor_value(
            where,
            dim_order=dim_order,
            data_buffer_idx=index,
            allocation_info=allocation,
            extra_tensor_info=extra,
        )

    def _extra_info(
        self,
        node: fx.Node,
        where: TensorSpec,
        fqn: str,
        spec: InputSpec,
        allocation: schema.AllocationDetails | None,
    ) -> schema.ExtraTensorInfo | None:
        info: schema.ExtraTensorInfo | None = where.extra_tensor_info
        if node.meta.get("constant_tag") is not None:
            location = schema.TensorDataLocation.EXTERNAL
            return replace(
                info or schema.ExtraTensorInfo(), fully_qualified_name=fqn, location=location
            )
        if spec.kind is InputKind.BUFFER and (fqn in self._mutated or allocation is not None):
            if self._names_buffers:
                return replace(info or schema.ExtraTensorInfo(), fully_qualified_name=fqn)
            if allocation is None:
                raise NotSupportedError(
                    f"mutable buffer '{fqn}' has no planned memory and no name in the file; plan "
                    "mutable buffers, or set emit_mutable_buffer_names=True so that the caller "
                    "can supply it",
                )
        return info

    def _store(
        self,
        node: fx.Node,
        data: torch.Tensor,
        fqn: str,
        extra: schema.ExtraTensorInfo | None,
        allocation: schema.AllocationDetails | None,
    ) -> int:
        """Put the bytes into the program's store; returns the index that the tensor carries."""
        constants = self.emitter.program.constants
        if extra is not None and extra.location is schema.TensorDataLocation.EXTERNAL:
            return constants.external(data, fqn, str(node.meta["constant_tag"]))
        if allocation is not None:
            wanted = node.meta.get("et_init_buffer")
            return 0 if wanted is False else constants.initial_state(data, fqn)
        return 0 if fqn in self._mutated else constants.constant(data, fqn)

    # ---- outputs

    def _outputs(self, results: list[Any]) -> tuple[list[Ref], list[dict[str, Any]]]:
        """The user's outputs, without values that are written back to buffers and inputs."""
        specs = self._ep.graph_signature.output_specs
        nodes = self.emitter.flat(self._ep.graph_module.graph.output_node().args[0])
        if len(results) != len(specs):
            raise InternalError(
                f"outputs: expected {len(specs)} values, as in the signature, got {len(results)}"
            )
        refs, described = [], []
        names = iter(output_names(self._ep))
        for result, node, spec in zip(results, nodes, specs, strict=True):
            if spec.kind in WRITTEN_BACK:
                continue
            ref = self.emitter.value(result)
            refs.append(ref)
            val = node.meta.get("val") if isinstance(node, fx.Node) else None
            value = self.emitter.values.values[ref.id].val
            name = next(names, None) if spec.kind in _OF_USER else None
            name = name or spec.arg.name or (node.name if isinstance(node, fx.Node) else "")
            if not isinstance(spec.arg, TensorArgument) and not name:
                name = f"output_{len(refs) - 1}"
            ranges = self._ep.range_constraints
            described.append(describe(name, value, val, ranges, self._symbols))
        return refs, described


def _plain_number(symbol: Any, hint: Any) -> Any:
    kind = {torch.SymBool: bool, torch.SymFloat: float}.get(type(symbol), int)
    return kind(hint)
