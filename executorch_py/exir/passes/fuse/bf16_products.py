"""Bf16Products: f32 products with constant weights round their operands to bfloat16.

Linear layers become operators of dialects/bf16_ops.py, with the epilogue that they have. Weights
are stored in bfloat16, in the panels that the kernels read. Products of two computed tensors stay
in f32. The setting `precision` asks for this pass. Relies on `meta["val"]`; runs after the passes
that choose layouts and epilogues.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram

from executorch_py.exir.dialects import bf16_ops
from executorch_py.exir.dialects.edge_ops import edge_op
from executorch_py.exir.ir.constants import add_constants, drop_unused_constants
from executorch_py.exir.ir.evaluate import is_plain
from executorch_py.exir.ir.fake_values import fake_mode_of, is_contiguous
from executorch_py.exir.ir.graph import erase_dead_nodes, foldable_constants
from executorch_py.exir.ir.match import argument, is_call
from executorch_py.exir.passes.base import Contract, Fact, Pass, facts

_MM = ("aten::mm", "executorch_py::mm")
_ADDMM = ("aten::addmm", "executorch_py::addmm")
_TRANSPOSES = ("aten::permute_copy", "aten::transpose_copy.int", "aten::t_copy")


class Bf16Products(Pass):
    """Compute products with constant weights in bfloat16, with sums of f32."""

    contract = Contract(requires=facts(Fact.FUNCTIONAL))

    def run(self, program: ExportedProgram) -> bool:
        if fake_mode_of(program.graph_module) is None:
            return False
        lowering = _Lowering(program)
        changed = any([lowering.lower(node) for node in list(program.graph.nodes)])
        if changed:
            erase_dead_nodes(program.graph)
            drop_unused_constants(program, set(lowering.constants))
        return changed


class _Lowering:
    """One program's top graph, its constants, and the packed ones that replace them."""

    def __init__(self, program: ExportedProgram) -> None:
        self.program = program
        self.constants = {k: v for k, v in foldable_constants(program).items() if is_plain(v)}
        self.made: dict[tuple[Any, ...], fx.Node] = {}

    def lower(self, node: fx.Node) -> bool:
        if not _is_f32(node):
            return False
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
            mode = fake_mode_of(self.program.graph_module)
            assert mode is not None
            with mode:
                example = torch.empty(value.shape, dtype=value.dtype)
            (self.made[key],) = add_constants(self.program, [(base, value, example, {})])
        return self.made[key]


def _epilogue(node: fx.Node) -> tuple[Any, ...]:
    """Text, numbers and tensors of a node's epilogue; an empty one of torch's own operators."""
    if is_call(node, "aten::mm", "aten::addmm", "aten::convolution"):
        return "", [], []
    return tuple(argument(node, name) for name in ("chain", "numbers", "tensors"))


def _is_f32(node: Any) -> bool:
    value = node.meta.get("val") if isinstance(node, fx.Node) else None
    return isinstance(value, torch.Tensor) and value.dtype == torch.float32
