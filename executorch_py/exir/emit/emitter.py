"""Walks one method's lowered graph and turns every node into values and instructions.

The emitter reads a graph after memory planning: out-variant calls, alloc and view nodes, specs with
offsets. One TensorSpec is one value. The graph is read, never changed. Operators, delegates,
control flow and inputs have files of their own; this one has the walk and shared helpers.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from executorch_py.exir import memory, schema
from executorch_py.exir.emit.emit_constants import ConstantStore, allocation_at, dense, tensor_value
from executorch_py.exir.emit.emit_control_flow import CONTROL_FLOW
from executorch_py.exir.emit.emit_delegates import PayloadStore, emit_delegate
from executorch_py.exir.emit.emit_operators import emit_argument, emit_operator
from executorch_py.exir.emit.emit_values import Ref, ValueTable
from executorch_py.exir.emit.instructions import InstructionList
from executorch_py.exir.emit.stack_frames import frames_of
from executorch_py.exir.error import ExportError, InternalError, NotSupportedError
from executorch_py.exir.ir.graph import source_line
from executorch_py.exir.ir.op_traits import is_delegate_call, op_overload
from executorch_py.exir.ir.tensor_spec import TensorSpec


@dataclass
class ProgramState:
    """State that all methods of a program share."""

    constants: ConstantStore = field(default_factory=ConstantStore)
    payloads: PayloadStore = field(default_factory=PayloadStore)


class MethodEmitter:
    """Emits the graph of one method. `code`, `values` and `delegates` make up its plan."""

    def __init__(self, ep: ExportedProgram, program: ProgramState, emit_stacktrace: bool) -> None:
        self.ep = ep
        self.program = program
        self.code = InstructionList()
        self.values = ValueTable()
        self.delegates: list[schema.BackendDelegate] = []
        self.debug_handle_map: dict[int, int | list[int]] = {}
        self.instruction_id_to_num_outs_map: dict[int, int] = {}
        self.delegate_map: dict[int, dict[str, Any]] = {}
        self._emit_stacktrace = emit_stacktrace
        self._modules: list[fx.GraphModule] = []
        self._environments: list[dict[fx.Node, Any]] = []
        self._attributes: dict[int, Ref] = {}

    # ---- the walk

    def run_graph(self, gm: fx.GraphModule, inputs: dict[fx.Node, Any]) -> Any:
        """Emit all nodes of a graph whose placeholders have values; returns the output's values."""
        self._modules.append(gm)
        self._environments.append(dict(inputs))
        output = None
        for node in gm.graph.nodes:
            if node.op == "output":
                output = self.resolve(node.args[0])
            elif node.op != "placeholder":
                self._environments[-1][node] = self._visit(node)
        self._environments.pop()
        self._modules.pop()
        return output

    def run_body(
        self, body: fx.GraphModule, inputs: Sequence[Ref]
    ) -> tuple[list[Ref], list[fx.Node]]:
        """Emit a control-flow body in place; returns its results and its placeholders."""
        nodes = [node for node in body.graph.nodes if node.op == "placeholder"]
        if len(nodes) != len(inputs):
            raise InternalError(
                f"control flow: expected {len(nodes)} body inputs, got {len(inputs)}"
            )
        output = self.run_graph(body, dict(zip(nodes, inputs, strict=True)))
        return [self.value(item) for item in self.flat(output)], nodes

    def body_inputs(self, body: fx.GraphModule) -> list[Ref]:
        """Values for the placeholders of a body, each in the memory planned for it."""
        nodes = [node for node in body.graph.nodes if node.op == "placeholder"]
        return [self.flat_refs(self.emit_results(node))[0] for node in nodes]

    def _visit(self, node: fx.Node) -> Any:
        try:
            if self._emit_stacktrace:
                self.code.current_frames = frames_of(node)
            if node.op == "get_attr":
                return self._attribute(node)
            if node.op == "call_function":
                return self._call(node)
            raise InternalError(f"{node.op} nodes cannot be emitted")
        except Exception as error:
            if getattr(error, "names_node", False):
                raise
            raise _at_node(error, node) from error

    def _call(self, node: fx.Node) -> Any:
        target = node.target
        if target is operator.getitem:
            head, index = self.resolve(node.args)
            return head[index]
        if target is memory.alloc:
            return self.emit_spec(node.meta["spec"])
        if target is memory.view:
            return self._view(node)
        if target is memory.concat:  # its parts were computed in its memory
            return self.emit_spec(node.meta["spec"])
        if target is memory.patch:  # a part of it was updated in place
            return self.resolve(node.args[0])
        if target is memory.free:
            return self._free(node)
        if target in CONTROL_FLOW:
            return CONTROL_FLOW[target](self, node)
        if is_delegate_call(target):
            return emit_delegate(self, node)
        op = op_overload(target)
        if op is not None:
            return emit_operator(self, node, op)
        raise InternalError(f"{target} is not an operator; a pass should have replaced it")

    def _attribute(self, node: fx.Node) -> Any:
        value: Any = self._modules[-1]
        for name in str(node.target).split("."):
            value = getattr(value, name)
        if not isinstance(value, torch.Tensor):
            return value
        known = self._attributes.get(id(value))
        if known is None:
            known = self._attributes[id(value)] = self.constant_tensor(value, str(node.target))
        return known

    def _free(self, node: fx.Node) -> None:
        (arg,) = node.args
        ref = self.values.of_spec(arg) if isinstance(arg, TensorSpec) else self.resolve(arg)
        if not isinstance(ref, Ref):
            raise InternalError(f"memory.free of {arg}, which has no value")
        self.code.add(schema.FreeCall(ref.id))

    # ---- arguments and results

    def resolve(self, arg: Any) -> Any:
        """An argument with every node replaced by its value(s)."""
        if isinstance(arg, fx.Node):
            return self._environments[-1][arg]
        if isinstance(arg, (list, tuple)):
            return [self.resolve(item) for item in arg]
        if isinstance(arg, dict):
            return {key: self.resolve(item) for key, item in arg.items()}
        return arg

    def value(self, item: Any) -> Ref:
        """A resolved argument as one value; literals are emitted."""
        return item if isinstance(item, Ref) else self.values.literal(item)

    def flat(self, item: Any) -> list[Any]:
        """Leaves of nested lists, tuples and dicts."""
        return list(_leaves(item))

    def flat_refs(self, item: Any) -> list[Ref]:
        return [leaf for leaf in _leaves(item) if isinstance(leaf, Ref)]

    def is_tensor_spec(self, spec: Any) -> bool:
        return isinstance(spec, TensorSpec)

    def require_tensor(self, ref: Any) -> Ref:
        """The value, which must be a tensor."""
        self.require_tensor_value(ref)
        assert isinstance(ref, Ref)
        return ref

    def require_tensor_value(self, ref: Any) -> schema.Tensor:
        tensor = self.values.tensor(ref) if isinstance(ref, Ref) else None
        if tensor is None:
            raise InternalError(f"expected a tensor, got {ref}")
        return tensor

    def emit_results(self, node: fx.Node, growing_from: int | None = None) -> Any:
        """Values for all results of a node that writes them itself: tensors by spec, or fresh
        numbers.

        Tensor results from number `growing_from` on may change their leading size.
        """
        spec, val = node.meta["spec"], node.meta.get("val")
        if isinstance(spec, (list, tuple)) and not isinstance(val, (list, tuple)):
            val = [val]
        if not isinstance(spec, (list, tuple)):
            return self._result(spec, val, growing=growing_from is not None)
        vals = [None] * len(spec)
        if isinstance(val, (list, tuple)) and len(val) == len(spec):
            vals = list(val)
        return [
            self._result(s, v, growing=growing_from is not None and i >= growing_from)
            for i, (s, v) in enumerate(zip(spec, vals, strict=True))
        ]

    def _result(self, spec: Any, val: Any, growing: bool) -> Ref:
        if isinstance(spec, TensorSpec):
            ref = self._emit_leaf(spec)
            if growing:
                self._make_dynamic(ref)
            return ref
        number = val if spec is None else spec
        if isinstance(number, (torch.SymBool, bool)):
            return self.values.fresh(schema.Bool(False))
        if isinstance(number, (torch.SymFloat, float)):
            return self.values.fresh(schema.Double(0.0))
        if isinstance(number, (torch.SymInt, int)):
            return self.values.fresh(schema.Int(0))
        raise InternalError(f"result: expected a tensor spec or a number, got {spec!r}, {val!r}")

    def _make_dynamic(self, ref: Ref) -> None:
        """A tensor that grows row by row must not be static, whatever its final size."""
        tensor = self.require_tensor_value(ref)
        fields = {**vars(tensor), "shape_dynamism": schema.TensorShapeDynamism.DYNAMIC_BOUND}
        self.values.values[ref.id] = schema.EValue(schema.Tensor(**fields))

    # ---- tensors

    def emit_spec(self, spec: Any) -> Any:
        """The value of a spec, emitted on first use; lists give lists."""
        if isinstance(spec, (list, tuple)):
            return [self.emit_spec(item) for item in spec]
        if spec is None:
            return self.values.literal(None)
        if not isinstance(spec, TensorSpec):
            raise InternalError(f"expected a tensor spec, got {spec!r}")
        return self._emit_leaf(spec)

    def _emit_leaf(self, spec: TensorSpec) -> Ref:
        known = self.values.of_spec(spec)
        if known is not None:
            return known
        ref = self.values.fresh(tensor_value(spec, allocation_info=self.allocation(spec)))
        self.values.bind_spec(spec, ref)
        return ref

    @staticmethod
    def allocation(spec: TensorSpec) -> schema.AllocationDetails | None:
        """Planned memory of a spec: its own, or a part of that of the spec that it is a view of."""
        offset = 0
        place: TensorSpec | None = spec
        while place is not None:
            if place.mem_id is not None and place.mem_offset is not None:
                return allocation_at(place.mem_id, place.mem_offset + offset)
            offset += place.storage_base_offset
            place = place.storage_base
        return None

    def constant_tensor(self, tensor: torch.Tensor, name: str) -> Ref:
        """A constant of the program with the tensor's own type and layout."""
        data, dim_order = dense(tensor)
        spec = TensorSpec(data.dtype, data.shape)
        index = self.program.constants.constant(data, name)
        return self.values.fresh(tensor_value(spec, dim_order=dim_order, data_buffer_idx=index))

    def _view(self, node: fx.Node) -> Ref:
        """A view of static memory is a second value over the same bytes; else et_view makes it."""
        base_arg, size = node.args[0], node.args[1]
        spec = node.meta["spec"]
        known = self.values.of_spec(spec)
        if known is not None:
            return known
        base = self.require_tensor(self.resolve(base_arg))
        shared = self._view_of_static(spec, self.require_tensor_value(base))
        if shared is None and spec.storage_offset():
            raise InternalError(
                f"a view starts {spec.storage_offset()} bytes into a tensor without planned "
                "memory; plan its base, or set share_windows=False"
            )
        ref = self.values.fresh(shared or tensor_value(spec))
        self.values.bind_spec(spec, ref)
        if shared is None:
            sizes = emit_argument(self, self.resolve(size), torch.ListType.ofInts())
            self.code.kernel("executorch_prim::et_view", "default", [base, sizes, ref])
        return ref

    def _view_of_static(self, spec: TensorSpec, base: schema.Tensor) -> schema.Tensor | None:
        """The view's tensor if its bytes are known now, else None."""
        if not spec.is_static_shape_tensor:
            return None
        place = self.allocation(spec)
        if place is not None:
            return tensor_value(spec, allocation_info=place)
        whole = base.extra_tensor_info is None and spec.storage_offset() == 0
        row_major = list(base.dim_order) == list(range(len(base.sizes)))
        if base.data_buffer_idx and whole and row_major:
            return tensor_value(spec, data_buffer_idx=base.data_buffer_idx)
        return None

    # ---- notes for tools

    def note_operator(self, node: fx.Node, index: int) -> None:
        """Record which graph node an instruction came from."""
        handle = node.meta.get("debug_handle")
        if handle is not None:
            self.debug_handle_map[index] = handle

    def chain(self) -> schema.Chain:
        """The finished Chain table of the program format."""
        frames = self.code.frames if self._emit_stacktrace else None
        return schema.Chain([], [], self.code.instructions, frames)


def _leaves(item: Any) -> Iterator[Any]:
    if isinstance(item, (list, tuple)):
        for part in item:
            yield from _leaves(part)
    elif isinstance(item, dict):
        yield from pytree.tree_leaves(item)
    else:
        yield item


def _at_node(error: Exception, node: fx.Node) -> Exception:
    """The same error with the node and the user's line in its message."""
    where = f"node '{node.name}' ({node.target})"
    line = source_line(node)
    message = f"{where}: {error}" + (f"\n  {line}" if line else "")
    if isinstance(error, (NotSupportedError, ValueError)):
        located: Exception = NotSupportedError(message)
    elif isinstance(error, ExportError):
        located = ExportError(error.error_code, message)
    else:
        located = InternalError(message)
    located.names_node = True  # type: ignore[attr-defined]
    return located
