"""Passes over single operators for users' backends: other operators with the same results.

Names and arguments are upstream's. The exporter and the XNNPACK delegate have passes of their own.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import fx, nn
from torch.export import ExportedProgram
from torch.fx.passes.infra.pass_base import PassResult

from executorch_py.exir.dialects.dim_order import DimOrderOpsMap
from executorch_py.exir.dialects.edge_ops import ops
from executorch_py.exir.ir.batch_norm import NormNumbers, folded
from executorch_py.exir.ir.program_constants import get_param_tensor, is_param_node
from executorch_py.exir.passes.to_edge.remove_noop import FoldRedundantDequantizeQuantizePass
from executorch_py.exir.passes.user.export_pass import ExportPass
from executorch_py.exir.passes.user.pass_values import NodeMetadata

__all__ = [
    "FuseBatchNormWithConvPass",
    "MeanToSumDiv",
    "RemoveCloneOpsTransform",
    "RemoveGetItemPass",
    "ReplaceScalarWithTensorArgPass",
]

# Dim-order operators must exist before the tables below name them.
assert DimOrderOpsMap
_aten: Any = ops.edge.aten
_EXACT_IN_FLOAT = 2**53  # integers up to here are floats as well


class MeanToSumDiv(ExportPass):
    """A mean becomes a sum and a quotient."""

    def call_operator(
        self, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any], meta: NodeMetadata
    ) -> Any:
        if op != _aten.mean.dim:
            return super().call_operator(op, args, kwargs, meta)
        value = args[0].data
        count = 1.0
        for dim in args[1]:
            count = count * value.shape[dim]
        total = super().call_operator(_aten.sum.dim_IntList, args, kwargs, meta)
        full = ([1], count)
        divisor = super().call_operator(_aten.full.default, full, {"dtype": value.dtype}, meta)
        return super().call_operator(_aten.div.Tensor, (total, divisor), {}, meta)


def _tensor_overloads() -> dict[Any, Any]:
    names = ("add", "sub", "mul", "div")
    spaces = (ops.edge.aten, torch.ops.aten)
    packets = [getattr(space, name) for space in spaces for name in names]
    return {packet.Scalar: packet.Tensor for packet in packets}


class ReplaceScalarWithTensorArgPass(ExportPass):
    """The number of `add.Scalar` and its like becomes a tensor of one element."""

    default_ops: ClassVar[dict[Any, Any]] = _tensor_overloads()

    def __init__(self, scalar_to_tensor_ops: Mapping[Any, Any] | None = None) -> None:
        super().__init__()
        given = self.default_ops if scalar_to_tensor_ops is None else scalar_to_tensor_ops
        self.scalar_to_tensor_ops = given

    def call_operator(
        self, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any], meta: NodeMetadata
    ) -> Any:
        sums = (_aten.add.Scalar, _aten.sub.Scalar)
        is_plain = len(args) == 2 or (op in sums and "alpha" not in kwargs)
        is_plain = is_plain and isinstance(args[1], (bool, int, float))
        if op not in self.scalar_to_tensor_ops or not is_plain:
            return super().call_operator(op, args, kwargs, meta)
        space = torch.ops.aten if isinstance(op, torch._ops.OpOverload) else _aten
        value = args[0].data
        # The number's own type would be lost in a tensor of integers, and its size in a float.
        kept = {"dtype": torch.result_type(value, args[1]), "device": value.device}
        given = float(args[1]) if abs(args[1]) <= _EXACT_IN_FLOAT else args[1]
        number = super().call_operator(space.full.default, ((1,), given), kept, meta)
        target = self.scalar_to_tensor_ops[op]
        return super().call_operator(target, (args[0], number, *args[2:]), kwargs, meta)


class RemoveCloneOpsTransform(ExportPass):
    """Clones that keep the layout are removed, and then pairs of dequantize and quantize.

    With `preserve_input_output_copies` clones from an input to an output stay.
    """

    clone_ops: ClassVar[set[Any]] = {
        _aten.clone.default,
        ops.edge.dim_order_ops._clone_dim_order.default,
    }

    def __init__(
        self,
        preserve_input_output_copies: bool = False,
        eliminate_quant_dequant_pairs: bool = True,
    ) -> None:
        super().__init__()
        self._keep_copies = preserve_input_output_copies
        self._fold_pairs = eliminate_quant_dequant_pairs

    def call(self, graph_module: fx.GraphModule) -> PassResult:
        removed = [node for node in graph_module.graph.nodes if self._is_noop(node)]
        for node in removed:
            node.replace_all_uses_with(node.args[0])
            graph_module.graph.erase_node(node)
        if removed and self._fold_pairs:
            FoldRedundantDequantizeQuantizePass().call(graph_module)
        if removed:
            graph_module.graph.eliminate_dead_code()
            graph_module.recompile()
        return PassResult(graph_module, bool(removed))

    def _is_noop(self, node: fx.Node) -> bool:
        if node.op != "call_function" or node.target not in self.clone_ops:
            return False
        source: Any = node.args[0]
        is_result = any(user.op == "output" for user in node.users)
        if self._keep_copies and source.op == "placeholder" and is_result:
            return False
        value, result = source.meta.get("val"), node.meta.get("val")
        if value is None or result is None:
            return True
        if node.target == _aten.clone.default:
            layout: Any = node.kwargs.get("memory_format")
            keeps = layout in (None, torch.preserve_format)
            return keeps or bool(value.is_contiguous(memory_format=layout))
        return bool(result.dim_order() == value.dim_order())


class RemoveGetItemPass(ExportPass):
    """Calls of which only the first result is used become calls with one result.

    These are `max_pool2d_with_indices` and `max.dim`, which becomes `amax`. A `max.dim` with two
    readers stays.
    """

    def call(self, graph_module: fx.GraphModule) -> PassResult:
        single = {
            _aten.max_pool2d_with_indices.default: _aten.max_pool2d.default,
            _aten.max.dim: _aten.amax.default,
        }
        modified = False
        for node in list(graph_module.graph.nodes):
            target = single.get(node.target) if node.op == "call_function" else None
            if target is None or (len(node.users) == 2 and target == _aten.amax.default):
                continue
            self._replace(graph_module.graph, node, target)
            modified = True
        if not modified:
            return PassResult(graph_module, False)
        graph_module.recompile()
        return PassResult(super().call(graph_module).graph_module, True)

    def _replace(self, graph: fx.Graph, node: fx.Node, target: Any) -> None:
        read = [(user.target, user.args[1]) for user in node.users]
        if read != [(operator.getitem, 0)]:
            raise AssertionError(
                f"node {node.name}: expected one reader, of its first result, got "
                f"{[user.name for user in node.users]}"
            )
        (item,) = node.users
        with graph.inserting_before(node):
            made = graph.call_function(target, node.args, node.kwargs)
        made.meta = {**node.meta, "val": node.meta["val"][0]}
        item.replace_all_uses_with(made)
        graph.erase_node(item)
        graph.erase_node(node)


class FuseBatchNormWithConvPass(ExportPass):
    """A batch norm after a convolution is folded into the convolution's weights.

    The new weights are parameters of the graph module.
    """

    def __init__(self, exported_program: ExportedProgram) -> None:
        super().__init__()
        self.exported_program = exported_program

    def call(self, graph_module: fx.GraphModule) -> PassResult:
        convolutions = [
            node
            for node in graph_module.graph.nodes
            if node.op == "call_function" and node.target == _aten.convolution.default
        ]
        fused = 0
        for conv in convolutions:
            norm = next(iter(conv.users)) if len(conv.users) == 1 else None
            if norm is None or not _is_norm(norm):
                continue
            if self.can_fuse(conv, norm, self.exported_program):
                self._fuse(graph_module, conv, norm, fused)
                fused += 1
        if fused == 0:
            return PassResult(graph_module, False)
        graph_module.recompile()
        return PassResult(super().call(graph_module).graph_module, True)

    @staticmethod
    def can_fuse(conv: fx.Node, bn: fx.Node, program: ExportedProgram) -> bool:
        """Whether a norm in inference has one result read, and the weights are constants."""
        reads = all(user.target is operator.getitem and user.args[1] == 0 for user in bn.users)
        is_trained = bn.target == _aten.native_batch_norm.default and bool(bn.args[5])
        weights = [conv.args[1], bn.args[1], *([] if conv.args[2] is None else [conv.args[2]])]
        constant = all(isinstance(w, fx.Node) and is_param_node(program, w) for w in weights)
        return reads and constant and not is_trained

    def _fuse(self, gm: fx.GraphModule, conv: fx.Node, norm: fx.Node, index: int) -> None:
        def value(node: Any) -> Any:
            return get_param_tensor(self.exported_program, node)

        gamma, beta, mean, variance = (value(node) for node in norm.args[1:5])
        eps: Any = norm.args[-1]
        groups: Any = conv.args[8]
        fused = folded(
            value(conv.args[1]),
            value(conv.args[2]),
            NormNumbers(mean, variance, eps, gamma, beta),
            transposed=bool(conv.args[6]),
            groups=groups,
        )
        made = []
        with gm.graph.inserting_before(conv):
            for part, tensor in zip(("weight", "bias"), fused, strict=True):
                name = f"_fused_with_bn_{part}_{index}"
                gm.register_parameter(name, nn.Parameter(tensor))
                made.append(gm.graph.get_attr(name))
        conv.args = (conv.args[0], *made, *conv.args[3:])
        for item in list(norm.users):
            item.replace_all_uses_with(conv)
            gm.graph.erase_node(item)
        gm.graph.erase_node(norm)


def _is_norm(node: fx.Node) -> bool:
    return node.target in (
        _aten.native_batch_norm.default,
        _aten._native_batch_norm_legit_no_training.default,
    )
