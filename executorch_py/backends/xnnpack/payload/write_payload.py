"""Serializes a finished graph: value ids, axes in memory order, constants as named data.

Values are numbered in the order in which nodes need them, constants once per layout in which they
are read. The bytes of constants are not copied: named data refers to the tensors, which are
permuted when the file is written.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from executorch_py.backends.xnnpack.payload import payload_flatbuffer as s
from executorch_py.backends.xnnpack.payload.graph import (
    Dynamic,
    Graph,
    Layout,
    Needs,
    Node,
    PerChannel,
    PerGroup,
    PerTensor,
    Shape,
    Symbol,
    Value,
    refusal,
    text_of,
    upper,
)
from executorch_py.backends.xnnpack.payload.payload_flatbuffer import Datatype, NodeKind
from executorch_py.backends.xnnpack.payload.quantization import packed_int4
from executorch_py.backends.xnnpack.payload.value_layout import (
    Order,
    in_memory,
    memory_order,
    memory_shape,
    order_of,
)
from executorch_py.exir.serialize.cord import StoredTensor
from executorch_py.exir.serialize.named_data import NamedDataStore, NamedDataStoreOutput

_ALIGNMENT = 16
_STORED: dict[Datatype, torch.dtype] = {
    Datatype.FP32: torch.float32,
    Datatype.FP16: torch.float16,
    Datatype.BF16: torch.bfloat16,
    Datatype.QINT8: torch.int8,
    Datatype.QCINT8: torch.int8,
    Datatype.QCINT4: torch.int8,
    Datatype.QBINT4: torch.int8,
    Datatype.QINT32: torch.int32,
    Datatype.QCINT32: torch.int32,
    Datatype.INT32: torch.int32,
}


class Assembler:
    """Serializes one graph to one payload and its named data."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._store = NamedDataStore()
        self._values: list[s.XValue] = []
        self._nodes: list[s.XNode] = []
        self._data: list[s.ConstantDataOffset] = [s.ConstantDataOffset(0, 0, "")]
        self._indices: dict[str, int] = {}
        self._ids: dict[Any, int] = {}
        self._external: dict[Value, tuple[int, int]] = {}

    def run(self) -> tuple[bytes, NamedDataStoreOutput]:
        """The payload and its named data."""
        inputs, outputs = self._graph.inputs, self._graph.outputs
        for i, value in enumerate(inputs):
            self._external[value] = (i, s.EXTERNAL_INPUT)
        for i, value in enumerate(outputs):
            self._external[value] = (len(inputs) + i, s.EXTERNAL_OUTPUT)
        for value in inputs:
            self._id(value)
        for node in self._graph.nodes:
            self._write(node)
        payload = s.XNNGraph(
            version="0",
            xnodes=self._nodes,
            xvalues=self._values,
            num_externs=len(inputs) + len(outputs),
            input_ids=[self._id(value) for value in inputs],
            output_ids=[self._id(value) for value in outputs],
            constant_buffer=None,
            mem_buffer_sizes=None,
            constant_data=self._data,
        )
        return s.payload_bytes(payload), self._store.get_named_data_store_output()

    # ---- values

    def _id(self, value: Value) -> int:
        """The id of a computed or external value."""
        if value not in self._ids:
            self._ids[value] = self._define(value, memory_shape(value))
        return self._ids[value]

    def _operand(self, node: Node, value: Value | None) -> int:
        """The id of an operand; a constant has one for each memory order in which it is read."""
        if value is None:
            return s.NO_ID
        if not value.is_constant:
            return self._id(value)
        order: Order = tuple(range(value.rank))
        rank = value.rank
        if not value.is_weight:
            rank = max(node.output.rank, value.rank)
            order = memory_order(rank, _layout(node))
            if math.prod(upper(value.shape)) == 1:
                order, rank = memory_order(value.rank, Layout.NATURAL), value.rank
        key = (value, rank, order)
        if key not in self._ids:
            self._ids[key] = self._constant(value, rank, order)
        return self._ids[key]

    def _constant(self, value: Value, rank: int, order: Order) -> int:
        assert value.data is not None
        data = value.data
        wanted = _STORED.get(value.datatype)
        if wanted is None:
            raise refusal(
                None, f"constant '{value.name}' of {data.dtype}", "constants of floats or int8"
            )
        data = data.reshape((1,) * (rank - data.dim()) + tuple(data.shape))
        dims = in_memory(tuple(data.shape), order, 1)
        # Memory may have dimensions of size 1 that the graph lacks; they change no byte.
        moved = data.permute([d for d in order if d is not None])
        if value.datatype in (Datatype.QCINT4, Datatype.QBINT4):
            moved = packed_int4(moved)
        index = self._store_tensor(
            moved.to(wanted) if moved.dtype is not torch.uint8 else moved, value
        )
        return self._define(value, dims, index)

    def _store_tensor(self, tensor: torch.Tensor, value: Value, prefix: str = "") -> int:
        """The index of a tensor among the payload's constants."""
        order: list[int] | None = None
        if not tensor.is_contiguous():
            order = sorted(range(tensor.dim()), key=lambda d: -tensor.stride(d))
            back = [order.index(d) for d in range(tensor.dim())]
            tensor, order = tensor.permute(order), back
            if not tensor.is_contiguous():
                tensor, order = tensor.permute(back).contiguous(), None
        stored = StoredTensor(tensor, value.name, order)
        key = prefix + stored.digest
        if key not in self._indices:
            self._store.add_named_data(
                key, stored, alignment=_ALIGNMENT, external_tag=value.external_tag
            )
            self._indices[key] = len(self._data)
            self._data.append(s.ConstantDataOffset(s.NAMED_OFFSET, len(stored), key))
        return self._indices[key]

    def _define(self, value: Value, dims: Shape, constant: int = 0) -> int:
        if len(dims) > s.MAX_DIMS:
            raise refusal(
                value.producer.origin if value.producer else None,
                f"'{value.name}' of {len(dims)} dimensions",
                f"at most {s.MAX_DIMS}",
            )
        number = len(self._values)
        external, flags = self._external.get(value, (s.NO_ID, 0))
        tensor = s.XNNTensorValue(
            value.datatype, len(dims), upper(dims), constant, external, flags, number
        )
        if value.quantization is None:
            if value.datatype in (Datatype.QINT8, Datatype.QUINT8):
                raise refusal(
                    value.producer.origin if value.producer else None,
                    f"quantized elements in '{value.name}' without a scale",
                    "a dequantization that reads them",
                )
            self._values.append(s.XValue(tensor))
        else:
            how = self._quantization(value)
            self._values.append(s.XValue(s.XNNQuantizedTensorValue(tensor, how)))
        return number

    def _quantization(self, value: Value) -> Any:
        how = value.quantization
        if isinstance(how, PerTensor):
            return s.PerTensorQuant(how.scale, how.zero_point)
        if isinstance(how, Dynamic):
            return s.PerTokenDynamicQuant(how.n_nonbatch_dims)
        assert isinstance(how, (PerChannel, PerGroup))
        if isinstance(how, PerChannel):
            scales = how.scales.to(torch.float32).reshape(-1).contiguous()
            index = self._store_tensor(scales, value, "scale_")
            return s.PerChannelQuant((), how.axis, index, scales.numel())
        scales = how.scales.to(torch.bfloat16).reshape(-1).contiguous()
        index = self._store_tensor(scales, value, "scale_")
        return s.PerChannelGroupQuant((), 0, how.group_size, (), index, scales.numel())

    # ---- nodes

    def _write(self, node: Node) -> None:
        if node.kind is NodeKind.STATIC_TRANSPOSE:
            self._write_transpose(node)
            return
        fields = _FIELDS.get(node.kind, _unary)(self, node)
        self._append(node, node.kind, fields)

    def _append(self, node: Node, kind: NodeKind, fields: dict[str, Any]) -> None:
        bounds = None if node.clamp is None else s.OutputMinMax(*node.clamp)
        table = s.NODE_TABLES[kind](**fields, flags=node.flags)
        self._nodes.append(s.XNode(table, node.debug_handle, bounds))

    def _write_transpose(self, node: Node) -> None:
        """Append a permutation; reshapes add or remove the height 1 of a row of pixels."""
        source, result = node.input(), node.output
        perm = node.attributes["perm"]
        start = [d for d in order_of(source) if d is not None]
        end = [perm[d] for d in order_of(result) if d is not None]
        current = self._id(source)
        if len(start) != len(order_of(source)):
            current = self._reshaped(node, current, tuple(source.shape[d] for d in start), source)
        moves = tuple(start.index(d) for d in end)
        shape = tuple(source.shape[d] for d in end)
        last = len(order_of(result)) == len(end)
        made = self._id(result) if last else self._define(_anonymous(result), shape)
        fields = {"num_dims": len(moves), "perm": moves, "input_id": current, "output_id": made}
        self._append(node, NodeKind.STATIC_TRANSPOSE, fields)
        if not last:
            self._append(node, NodeKind.STATIC_RESHAPE, self._reshape(made, result))

    def _reshaped(self, node: Node, current: int, shape: Shape, like: Value) -> int:
        made = self._define(_anonymous(like), shape)
        fields = {
            "num_dims": len(shape),
            "new_shape": _new_shape(node, shape),
            "input_id": current,
            "output_id": made,
        }
        self._append(node, NodeKind.STATIC_RESHAPE, fields)
        return made

    def _reshape(self, current: int, result: Value) -> dict[str, Any]:
        shape = memory_shape(result)
        return {
            "num_dims": len(shape),
            "new_shape": _new_shape(result.producer, shape),
            "input_id": current,
            "output_id": self._id(result),
        }


