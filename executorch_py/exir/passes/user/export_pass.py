"""ExportPass: the base of users' passes; it re-traces a graph through overridable hooks.

The graph is interpreted on fake tensors; every node reaches a hook (`call_operator`,
`call_getitem`, `placeholder`, …), whose default records it again. The recorded calls become the new
graph, with new values and names. This costs a full run on fake tensors; the exporter's own passes
rewrite graphs in place instead (passes/base.py).
"""

from __future__ import annotations

import contextlib
import operator
import traceback
from typing import Any

import torch
from torch import fx
from torch._dispatch.python import enable_python_dispatcher
from torch._subclasses import FakeTensorMode
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx import traceback as fx_traceback
from torch.fx.graph import CodeGen
from torch.fx.passes.infra.pass_base import PassBase, PassResult
from torch.utils import _pytree as pytree

from executorch_py.exir.dialects.edge_ops import ops
from executorch_py.exir.error import ExportError, ExportErrorType
from executorch_py.exir.passes.user.pass_interpreter import PassInterpreter
from executorch_py.exir.passes.user.pass_tracer import PassTracer
from executorch_py.exir.passes.user.pass_values import (
    ArgSchema,
    Argument,
    ExportedProgramPassBase,
    ExportedProgramPassResult,
    ExportPassBaseError,
    Fn,
    NodeMetadata,
    NodeMetadataValue,
    PassType,
    ProxyValue,
    Value,
    map_args,
)

__all__ = [
    "ArgSchema",
    "Argument",
    "ExportPass",
    "ExportPassBaseError",
    "ExportedProgramPassBase",
    "ExportedProgramPassResult",
    "Fn",
    "NodeMetadata",
    "NodeMetadataValue",
    "PassResult",
    "PassType",
    "ProxyValue",
    "Value",
    "map_args",
]


def _placeholders(gm: fx.GraphModule) -> list[fx.Node]:
    return [node for node in gm.graph.nodes if node.op == "placeholder"]


def _symbols(value: Any) -> list[str | None]:
    """The symbolic sizes and numbers in a value, as text; None for everything concrete."""
    found: list[str | None] = []
    for leaf in pytree.tree_leaves(value):
        sizes = leaf.shape if isinstance(leaf, torch.Tensor) else [leaf]
        for size in sizes:
            symbolic = isinstance(size, (torch.SymInt, torch.SymFloat, torch.SymBool))
            found.append(str(size) if symbolic else None)
    return found


