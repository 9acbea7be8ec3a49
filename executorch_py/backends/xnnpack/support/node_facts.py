"""Facts about one node of an exported graph: operands, constants, how values are quantized.

A `NodeFacts` is made once per node and passed to the checks (capability_checks.py and the files
beside it) and to the partitioner; each fact is computed on first use. Facts ignore conversions: a
constant behind its dequantize node is still a constant. The conversions around a node determine its
arithmetic. Limits of operators are in capability.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any

import torch
from torch import fx

from executorch_py.exir.ir.graph import nodes_in
from executorch_py.exir.ir.match import argument
from executorch_py.exir.ir.op_traits import (
    CHOOSE_QPARAMS,
    DEQUANTIZE,
    QUANTIZE,
    is_getitem,
    is_scalar_op,
    op_key,
)

FLOATS = (torch.float32, torch.float16)
# Operators that become nodes which passes move to the integers' side; padding if it is with zeros.
_MOVES = frozenset(
    {
        "aten::constant_pad_nd",
        "aten::permute_copy",
        "aten::slice_copy.Tensor",
        "aten::squeeze_copy.dim",
        "aten::squeeze_copy.dims",
        "aten::transpose_copy.int",
        "aten::unsqueeze_copy",
        "aten::view_copy",
    }
)
_ACTIVATIONS = ("aten::relu", "aten::relu6", "aten::hardtanh", "aten::clamp")
# In the meta of a product that is not made a linear layer again: why, see partition/.
NOT_LINEAR = "not_linear"


class Quantized(Enum):
    """The origin of the integers behind a dequantize node."""

    CONSTANT = 1  # integers of the program, such as weights
    STATIC = 2  # an activation with a scale known ahead of time
    DYNAMIC = 3  # an activation whose scale is found at run time


class ConfigPrecisionType(Enum):
    """Kinds of arithmetic; name and values are upstream's."""

    FP32 = 1
    STATIC_QUANT = 2
    DYNAMIC_QUANT = 3


class Role(Enum):
    """Roles of a node in a delegate."""

    COMPUTE = 1
    MOVE = 2  # moves or reshapes elements: delegated with other nodes, never alone
    CONVERT = 3  # to and from integers
    SIZES = 4  # arithmetic on sizes, which the runtime infers again


class Quantization(Enum):
    """Ways in which an operator may read and make integers."""

    NONE = 0  # computes in floats; conversions stay conversions
    STATIC = 1
    GEMM = 2  # static, and dynamic too


@dataclass(frozen=True)
class Options:
    """Options of a partitioner that permit more nodes.

    bf16: products in bfloat16. floats_only: conversions to and from integers stay outside, so that
    their results are floats like any others. Weights of convolutions become constants in floats.
    """

    bf16: bool = False
    floats_only: bool = False


@dataclass(frozen=True)
class Rule:
    """Limits of one operator: checks, element types, and how it may be quantized."""

    checks: tuple[Check, ...] = ()
    dtypes: tuple[torch.dtype, ...] = FLOATS
    role: Role = Role.COMPUTE
    quantization: Quantization = Quantization.NONE
    # True if upstream's runtime computes it with bfloat16, which enable_bf16 permits.
    in_bf16: bool = False
    # Operands whose element type the operator does not depend on, by name.
    other_types: frozenset[str] = frozenset()