def _anonymous(like: Value) -> Value:
    """A new value with name, shape and type of another."""
    return Value(like.name, like.shape, like.datatype, like.quantization)


def _layout(node: Node) -> Layout:
    """The layout in which a node reads its operands."""
    if node.needs is Needs.IMAGE:
        return Layout.IMAGE
    return node.output.layout if node.needs is Needs.EITHER else Layout.NATURAL


def _new_shape(node: Node | None, shape: Shape) -> tuple[int, ...]:
    """The sizes of a reshape, with 0 for the inferred one."""
    sizes = tuple(0 if isinstance(size, Symbol) else size for size in shape)
    if sum(size == 0 for size in sizes) > 1:
        origin = node.origin if node is not None else None
        raise refusal(
            origin,
            f"a reshape to {text_of(shape)}",
            "at most one size that is known at run time only",
        )
    return sizes


# ---- the fields of each kind of node


def _unary(a: Assembler, node: Node) -> dict[str, Any]:
    return {"input_id": a._operand(node, node.input()), "output_id": a._id(node.output)}


def _binary(a: Assembler, node: Node) -> dict[str, Any]:
    return {
        "input1_id": a._operand(node, node.input(0)),
        "input2_id": a._operand(node, node.input(1)),
        "output_id": a._id(node.output),
    }


