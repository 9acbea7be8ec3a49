"""PassTracer: the tracer of a re-tracing pass records calls, and results as meta.

Constants become attributes of the new graph module, submodules get short names.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental.proxy_tensor import PythonKeyTracer
from torch.fx.graph import CodeGen
from torch.utils import _pytree as pytree

from executorch_py.exir.passes.user.pass_values import ExportPassBaseError, ProxyValue

_PLAIN = (torch.SymInt, torch.SymFloat, torch.SymBool, int, float, bool, str)


class PassTracer(PythonKeyTracer):
    """Records one graph on behalf of a pass."""

    def __init__(self, callback: Any, codegen: CodeGen) -> None:
        super().__init__()
        self.callback = callback
        self.root = torch.nn.Module()
        self.graph = torch.fx.Graph()
        self.graph.set_codegen(codegen)
        self.tensor_attrs: dict[Any, str] = {}
        self.fake_tensor_mode: FakeTensorMode | None = None
        self.submodules: dict[torch.nn.Module, str] = {}

    def trace(self) -> None:
        raise ExportPassBaseError("ExportTracer doesn't support trace().")

    def create_arg(self, a: Any) -> Any:
        if isinstance(a, torch.nn.Module):
            if a not in self.submodules:
                prefix = "lowered_module" if hasattr(a, "processed_bytes") else "submodule"
                self.submodules[a] = f"{prefix}_{len(self.submodules)}"
                self.root.add_module(self.submodules[a], a)
        elif isinstance(a, FakeTensor):
            if a.constant is None:
                raise ExportPassBaseError(
                    f"Cannot add {a} to graph: it is a tensor that no recorded node computes. Make "
                    "it with call_operator, or use a real tensor for a constant."
                )
            a = a.constant
        elif isinstance(a, torch.SymInt):
            return a if a.node.constant is None else a.node.constant
        node = super().create_arg(a)
        if (
            isinstance(a, torch.Tensor)
            and isinstance(node, torch.fx.Node)
            and node.op == "get_attr"
        ):
            self.set_metadata(node, a)
            self.callback.on_attr(ProxyValue(a, node))
        return node

    def set_metadata(self, node: torch.fx.Node, value: Any) -> None:
        """Record the fake form of a result as the node's value."""
        node.meta["val"] = pytree.tree_map(self._fake, value)

    def _fake(self, value: Any) -> Any:
        if isinstance(value, FakeTensor):
            return value
        if isinstance(value, torch.Tensor):
            assert self.fake_tensor_mode is not None
            if value.is_quantized:
                value = torch.dequantize(value)
            static = isinstance(value, torch.nn.Parameter)
            return self.fake_tensor_mode.from_tensor(value, static_shapes=static or None)
        return value if isinstance(value, _PLAIN) else None