class ExportPass(PassBase):
    """Re-trace a graph; override the `call_*` hooks to change it.

    A subclass that defines `__init__` must call `super().__init__()`.
    """

    ExportTracer = PassTracer
    ExportInterpreter = PassInterpreter

    def __init__(self) -> None:
        self.interpreter: fx.Interpreter = _empty_interpreter()
        self.tracer = self.ExportTracer(self, CodeGen())
        self.fake_tensor_mode: FakeTensorMode | None = None
        self.node_debug_str: str | None = None
        self._initialized = True

    @staticmethod
    def _create_dummy_node_metadata() -> NodeMetadata:
        return NodeMetadata({"stack_trace": "".join(traceback.format_stack(limit=1))})

    # Hooks.

    def on_attr(self, attr: ProxyValue) -> None:
        """Called for every constant tensor that becomes an attribute of the new graph."""

    def placeholder(self, name: str, arg: Argument, meta: NodeMetadata) -> ProxyValue:
        """An input of the graph."""
        proxy = self.tracer.create_proxy("placeholder", name, (), {})
        proxy.node.meta = meta.data
        proxy.node.meta["val"] = arg
        return ProxyValue(arg, proxy)

    def call_operator(
        self, op: Any, args: tuple[Argument, ...], kwargs: dict[str, Argument], meta: NodeMetadata
    ) -> ProxyValue:
        """A call of a torch or edge operator."""
        return self._fx("call_function", op, args, kwargs, meta)

    def call_sym(self, target: Fn, args: tuple[Argument, ...], meta: NodeMetadata) -> ProxyValue:
        """A Python function on sizes."""
        return self._fx("call_function", target, args, {}, meta)

    def call_getitem(self, value: ProxyValue, key: int, meta: NodeMetadata) -> ProxyValue:
        """One result of several."""
        return self._fx("call_function", operator.getitem, (value, key), {}, meta)

    def call_cond(
        self,
        pred: ProxyValue,
        true_fn: fx.GraphModule,
        false_fn: fx.GraphModule,
        inputs: list[Argument],
        meta: NodeMetadata,
    ) -> ProxyValue:
        """torch.cond, its branches passed over first."""
        operands = tuple(inputs)
        branches = [self.call_submodule(fn, operands).graph_module for fn in (true_fn, false_fn)]
        args = (pred, *branches, list(inputs))
        return self._fx("call_function", torch.ops.higher_order.cond, args, {}, meta)

    def call_while(
        self,
        cond_fn: fx.GraphModule,
        body_fn: fx.GraphModule,
        carried_inputs: list[Argument],
        additional_inputs: list[Argument],
        meta: NodeMetadata,
    ) -> ProxyValue:
        """while_loop, its condition and body passed over first."""
        operands = (*carried_inputs, *additional_inputs)
        bodies = [self.call_submodule(fn, operands).graph_module for fn in (cond_fn, body_fn)]
        args = (*bodies, carried_inputs, additional_inputs)
        return self._fx("call_function", torch.ops.higher_order.while_loop, args, {}, meta)

    def call_map(
        self,
        f: fx.GraphModule,
        mapped_args: list[ProxyValue],
        operands: list[ProxyValue],
        meta: NodeMetadata,
    ) -> ProxyValue:
        """map; its body sees one slice of each mapped argument."""
        slices = tuple(arg.data[0] for arg in mapped_args)
        body = self.call_submodule(f, (*slices, *(arg for arg in operands))).graph_module
        args = (body, mapped_args, operands)
        return self._fx("call_function", torch.ops.higher_order.map_impl, args, {}, meta)

    def call_scan(
        self,
        combine_fn: fx.GraphModule,
        init: list[ProxyValue],
        xs: list[Argument],
        additional_inputs: list[ProxyValue],
        meta: NodeMetadata,
    ) -> ProxyValue:
        """scan; its body sees the carried values and one slice of each scanned argument."""
        inputs = _placeholders(combine_fn)[len(init) : len(init) + len(xs)]
        slices = [node.meta["val"] for node in inputs]
        body = self.call_submodule(combine_fn, (*init, *slices, *additional_inputs)).graph_module
        args = (body, init, xs, additional_inputs)
        return self._fx("call_function", torch.ops.higher_order.scan, args, {}, meta)

    def call_delegate(
        self,
        lowered_module: torch.nn.Module,
        args: tuple[ProxyValue, ...],
        kwargs: dict[str, Argument],
        meta: NodeMetadata,
    ) -> ProxyValue:
        """A call of a lowered module."""
        from torch._higher_order_ops.executorch_call_delegate import executorch_call_delegate

        target = executorch_call_delegate
        return self._fx("call_function", target, (lowered_module, *args), kwargs, meta)

    def output(self, results: list[Argument], meta: NodeMetadata) -> ProxyValue:
        """The results of the graph."""
        return self._fx("output", "output", (results,), {}, meta)

    def should_preserve_symbolic_input_metadata(self) -> bool:
        """Whether inputs must keep their symbolic sizes; override to change them on purpose."""
        return True

    def inputs(self, graph_module: fx.GraphModule) -> list[Argument]:
        """The values to interpret the graph with, one per placeholder."""
        if (args := graph_module.meta.get("args")) is not None:
            return list(args)
        return [self._input_value(node) for node in _placeholders(graph_module)]

    # Services for subclasses.

    def call_size_operator(
        self, tensor_proxy: ProxyValue, dim: int, meta: NodeMetadata, *, edge_dialect: bool = False
    ) -> ProxyValue | int:
        """The size of a dimension: a number if static, else a `sym_size.int` of the tensor."""
        size = tensor_proxy.data.shape[dim]
        if not isinstance(size, torch.SymInt):
            return int(size)
        namespace = ops.edge.aten if edge_dialect else torch.ops.aten
        proxy = self.call_operator(namespace.sym_size.int, (tensor_proxy, dim), {}, meta)
        if "example_value" in tensor_proxy.node.meta:
            proxy.node.meta["example_value"] = proxy.node.meta["val"]
        return proxy

    def call_size_operator_all(
        self, tensor_proxy: ProxyValue, meta: NodeMetadata, *, edge_dialect: bool = False
    ) -> list[ProxyValue | int]:
        """`call_size_operator` for every dimension."""
        dims = range(tensor_proxy.data.dim())
        return [
            self.call_size_operator(tensor_proxy, d, meta, edge_dialect=edge_dialect) for d in dims
        ]

    def call_submodule(
        self, graph_module: fx.GraphModule, inputs: tuple[Argument, ...]
    ) -> PassResult:
        """Pass over a graph with the given inputs; the result holds the new graph.

        `modified` is always True, as upstream's is: the graph module is a new one, and callers
        take it only then.
        """
        outer_tracer, outer_interpreter = self.tracer, self.interpreter
        self.tracer = self.ExportTracer(self, graph_module.graph._codegen)
        self.tracer.fake_tensor_mode = outer_tracer.fake_tensor_mode
        self.interpreter = _empty_interpreter()
        data = pytree.tree_map_only(ProxyValue, lambda value: value.data, inputs)
        try:
            with fx_traceback.preserve_node_meta():
                self.ExportInterpreter(self, graph_module).run(*data)
            new = fx.GraphModule(self.tracer.root, self.tracer.graph)
        finally:
            self.tracer, self.interpreter = outer_tracer, outer_interpreter
        new.meta = graph_module.meta.copy()
        self._keep_input_values(graph_module, new)
        return PassResult(new, True)

    def call(self, graph_module: fx.GraphModule) -> PassResult:
        """Pass over the whole graph module."""
        if not getattr(self, "_initialized", False):
            raise ExportPassBaseError(
                f"{type(self).__name__} is not initialized: its __init__ has to call "
                "super().__init__()."
            )
        inputs = self.inputs(graph_module)
        modes = {id(i.fake_mode): i.fake_mode for i in inputs if isinstance(i, FakeTensor)}
        if len(modes) > 1:
            raise ExportPassBaseError(
                f"expected inputs of the graph in one fake mode, got {len(modes)} modes"
            )
        mode = next(iter(modes.values()), None)
        dispatcher: Any = enable_python_dispatcher() if mode else contextlib.nullcontext()
        mode = mode or FakeTensorMode(allow_non_fake_inputs=True)
        mode.allow_non_fake_inputs = True
        self.tracer.fake_tensor_mode = self.fake_tensor_mode = mode
        with mode, dispatcher:
            return self.call_submodule(graph_module, tuple(inputs))

    # Machinery.

    def _input_value(self, node: fx.Node) -> Any:
        if "val" in node.meta:
            value = node.meta["val"]
            constant = getattr(value, "constant", None)
            return value if constant is None else constant
        if not node.users:
            return None
        raise ExportPassBaseError(
            f"Cannot construct an input for graph module: placeholder '{node.name}' has no value "
            "(meta['val'])."
        )

    def _fx(
        self,
        kind: str,
        target: Any,
        args: tuple[Argument, ...],
        kwargs: dict[str, Argument],
        meta: NodeMetadata,
    ) -> ProxyValue:
        """Run a node on the data of its arguments and record it."""
        data = pytree.tree_map_only(ProxyValue, lambda value: value.data, (args, kwargs))
        result = getattr(self.interpreter, kind)(target, *data)
        proxies = pytree.tree_map_only(ProxyValue, lambda value: value.proxy, (args, kwargs))
        name = None
        if isinstance(target, torch._ops.OpOverload):
            name = self.tracer.graph._target_to_str(target.overloadpacket.__name__)
        proxy = self.tracer.create_proxy(kind, target, *proxies, name=name)
        proxy.node.meta.update(meta.data)
        self.tracer.set_metadata(proxy.node, result)
        return ProxyValue(result, proxy)

    def _keep_input_values(self, old: fx.GraphModule, new: fx.GraphModule) -> None:
        before, after = _placeholders(old), _placeholders(new)
        if len(before) != len(after):
            raise ExportError(
                ExportErrorType.NOT_SUPPORTED,
                f"{type(self).__name__} changed the number of inputs of a graph from "
                f"{len(before)} to {len(after)}; ExportPass cannot change placeholders.",
            )
        for i, (was, now) in enumerate(zip(before, after, strict=True)):
            constant = getattr(was.meta.get("val"), "constant", None)
            if constant is not None and now.meta["val"] is constant:  # it was run with this tensor
                now.meta["val"] = was.meta["val"]
                continue
            if self.should_preserve_symbolic_input_metadata() and any(
                symbol is not None and symbol != other
                for symbol, other in zip(
                    _symbols(was.meta.get("val")), _symbols(now.meta.get("val")), strict=False
                )
            ):
                raise ExportPassBaseError(
                    f"Input at position {i} did not preserve symbolic metadata across pass replay."
                )
            value = now.meta["val"]
            if isinstance(value, torch.Tensor) and (
                not isinstance(was.meta["val"], torch.Tensor)
                or value.size() != was.meta["val"].size()
            ):
                raise ExportError(
                    ExportErrorType.NOT_SUPPORTED,
                    f"{type(self).__name__} changed input '{was.name}'; ExportPass cannot change "
                    "placeholders.",
                )
            now.meta["val"] = was.meta["val"]


def _empty_interpreter() -> fx.Interpreter:
    return fx.Interpreter(fx.GraphModule(torch.nn.Module(), fx.Graph()))
