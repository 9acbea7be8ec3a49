"""Bf16Products: f32 products with constant weights round their operands to bfloat16.

Linear layers and convolutions of one group become operators of dialects/bf16_ops.py, with the
epilogue that they have. Weights are stored in bfloat16, in the panels that the kernels read. Images
are channels-last there: others are copied, if that is little beside the convolution. Products of
two computed tensors stay in f32. The setting `precision` asks for this pass. Relies on
`meta["val"]`; runs after the passes that choose layouts and epilogues.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export import ExportedProgram

from executorch_py.exir.dialects import bf16_ops
from executorch_py.exir.dialects.edge_ops import edge_op, ops
from executorch_py.exir.ir.constants import add_constants, drop_unused_constants
from executorch_py.exir.ir.evaluate import is_plain
from executorch_py.exir.ir.fake_values import (
    evaluate,
    fake_evaluation,
    fake_mode_of,
    is_contiguous,
)
from executorch_py.exir.ir.graph import erase_dead_nodes, foldable_constants
from executorch_py.exir.ir.match import argument, is_call
from executorch_py.exir.passes.base import Contract, Fact, Pass, facts

_MM = ("aten::mm", "executorch_py::mm")
_ADDMM = ("aten::addmm", "executorch_py::addmm")
_CONVOLUTION = ("aten::convolution", "executorch_py::convolution")
_TRANSPOSES = ("aten::permute_copy", "aten::transpose_copy.int", "aten::t_copy")

# Multiply-adds of a convolution for each element of an image that is copied for it.
_MIN_WORK_OF_COPIES = 128


class Bf16Products(Pass):
    """Compute products with constant weights in bfloat16, with sums of f32."""

    contract = Contract(requires=facts(Fact.FUNCTIONAL))

    def run(self, program: ExportedProgram) -> bool:
        mode = fake_mode_of(program.graph_module)
        if mode is None:
            return False
        lowering = _Lowering(program, mode)
        changed = any([lowering.lower(node) for node in list(program.graph.nodes)])
        if changed:
            erase_dead_nodes(program.graph)
            drop_unused_constants(program, set(lowering.constants))
        return changed


class _Lowering:
    """One program's top graph, its constants, and the packed ones that replace them."""

    def __init__(self, program: ExportedProgram, mode: FakeTensorMode) -> None:
        self.program = program
        self.mode = mode
        self.constants = {k: v for k, v in foldable_constants(program).items() if is_plain(v)}
        self.made: dict[tuple[Any, ...], fx.Node] = {}
        self.copies: dict[fx.Node, fx.Node] = {}  # image -> channels-last copy

    def lower(self, node: fx.Node) -> bool:
        if not _is_f32(node):
            return False
        if is_call(node, *_CONVOLUTION):
            return self._lower_convolution(node)
        return is_call(node, *_MM, *_ADDMM) and self._lower_linear(node)

    def _lower_linear(self, node: fx.Node) -> bool:
        is_mm = is_call(node, *_MM)
        if not is_mm and (argument(node, "beta") != 1 or argument(node, "alpha") != 1):
            return False
        left, right = (argument(node, k) for k in (("self", "mat2") if is_mm else ("mat1", "mat2")))
        weight = self._matrix(right)
        bias = None if is_mm else argument(node, "self")
        if weight is None or not _is_f32(left) or not is_contiguous(left.meta["val"]):
            return False
        n = weight.shape[0]
        if bias is not None and not self._is_bias(bias, n):
            return False
        packed = self._made(("matrix", right.name), "bf16_weight", bf16_ops.packed_weight(weight))
        node.args = (left, packed, self._bias(bias), n, *_epilogue(node))
        node.kwargs = {}
        node.target = edge_op(torch.ops.executorch_py.linear_bf16.default)
        return True

    def _lower_convolution(self, node: fx.Node) -> bool:
        image, kernel = argument(node, "input"), argument(node, "weight")
        weight, bias = self._constant(kernel), argument(node, "bias")
        geometry = [_pair(argument(node, k)) for k in ("stride", "padding", "dilation")]
        if weight is None or weight.dim() != 4 or not _is_f32(image) or None in geometry:
            return False
        n, c_in, *size = weight.shape
        if argument(node, "transposed") or argument(node, "groups") != 1 or 0 in weight.shape:
            return False
        if bias is not None and not self._is_bias(bias, n):
            return False
        text, numbers, tensors = _epilogue(node)
        copied = [v for v in (image, node, *tensors) if not _is_channels_last(v)]
        if copied and not _is_worth_copies(node, c_in * size[0] * size[1], copied):
            return False
        packed = self._made(
            ("kernel", kernel.name),
            "bf16_weight",
            bf16_ops.packed_weight(bf16_ops.matrix_of_kernel(weight)),
        )
        operands = [self._channels_last(v, node) for v in (image, *tensors)]
        target = edge_op(torch.ops.executorch_py.convolution_bf16.default)
        args = (operands[0], packed, self._bias(bias), n, list(size), *geometry)
        args += (text, numbers, operands[1:])
        if _is_channels_last(node):
            node.target, node.args, node.kwargs = target, args, {}
            return True
        result = self._call(node, target, *args)
        node.replace_all_uses_with(self._copy(node, result, [0, 1, 2, 3]))
        return True

    def _channels_last(self, image: fx.Node, before: fx.Node) -> fx.Node:
        if _is_channels_last(image):
            return image
        if image not in self.copies:
            self.copies[image] = self._copy(before, image, [0, 2, 3, 1])
        return self.copies[image]

    def _copy(self, before: fx.Node, image: fx.Node, dim_order: list[int]) -> fx.Node:
        copy = ops.edge.dim_order_ops._to_dim_order_copy.default  # not known while modules load
        return self._call(before, copy, image, dim_order=dim_order)

    def _call(self, before: fx.Node, target: Any, *args: Any, **kwargs: Any) -> fx.Node:
        with self.program.graph.inserting_before(before):
            node = self.program.graph.call_function(target, args, kwargs)
        if "stack_trace" in before.meta:
            node.meta["stack_trace"] = before.meta["stack_trace"]
        with fake_evaluation(self.mode):
            node.meta["val"] = evaluate(node)
        return node

    def _matrix(self, node: Any) -> torch.Tensor | None:
        """The f32 weight [columns, terms] of a constant right operand."""
        if is_call(node, *_TRANSPOSES):
            value = self._constant(node.args[0])
            dims = [d % 2 for d in node.args[1]] if is_call(node, _TRANSPOSES[0]) else [1, 0]
            if value is not None and (value.dim() != 2 or dims != [1, 0]):
                return None
            return value
        value = self._constant(node)
        return value.t() if value is not None and value.dim() == 2 else None

    def _constant(self, node: Any) -> torch.Tensor | None:
        value = self.constants.get(node.name) if isinstance(node, fx.Node) else None
        return None if value is None or value.dtype != torch.float32 else value.detach()

    def _is_bias(self, node: Any, n: int) -> bool:
        value = self._constant(node)
        return value is not None and value.shape == (n,)

    def _bias(self, node: fx.Node | None) -> fx.Node | None:
        if node is None:
            return None
        value = bf16_ops.packed_bias(self.constants[node.name].detach())
        return self._made(("bias", node.name), "bf16_bias", value)

    def _made(self, key: tuple[Any, ...], base: str, value: torch.Tensor) -> fx.Node:
        if key not in self.made:
            with self.mode:
                example = torch.empty(value.shape, dtype=value.dtype)
            (self.made[key],) = add_constants(self.program, [(base, value, example, {})])
        return self.made[key]


