"""Builds the graph of XNNPACK nodes from a partition in the edge dialect, operator by operator.

The builder walks the program once and passes each call to the visitor of its operator (ops/), which
reads values from the builder and emits nodes. The builder knows placeholders, constants and shapes;
only visitors know the semantics of operators.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, TypeAlias, TypeVar

import torch
from torch import fx
from torch.export import ExportedProgram

from executorch_py.backends.xnnpack.payload.graph import (
    Graph,
    Needs,
    Node,
    PerChannel,
    PerGroup,
    PerTensor,
    Shape,
    Size,
    Symbol,
    Value,
    needs_of,
    refusal,
    text_of,
    upper,
)
from executorch_py.backends.xnnpack.payload.payload_flatbuffer import Datatype, NodeKind
from executorch_py.backends.xnnpack.payload.quantization import dequantized
from executorch_py.exir.ir.graph import constant_tensors, flat_outputs
from executorch_py.exir.ir.match import argument
from executorch_py.exir.ir.op_traits import is_getitem, is_scalar_op, op_key
from executorch_py.exir.ir.symbolic_sizes import eval_upper_bound
from executorch_py.exir.ir.tensor_spec import dim_order_from_stride

_Made = TypeVar("_Made")

# Results of a visitor: one value, or one per result of the operator (None: it must not be read).
Made: TypeAlias = Value | tuple[Value | None, ...]
Visitor: TypeAlias = Callable[["Builder", fx.Node], Made]

DATATYPES: dict[torch.dtype, Datatype] = {
    torch.float32: Datatype.FP32,
    torch.float16: Datatype.FP16,
    torch.bfloat16: Datatype.BF16,
    torch.int8: Datatype.QINT8,
    torch.uint8: Datatype.QUINT8,
    torch.int32: Datatype.INT32,
    # XNNPACK writes indices as int32; the runtime casts them to int64 in the caller's tensor.
    torch.int64: Datatype.INT32,
}
FLOATS = {Datatype.FP32: torch.float32, Datatype.FP16: torch.float16, Datatype.BF16: torch.bfloat16}


class Builder:
    """The interface of visitors to program and graph; `build` runs all visitors."""

    def __init__(self, program: ExportedProgram, visitors: Mapping[str, Visitor]) -> None:
        self.graph = Graph()
        self._program = program
        self._visitors = visitors
        self._made: dict[fx.Node, Made] = {}
        self._sizes: dict[str, Size] = {}
        self._kept: dict[Any, Any] = {}
        self._node: fx.Node | None = None

    # ---- the walk

    def build(self) -> Graph:
        """The graph of the whole partition."""
        constants = constant_tensors(self._program)
        for node in self._program.graph.nodes:
            self._node = node
            if node.op == "placeholder":
                self._made[node] = self._placeholder(node, constants)
            elif node.op == "call_function":
                self._call(node)
            elif node.op != "output":
                self.refuse(f"a node of kind '{node.op}'", "operators, constants and inputs")
        self._node = None
        self._return_outputs()
        self.graph.drop_dead()
        return self.graph

    def _placeholder(self, node: fx.Node, constants: dict[str, torch.Tensor]) -> Made:
        example = node.meta.get("val")
        if node.name in constants:
            tensor = constants[node.name].detach()
            value = self.constant(tensor, node.name)
            custom = node.meta.get("custom") or {}
            value.external_tag = custom.get("delegate_constant_tag")
            return value
        if not isinstance(example, torch.Tensor):
            if not node.users:
                return ()
            self.refuse(f"an input of type {type(example).__name__}", "tensors as inputs")
        value = self._external(node, example)
        if example.dtype is torch.int64:
            self.refuse("an input of int64", "floating-point, int8 or int32 inputs")
        self.graph.inputs.append(value)
        return value

    def _external(self, node: fx.Node, example: torch.Tensor) -> Value:
        value = Value(node.name, self.shape_of(example), self.datatype_of(example.dtype))
        value.dim_order = dim_order_from_stride(example.stride(), example.shape)
        return value

    def _call(self, node: fx.Node) -> None:
        if is_getitem(node.target):
            source: Any = node.args[0]
            results = self._made[source]
            assert isinstance(results, tuple) and isinstance(node.args[1], int)
            chosen = results[node.args[1]]
            if chosen is None:
                self.refuse(f"result {node.args[1]} of '{source.name}' being read", "other results")
            self._made[node] = chosen
            return
        if is_scalar_op(node.target):
            return  # Sizes are inferred at run time; visitors that need a known one refuse it.
        visitor = self._visitors.get(op_key(node.target))
        if visitor is None:
            self.refuse("no translation of the operator", "one of the operators of ops/")
        self._made[node] = visitor(self, node)

    def _return_outputs(self) -> None:
        for node in flat_outputs(self._program.graph):
            if not isinstance(node, fx.Node) or not isinstance(self._made.get(node), Value):
                raise refusal(None, f"output {node!r}", "tensors as outputs")
            value, example = self.value(node), node.meta["val"]
            self._node = node
            shared = value.is_constant or value in self.graph.inputs or value in self.graph.outputs
            if shared or value.is_weight:
                value = self.emit(NodeKind.COPY, [value])
            value.dim_order = dim_order_from_stride(example.stride(), example.shape)
            self.graph.outputs.append(value)
            self._node = None

    # ---- arguments

    def refuse(self, got: str, expected: str) -> NoReturn:
        """Raise the error for the current node."""
        raise refusal(self._node, got, expected)

    def value(self, node: Any) -> Value:
        """The value of a tensor argument."""
        made = self._made.get(node) if isinstance(node, fx.Node) else None
        if not isinstance(made, Value):
            self.refuse(f"{node!r} as an operand", "a tensor")
        return made

    def input(self, node: fx.Node, name: str) -> Value:
        """The value of the tensor argument `name`."""
        return self.value(argument(node, name))

    def optional(self, node: fx.Node, name: str) -> Value | None:
        """The value of a tensor argument that may be None."""
        arg = argument(node, name)
        return None if arg is None else self.value(arg)

    def number(self, node: fx.Node, name: str) -> float:
        """An argument that is a number known ahead of time, or a constant of one element."""
        arg = argument(node, name)
        if isinstance(arg, (int, float)):
            return float(arg)
        made = self._made.get(arg) if isinstance(arg, fx.Node) else None
        if isinstance(made, Value) and made.data is not None and made.data.numel() == 1:
            return float(made.data.item())
        self.refuse(f"{name}={arg!r}", "a number known ahead of time")

    def integer(self, node: fx.Node, name: str) -> int:
        """An argument that is a whole number known ahead of time."""
        arg = argument(node, name)
        if not isinstance(arg, int):
            self.refuse(f"{name}={arg!r}", "a whole number known ahead of time")
        return arg

    def integers(self, node: fx.Node, name: str) -> list[int]:
        """An argument that is a list of known whole numbers; a single number is a list of one."""
        arg = argument(node, name)
        items = [arg] if isinstance(arg, int) else list(arg)
        if not all(isinstance(item, int) for item in items):
            self.refuse(f"{name}={arg!r}", "whole numbers known ahead of time")
        return items

    def axis(self, dim: int, rank: int) -> int:
        """A dimension counted from the front."""
        return dim + rank if dim < 0 else dim

    def size(self, size: Any) -> Size:
        """A size of an example value, as a number or a symbol."""
        if isinstance(size, int):
            return int(size)
        text = str(size)
        if text not in self._sizes:
            if text.lstrip("-").isdigit():
                self._sizes[text] = int(text)
            else:
                self._sizes[text] = Symbol(text, eval_upper_bound(size))
        return self._sizes[text]

    def shape_of(self, example: torch.Tensor) -> Shape:
        return tuple(self.size(size) for size in example.shape)

    def result_shape(self, node: fx.Node) -> Shape:
        """The shape of the node's only result."""
        return self.shape_of(node.meta["val"])

    def datatype_of(self, dtype: torch.dtype) -> Datatype:
        if dtype not in DATATYPES:
            self.refuse(f"{dtype} elements", f"one of {[str(d) for d in DATATYPES]}")
        return DATATYPES[dtype]

    # ---- values and nodes

    def constant(self, tensor: torch.Tensor, name: str) -> Value:
        """A constant; one of integers needs a quantization or a cast before serialization."""
        datatype = DATATYPES.get(tensor.dtype, Datatype.INVALID)
        return Value(name, tuple(tensor.shape), datatype, data=tensor)

    def scalar(self, number: float, like: Value) -> Value:
        """A constant of one element with the element type of another value."""
        dtype = FLOATS.get(like.datatype, torch.float32)
        return self.constant(torch.tensor([number], dtype=dtype), f"{number:g}")

    def emit(
        self,
        kind: NodeKind,
        inputs: Sequence[Value | None],
        shape: Shape | None = None,
        datatype: Datatype | None = None,
        needs: Needs | None = None,
        flags: int = 0,
        clamp: tuple[float, float] | None = None,
        **attributes: Any,
    ) -> Value:
        """Append a node; its result has shape and type of the first input by default."""
        first = inputs[0]
        assert first is not None and self._node is not None
        output = Value(
            self._node.name,
            first.shape if shape is None else shape,
            first.datatype if datatype is None else datatype,
        )
        node = Node(
            kind,
            list(inputs),
            [output],
            attributes,
            flags,
            clamp,
            needs_of(kind) if needs is None else needs,
            self._node,
        )
        output.producer = node
        self.graph.nodes.append(node)
        return output

    def emit_all(self, kind: NodeKind, inputs: Sequence[Value], outputs: list[Value]) -> Node:
        """Append a node with several results."""
        node = Node(kind, list(inputs), outputs, {}, 0, None, needs_of(kind), self._node)
        for output in outputs:
            output.producer = node
        self.graph.nodes.append(node)
        return node

    def once(self, key: Any, make: Callable[[], _Made]) -> _Made:
        """The cached result of `make` for a key, for nodes that several calls share."""
        if key not in self._kept:
            self._kept[key] = make()
        made: _Made = self._kept[key]
        return made

    def in_float32(self, value: Value, compute: Callable[[Value], Value]) -> Value:
        """The result of `compute` in float32, for node kinds without a float16 kernel."""
        if value.datatype is not Datatype.FP16:
            return compute(value)
        result = compute(self.emit(NodeKind.CONVERT, [value], datatype=Datatype.FP32))
        return self.emit(NodeKind.CONVERT, [result], datatype=Datatype.FP16)

    def binary(self, kind: NodeKind, a: Value, b: Value) -> Value:
        """Append an element-wise node over two values, which broadcast.

        Either value may be a quantized constant, in place of its floats.
        """
        datatype = b.datatype if a.datatype not in FLOATS else a.datatype
        return self.emit(kind, [a, b], shape=broadcast(a.shape, b.shape), datatype=datatype)

    def derived(self, source: Value, data: torch.Tensor) -> Value:
        """A constant computed from another one, with the same external data file."""
        made = self.constant(data, source.name)
        made.external_tag = source.external_tag
        return made

    def cast(self, value: Value, dtype: torch.dtype) -> Value:
        """A constant of floats in another precision."""
        assert value.data is not None
        return value if value.data.dtype is dtype else self.derived(value, value.data.to(dtype))

    def weight(self, value: Value) -> Value:
        """A constant whose memory order is fixed for its node; computed values stay unchanged."""
        if value.data is None:
            return value
        made = self.derived(value, value.data)
        made.quantization, made.datatype = value.quantization, value.datatype
        made.is_weight = True
        return made

    def reshape(self, value: Value, shape: Shape) -> Value:
        """A value in another shape; constants are reshaped ahead of time."""
        if value.shape == shape:
            return value
        if value.data is not None:
            if isinstance(value.quantization, PerTensor):
                made = self.derived(value, value.data.reshape(upper(shape)))
                made.quantization = value.quantization
                return made
            return self.derived(value, dequantized(value).reshape(upper(shape)))
        if sum(isinstance(size, Symbol) for size in shape) > 1:
            self.refuse(
                f"a reshape to {text_of(shape)}",
                "at most one size that is known at run time only",
            )
        return self.emit(NodeKind.STATIC_RESHAPE, [value], shape=shape)

    def transpose(self, value: Value, perm: Sequence[int]) -> Value:
        """A value with permuted dimensions; constants are permuted ahead of time."""
        if list(perm) == list(range(value.rank)):
            return value
        if value.data is not None:
            made = self.derived(value, value.data.permute(list(perm)))
            made.quantization, made.datatype = value.quantization, value.datatype
            if isinstance(value.quantization, PerChannel):
                axis = list(perm).index(value.quantization.axis)
                made.quantization = PerChannel(value.quantization.scales, axis)
            elif isinstance(value.quantization, PerGroup):
                self.refuse("a transposed weight with scales per group", "one not transposed")
            return made
        shape = tuple(value.shape[d] for d in perm)
        return self.emit(NodeKind.STATIC_TRANSPOSE, [value], shape=shape, perm=tuple(perm))

    def slice(self, value: Value, dim: int, start: int, size: int) -> Value:
        """The slice of `size` elements from `start` along one dimension."""
        if value.shape[dim] == size:
            return value
        if value.data is not None and value.quantization is None:
            return self.derived(value, value.data.narrow(dim, start, size))
        shape = (*value.shape[:dim], size, *value.shape[dim + 1 :])
        offsets = tuple(start if d == dim else 0 for d in range(value.rank))
        return self.emit(NodeKind.STATIC_SLICE, [value], shape=shape, offsets=offsets)

    def require_float(self, value: Value) -> None:
        """Refuse integers without a quantization; passes fold quantization later."""
        if value.datatype not in FLOATS and value.quantization is None:
            self.refuse(f"{value.datatype.name} elements in '{value.name}'", "float32 or float16")


def broadcast(a: Shape, b: Shape) -> Shape:
    """The shape of an element-wise result."""
    rank = max(len(a), len(b))
    left: Shape = (1,) * (rank - len(a)) + tuple(a)
    right: Shape = (1,) * (rank - len(b)) + tuple(b)
    return tuple(q if p == 1 else p for p, q in zip(left, right, strict=True))