@dataclass(frozen=True, eq=False)
class NodeFacts:
    """One node of a graph, with the facts of its neighbours in `around`."""

    node: fx.Node
    key: str  # of its operator, `aten::relu`; empty for inputs and outputs
    rule: Rule | None
    role: Role | None
    constants: Mapping[str, torch.Tensor]
    options: Options
    around: Mapping[fx.Node, NodeFacts]

    # ---- operands and results

    def argument(self, name: str) -> Any:
        """The argument of that name, or its default."""
        return argument(self.node, name)

    def example(self, arg: Any) -> torch.Tensor | None:
        """The example of a tensor argument; None for anything else."""
        value = arg.meta.get("val") if isinstance(arg, fx.Node) else None
        return value if isinstance(value, torch.Tensor) else None

    @cached_property
    def operands(self) -> tuple[fx.Node, ...]:
        """The nodes given as arguments that are tensors."""
        given = (*nodes_in(self.node.args), *nodes_in(self.node.kwargs))
        return tuple(arg for arg in given if self.example(arg) is not None)

    @cached_property
    def results(self) -> tuple[torch.Tensor, ...]:
        """Examples of the node's results, of those that another node reads."""
        value = self.node.meta.get("val")
        if isinstance(value, torch.Tensor):
            return (value,)
        if not isinstance(value, (list, tuple)):
            return ()
        read = {user.args[1] for user in self.node.users if is_getitem(user.target)}
        return tuple(v for i, v in enumerate(value) if i in read and isinstance(v, torch.Tensor))

    @cached_property
    def order_is_its_own(self) -> bool:
        """Whether the result is in another order even if views among the operands are copied.

        The inverse of a matrix has its columns one after the other, whatever the operand's order.
        """
        node, target = self.node, self.node.target
        if all(map(is_dense, self.results)):
            return False
        if node.op != "call_function" or not isinstance(target, torch._ops.OpOverload):
            source = node.args[0] if node.args and is_getitem(target) else None
            return not isinstance(source, fx.Node) or self.around[source].order_is_its_own
        if any(result.alias_info is not None for result in target._schema.returns):
            return False
        args, kwargs = fx.map_arg((node.args, node.kwargs), self._copied)
        with self.results[0].fake_mode:
            found = target(*args, **kwargs)
        found = [found] if isinstance(found, torch.Tensor) else found
        return not all(is_dense(x) for x in found if isinstance(x, torch.Tensor))

    def _copied(self, arg: fx.Node) -> Any:
        """The example of an argument, after a copy of a view."""
        example = self.example(arg)
        if example is None or self.around[arg].order_is_its_own:
            return arg.meta.get("val")
        return example if is_dense(example) else example.contiguous()

    @property
    def input(self) -> torch.Tensor:
        """The example of the first operand."""
        first = self.example(self.node.args[0])
        assert first is not None
        return first

    def constant(self, arg: Any) -> torch.Tensor | None:
        """The tensor behind a constant operand, integers where it is quantized."""
        if self.options.floats_only and not self._folds_weights():
            return self.constants.get(arg.name) if isinstance(arg, fx.Node) else None
        while isinstance(arg, fx.Node) and is_dequantize(arg):
            arg = arg.args[0]
        return self.constants.get(arg.name) if isinstance(arg, fx.Node) else None

    def _folds_weights(self) -> bool:
        """Whether the operator has no form with computed weights, so that they are constants."""
        result = self.node.meta.get("val")
        return self.key == "aten::convolution" and getattr(result, "dtype", None) is torch.float32

    @cached_property
    def is_folded_weight(self) -> bool:
        """Whether the node dequantizes a constant for such operators alone, with floats_only."""
        if not self.options.floats_only or not is_dequantize(self.node):
            return False
        source, users = self.node.args[0], [self.around[user] for user in self.node.users]
        is_constant = isinstance(source, fx.Node) and source.name in self.constants
        return is_constant and all(user._folds_weights() for user in users)

    def integers(self, name: str) -> list[int] | None:
        """A list of whole numbers known ahead of time; None if one is found at run time."""
        arg = self.argument(name)
        items = list(arg) if isinstance(arg, (list, tuple)) else [arg]
        return items if all(isinstance(item, int) for item in items) else None

    # ---- quantization

    def quantized(self, arg: Any) -> Quantized | None:
        """How an operand is quantized; None for floats."""
        return self.around[arg].quantized_value if isinstance(arg, fx.Node) else None

    @cached_property
    def quantized_value(self) -> Quantized | None:
        """How the value of the node is quantized, if it is a dequantize node."""
        if self.options.floats_only or not is_dequantize(self.node):
            return None
        source = self.node.args[0]
        if isinstance(source, fx.Node) and source.name in self.constants:
            return Quantized.CONSTANT
        return Quantized.DYNAMIC if self.dynamic_chain else Quantized.STATIC

    @cached_property
    def dynamic_chain(self) -> tuple[fx.Node, ...]:
        """The nodes that find a scale at run time and quantize with it, up to this dequantize
        node; empty if the scale is known."""
        quantize = self.node.args[0]
        if not is_quantize(quantize):
            return ()
        assert isinstance(quantize, fx.Node)
        parts = [arg for arg in quantize.args[1:] if isinstance(arg, fx.Node)]
        sources = {p.args[0] if is_getitem(p.target) else p for p in parts}
        chosen = [
            s for s in sources if isinstance(s, fx.Node) and op_key(s.target) in CHOOSE_QPARAMS
        ]
        return (*chosen, *parts, quantize, self.node) if chosen else ()

    @cached_property
    def quantized_result(self) -> fx.Node | None:
        """The quantize node that alone reads the node, perhaps through an activation."""
        users = list(self.node.users)
        if len(users) != 1:
            return None
        if is_quantize(users[0]):
            return users[0]
        if op_key(users[0].target) in _ACTIVATIONS and self.key not in _ACTIVATIONS:
            return self.around[users[0]].quantized_result
        return None

    @cached_property
    def before_moves(self) -> fx.Node:
        """The node whose elements this one moves, through moves that integers allow as well."""
        source = self.node.args[0] if self.key in _MOVES else None
        if not isinstance(source, fx.Node) or self._pads_with_number():
            return self.node
        return self.around[source].before_moves

    def _pads_with_number(self) -> bool:
        args = self.node.args
        return self.key == "aten::constant_pad_nd" and len(args) > 2 and args[2] != 0

    @cached_property
    def precision(self) -> ConfigPrecisionType:
        """The arithmetic with which the node would be computed."""
        if self.rule is None or self.role is Role.CONVERT:
            return ConfigPrecisionType.STATIC_QUANT
        if self.options.floats_only:
            return ConfigPrecisionType.FP32
        activations = [arg for arg in self.operands if self.constant(arg) is None]
        if Quantized.DYNAMIC in {self.quantized(arg) for arg in activations}:
            return ConfigPrecisionType.DYNAMIC_QUANT
        if self.rule.quantization is Quantization.NONE or self.quantized_result is None:
            return ConfigPrecisionType.FP32
        kinds = {self.quantized(self.around[arg].before_moves) for arg in activations}
        if kinds == {Quantized.STATIC}:
            return ConfigPrecisionType.STATIC_QUANT
        if len(activations) == 1 and self.around[activations[0]].quantized_result is not None:
            # An activation function behind a quantized node.
            return self.around[activations[0]].precision
        return ConfigPrecisionType.FP32