def _weighted(a: Assembler, node: Node) -> dict[str, Any]:
    return {
        "input1_id": a._operand(node, node.input(0)),
        "filter_id": a._operand(node, node.input(1)),
        "bias_id": a._operand(node, node.inputs[2]),
        "output_id": a._id(node.output),
    }


def _sides(start: tuple[int, int], end: tuple[int, int]) -> dict[str, int]:
    return {
        "padding_top": start[0],
        "padding_left": start[1],
        "padding_bottom": end[0],
        "padding_right": end[1],
    }


def _pairs(node: Node, **names: str) -> dict[str, int]:
    """The height and width fields of attributes that are pairs."""
    fields = {}
    for attribute, name in names.items():
        fields[f"{name}_height"], fields[f"{name}_width"] = node.attributes[attribute]
    return fields


def _convolution(a: Assembler, node: Node) -> dict[str, Any]:
    padding = node.attributes["padding"]
    names = ("group_input_channels", "group_output_channels", "groups")
    return {
        **_sides(padding, padding),
        **_pairs(
            node,
            kernel="kernel",
            stride="subsampling",
            dilation="dilation",
            adjustment="adjustment",
        ),
        **{name: node.attributes[name] for name in names},
        **_weighted(a, node),
    }


def _pooling(a: Assembler, node: Node) -> dict[str, Any]:
    return {
        **_sides(node.attributes["padding"], node.attributes["padding_end"]),
        **_pairs(node, kernel="pooling", stride="stride", dilation="dilation"),
        **_unary(a, node),
    }


