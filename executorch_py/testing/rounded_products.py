"""Products of a file of precision bf16, computed in eager torch with the operands that it rounds.

The file decides which layers these are: those whose weights, rounded and packed, are among its
constants, also after a batch norm is folded in. A layer whose weights the file has wrong is then
computed in f32, and differs. Knows no tolerances.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram

from executorch_py.exir.dialects import bf16_ops
from executorch_py.exir.ir.batch_norm import NormNumbers, folded
from executorch_py.exir.ir.graph import lookup_tensor
from executorch_py.exir.ir.match import argument, only_user
from executorch_py.exir.ir.op_traits import op_key
from executorch_py.testing.graph_values import ModelGraph, value_of

_OPERATORS = ("executorch_py::linear_bf16", "executorch_py::convolution_bf16")
# Operand, weight, and whether the weight has a column for each result, by operator of a model.
_PRODUCTS: dict[str, tuple[str, str, bool]] = {
    "aten::linear": ("input", "weight", False),
    "aten::matmul": ("self", "other", True),
    "aten::mm": ("self", "mat2", True),
    "aten::addmm": ("mat1", "mat2", True),
    "aten::conv2d": ("input", "weight", False),
    "aten::conv2d.padding": ("input", "weight", False),
    "aten::convolution": ("input", "weight", False),
}
_NORM = "aten::batch_norm"


class RoundedProducts:
    """The weights that a lowered program has in bfloat16."""

    def __init__(self, program: ExportedProgram) -> None:
        targets = {s.arg.name: s.target for s in program.graph_signature.input_specs}
        self._weights: set[bytes] = set()
        self.n_calls = 0
        for node in program.graph.nodes:
            if node.op != "call_function" or op_key(node.target).split(".")[0] not in _OPERATORS:
                continue
            self.n_calls += 1
            packed = lookup_tensor(program, str(targets[argument(node, "weight").name]))
            if packed is not None:
                self._weights.add(_digest(packed))

    def outputs(self, graph: ModelGraph) -> list[Any]:
        """The outputs of a model whose products round the operands that the file rounds."""
        run, inputs = self.of_run(), graph.fresh_inputs()
        env: dict[fx.Node, Any] = {}
        for node in graph.module.graph.nodes:
            if node.op == "output":
                return [
                    env[leaf] if isinstance(leaf, fx.Node) else leaf
                    for leaf in torch.utils._pytree.tree_leaves(node.args[0])
                ]
            with torch.no_grad():
                env[node] = run.value_of(graph.module, node, inputs, env)
        return []

    def of_run(self) -> RoundedRun:
        return RoundedRun(self)

    def has(self, weight: torch.Tensor) -> bool:
        """Whether the file has a matrix or kernel [columns, …] in bfloat16."""
        if weight.dtype != torch.float32 or weight.dim() not in (2, 4) or 0 in weight.shape:
            return False
        matrix = bf16_ops.matrix_of_kernel(weight) if weight.dim() == 4 else weight
        return _digest(bf16_ops.packed_weight(matrix.detach())) in self._weights


class RoundedRun:
    """Values of the nodes of one run of a model's graph."""

    def __init__(self, products: RoundedProducts) -> None:
        self._products = products
        # Results of batch norms that the file folds into the convolution before.
        self._normed: dict[fx.Node, torch.Tensor] = {}

    def value_of(
        self,
        module: fx.GraphModule,
        node: fx.Node,
        inputs: Mapping[str, Any],
        env: Mapping[fx.Node, Any],
    ) -> Any:
        """The value of a node, from values of its operands."""
        if node in self._normed:
            return self._normed.pop(node)
        names = _PRODUCTS.get(op_key(node.target)) if node.op == "call_function" else None
        if names is None:
            return value_of(module, node, inputs, env)
        operand, weight = (argument(node, name) for name in names[:2])
        if not isinstance(operand, fx.Node) or not isinstance(weight, fx.Node):
            return value_of(module, node, inputs, env)
        matrix = env[weight]
        if names[2]:
            matrix = matrix.t() if matrix.dim() == 2 else matrix.new_empty(0)
        changed = dict(env)
        norm = only_user(node)
        if norm is not None and op_key(norm.target) == _NORM and not argument(norm, "training"):
            self._fold(module, node, norm, inputs, env)
        if self._products.has(matrix):
            changed[operand] = bf16_ops.rounded(env[operand])
            changed[weight] = bf16_ops.rounded(env[weight])
        return value_of(module, node, inputs, changed)

    def _fold(
        self,
        module: fx.GraphModule,
        layer: fx.Node,
        norm: fx.Node,
        inputs: Mapping[str, Any],
        env: Mapping[fx.Node, Any],
    ) -> None:
        """Computes the result of a batch norm if the file has the weight with it folded in."""

        def value(name: str) -> Any:
            found = argument(norm, name)
            return env[found] if isinstance(found, fx.Node) else None

        operand, kernel, bias = (argument(layer, name) for name in ("input", "weight", "bias"))
        if not all(isinstance(n, fx.Node) and n in env for n in (operand, kernel)):
            return
        numbers = NormNumbers(
            mean=value("running_mean"),
            variance=value("running_var"),
            eps=argument(norm, "eps"),
            gamma=value("weight"),
            beta=value("bias"),
        )
        given = env[bias] if isinstance(bias, fx.Node) else None
        weight, offset = folded(env[kernel], given, numbers, transposed=False, groups=1)
        if not self._products.has(weight):
            return
        changed = dict(env)
        changed[operand] = bf16_ops.rounded(env[operand])
        changed[kernel] = bf16_ops.rounded(weight)
        if isinstance(bias, fx.Node):
            changed[bias] = torch.zeros_like(given)
        result = value_of(module, layer, inputs, changed)
        self._normed[norm] = result + offset.reshape(-1, 1, 1)


def _digest(packed: torch.Tensor) -> bytes:
    bits = packed.detach().contiguous().view(torch.int16).numpy()
    return hashlib.blake2b(bits.tobytes() + str(tuple(packed.shape)).encode()).digest()