def _epilogue(node: fx.Node) -> tuple[Any, ...]:
    """Text, numbers and tensors of a node's epilogue; an empty one of torch's own operators."""
    if is_call(node, "aten::mm", "aten::addmm", "aten::convolution"):
        return "", [], []
    return tuple(argument(node, name) for name in ("chain", "numbers", "tensors"))


def _pair(values: Any) -> list[int] | None:
    """Two numbers of a convolution's attribute, if they are constants."""
    if not all(isinstance(v, int) for v in values) or len(values) not in (1, 2):
        return None
    return [*values] * (2 // len(values))


def _is_channels_last(node: fx.Node) -> bool:
    value = node.meta["val"]
    return bool(value.dim() == 4 and value.is_contiguous(memory_format=torch.channels_last))


def _is_worth_copies(convolution: fx.Node, terms: int, images: list[fx.Node]) -> bool:
    """Whether images of known sizes are few elements beside a convolution's multiply-adds."""
    values = [n.meta["val"] for n in (convolution, *images)]
    if not all(isinstance(size, int) for v in values for size in v.shape):
        return False
    copied = sum(v.numel() for v in values[1:])
    return bool(values[0].numel() * terms >= _MIN_WORK_OF_COPIES * copied)


def _is_f32(node: Any) -> bool:
    value = node.meta.get("val") if isinstance(node, fx.Node) else None
    return isinstance(value, torch.Tensor) and value.dtype == torch.float32