def _arg_max(a: Assembler, node: Node) -> dict[str, Any]:
    return {
        **_sides(node.attributes["padding"], node.attributes["padding"]),
        **_pairs(node, kernel="pooling"),
        "input_id": a._operand(node, node.input()),
        "output_value_id": a._id(node.outputs[0]),
        "output_index_id": a._id(node.outputs[1]),
    }


def _concatenate(a: Assembler, node: Node) -> dict[str, Any]:
    axis = order_of(node.output).index(node.attributes["axis"])
    ids = [a._operand(node, value) for value in node.inputs]
    ids += [s.NO_ID] * (5 - len(ids))
    fields = {f"input{i + 1}_id": number for i, number in enumerate(ids)}
    return {"axis": axis, **fields, "output_id": a._id(node.output)}


def _reshape_fields(a: Assembler, node: Node) -> dict[str, Any]:
    return a._reshape(a._operand(node, node.input()), node.output)


def _slice_fields(a: Assembler, node: Node) -> dict[str, Any]:
    """The fields of a slice; 0 is the size of a whole dimension that is known at run time only."""
    order = order_of(node.output)
    sizes = memory_shape(node.output)
    return {
        "num_dims": len(order),
        "offsets": in_memory(node.attributes["offsets"], order, 0),
        "sizes": tuple(0 if isinstance(size, Symbol) else size for size in sizes),
        **_unary(a, node),
    }


def _pad_fields(a: Assembler, node: Node) -> dict[str, Any]:
    order = order_of(node.output)
    return {
        "pre_paddings": in_memory(node.attributes["before"], order, 0),
        "post_paddings": in_memory(node.attributes["after"], order, 0),
        "padding_value": node.attributes["padding_value"],
        **_unary(a, node),
    }


def _resize_fields(a: Assembler, node: Node) -> dict[str, Any]:
    height, width = node.output.shape[2:]
    return {"new_height": height, "new_width": width, **_unary(a, node)}


def _with_number(name: str) -> Callable[[Assembler, Node], dict[str, Any]]:
    return lambda a, node: {name: node.attributes[name], **_unary(a, node)}


_FIELDS: dict[NodeKind, Callable[[Assembler, Node], dict[str, Any]]] = {
    **dict.fromkeys(
        (
            NodeKind.ADD,
            NodeKind.SUBTRACT,
            NodeKind.MULTIPLY,
            NodeKind.DIV,
            NodeKind.MINIMUM,
            NodeKind.MAXIMUM,
            NodeKind.PRELU,
            NodeKind.BATCH_MATRIX_MULTIPLY,
        ),
        _binary,
    ),
    **dict.fromkeys(
        (NodeKind.CONV_2D, NodeKind.DEPTHWISE_CONV_2D, NodeKind.CONV_TRANSPOSE_2D), _convolution
    ),
    **dict.fromkeys((NodeKind.AVG_POOLING_2D, NodeKind.MAX_POOLING_2D), _pooling),
    **dict.fromkeys(
        (
            NodeKind.CONCATENATE_2,
            NodeKind.CONCATENATE_3,
            NodeKind.CONCATENATE_4,
            NodeKind.CONCATENATE_5,
        ),
        _concatenate,
    ),
    NodeKind.ARG_MAX_POOLING_2D: _arg_max,
    NodeKind.ELU: _with_number("alpha"),
    NodeKind.FULLY_CONNECTED: _weighted,
    NodeKind.LEAKY_RELU: _with_number("negative_slope"),
    NodeKind.STATIC_CONSTANT_PAD: _pad_fields,
    NodeKind.STATIC_RESHAPE: _reshape_fields,
    NodeKind.STATIC_RESIZE_BILINEAR_2D: _resize_fields,
    NodeKind.STATIC_SLICE: _slice_fields,
}