Check = Callable[[NodeFacts], str | None]


def is_dense(example: torch.Tensor) -> bool:
    """Whether a tensor is contiguous or channels-last in memory."""
    return bool(example.is_contiguous()) or (
        example.dim() == 4 and bool(example.is_contiguous(memory_format=torch.channels_last))
    )


def is_dequantize(node: Any) -> bool:
    """Whether a node dequantizes integers."""
    return isinstance(node, fx.Node) and op_key(node.target) in DEQUANTIZE


def is_quantize(node: Any) -> bool:
    """Whether a node quantizes floats."""
    return isinstance(node, fx.Node) and op_key(node.target) in QUANTIZE


def size_sources(node: fx.Node) -> list[fx.Node]:
    """The tensors from which the sizes among a node's arguments are computed."""
    seen: set[fx.Node] = set()
    tensors: dict[fx.Node, None] = {}
    waiting = [arg for arg in node.all_input_nodes if _is_size(arg)]
    while waiting:
        scalar = waiting.pop()
        if scalar in seen:
            continue
        seen.add(scalar)
        for arg in scalar.all_input_nodes:
            if _is_size(arg):
                waiting.append(arg)
            else:
                tensors[arg] = None
    return list(tensors)


def _is_size(node: fx.Node) -> bool:
    value = node.meta.get("val")
    return is_scalar_op(node.target) or (
        node.op == "call_function" and isinstance(value, (int, torch.SymInt))
    )
