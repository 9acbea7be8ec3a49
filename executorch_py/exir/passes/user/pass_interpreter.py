"""PassInterpreter: the interpreter of a re-tracing pass calls a hook of the pass for each node.

Operators, arithmetic on sizes, control flow and delegates have hooks of their own, in
export_pass.py.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx

from executorch_py.exir.dialects.edge_ops import EdgeOpOverload
from executorch_py.exir.passes.user.pass_values import ExportPassBaseError, NodeMetadata, ProxyValue

_TORCH_SYM_OPS = frozenset(
    {
        torch.sym_int,
        torch.sym_float,
        torch.sym_ite,
        torch.sym_max,
        torch.sym_min,
        torch.sym_not,
        torch.sym_sqrt,
        torch.sym_sum,
    }
)
_PYTHON_MODULES = frozenset({"_operator", "builtins", "math"})
_higher_order = torch.ops.higher_order


class PassInterpreter(fx.Interpreter):
    """Interprets a graph for one pass."""

    def __init__(self, callback: Any, gm: fx.GraphModule) -> None:
        super().__init__(gm)
        self.callback = callback
        self.node: fx.Node = next(iter(gm.graph.nodes))

    def run_node(self, n: fx.Node) -> Any:
        self.node = n
        self.callback.node_debug_str = n.format_node()
        return super().run_node(n)

    def _meta(self) -> NodeMetadata:
        return NodeMetadata(self.node.meta)

    def placeholder(self, target: Any, args: Any, kwargs: Any) -> ProxyValue:
        value = super().placeholder(target, args, kwargs)
        proxy: ProxyValue = self.callback.placeholder(target, value, self._meta())
        return proxy

    def output(self, target: Any, args: Any, kwargs: Any) -> Any:
        return self.callback.output(args[0], self._meta()).data

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        callback, meta = self.callback, self._meta()
        if target is operator.getitem:
            return callback.call_getitem(*args, meta)
        if isinstance(target, (EdgeOpOverload, torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
            return callback.call_operator(target, args, kwargs, meta)
        if target in _TORCH_SYM_OPS or getattr(target, "__module__", None) in _PYTHON_MODULES:
            return callback.call_sym(target, args, meta)
        if isinstance(target, torch._ops.HigherOrderOperator):
            return self._call_higher_order(target, args, kwargs, meta)
        if getattr(target, "__name__", "") == "alloc":
            return callback._fx("call_function", target, args, kwargs, meta)
        raise ExportPassBaseError(
            "expected a call of an operator, of arithmetic on sizes, of control flow or of a "
            f"delegate, got {target}"
        )

    def _call_higher_order(self, target: Any, args: Any, kwargs: Any, meta: NodeMetadata) -> Any:
        callback = self.callback
        if target is _higher_order.cond:
            return callback.call_cond(*args, meta)
        if target is _higher_order.while_loop:
            return callback.call_while(*args, meta)
        if target is _higher_order.map_impl:
            return callback.call_map(*args, meta)
        if target is _higher_order.scan:
            return callback.call_scan(*args, meta)
        if str(target.name()) == "executorch_call_delegate":
            return callback.call_delegate(args[0], args[1:], kwargs, meta)
        return callback._fx("call_function", target, args, kwargs, meta)

    def call_module(self, target: Any, args: Any, kwargs: Any) -> None:
        raise ExportPassBaseError(f"expected no call_module node, got one of {target}")

    def call_method(self, target: Any, args: Any, kwargs: Any) -> None:
        raise ExportPassBaseError(f"expected no call_method node, got one of {target}")
