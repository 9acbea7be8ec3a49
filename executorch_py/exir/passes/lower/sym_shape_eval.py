"""Upper bounds of symbolic sizes: every spec gets the largest shape that a run can have.

A bound comes from the shape environment (a Dim's max, a torch._check). Operators whose result size
depends on values are bounded by the size of their input. A size without a bound is an error that
names the dimension, the input, and the line to write. The size seen in tracing is never used as a
bound.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

import sympy
import torch
from torch import fx
from torch.fx.passes.infra.pass_base import PassBase, PassResult
from torch.utils import _pytree as pytree
from torch.utils._sympy.value_ranges import bound_sympy

from executorch_py.exir.error import ExportError, ExportErrorType
from executorch_py.exir.ir.graph import all_graph_modules, placeholders, source_line
from executorch_py.exir.ir.match import argument
from executorch_py.exir.ir.op_traits import DATA_DEPENDENT_SIZE, op_key
from executorch_py.exir.ir.tensor_spec import TensorSpec

# Torch reports bounds above this where there is none; no tensor has so many elements.
_NO_BOUND = 2**48


class ConstraintBasedSymShapeEvalPass(PassBase):
    """Replace symbolic sizes in every spec by their upper bounds."""

    def call(self, graph_module: fx.GraphModule) -> PassResult:
        bounds = SymbolBounds(graph_module)
        changed = False
        for module in all_graph_modules(graph_module):
            for node in module.graph.nodes:
                for spec in _tensor_specs(node):
                    if not all(isinstance(size, int) for size in spec.shape):
                        spec.set_upper_bound_shape([bounds.upper(s, node) for s in spec.shape])
                        changed = True
        return PassResult(graph_module, changed)


class HintBasedSymShapeEvalPass(PassBase):
    """Replace symbolic sizes by the sizes seen in tracing, for scripts that use it by name.

    Sizes that depend on data, which tracing does not see, are replaced by their upper bounds.
    """

    def __init__(self, *_args: Any, **_kwargs: Any) -> None:
        super().__init__()

    def call(self, graph_module: fx.GraphModule) -> PassResult:
        bounds = SymbolBounds(graph_module)
        changed = False
        for module in all_graph_modules(graph_module):
            for node in module.graph.nodes:
                for spec in _tensor_specs(node):
                    changed |= not all(isinstance(size, int) for size in spec.shape)
                    sizes = [int(s) if _is_seen(s) else bounds.upper(s, node) for s in spec.shape]
                    spec.set_upper_bound_shape(sizes)
        return PassResult(graph_module, changed)


def _is_seen(size: Any) -> bool:
    """Whether tracing knew the value of a size."""
    return isinstance(size, int) or bool(size.node.has_hint())


def _tensor_specs(node: fx.Node) -> Iterable[TensorSpec]:
    return [s for s in pytree.tree_leaves(node.meta.get("spec")) if isinstance(s, TensorSpec)]


# Operator -> function from the values of its arguments to the largest sizes of its result.
upper_bound_shape_inference_table: dict[Any, Callable[..., list[int | None]]] = {}


def register_upper_bound_inference(fn: Any) -> Callable[[Any], Any]:
    """Let the decorated function bound the sizes of an operator's result that depend on data.

    Arguments are (args, kwargs) of the call, with fake tensors for nodes; None leaves a size to
    other rules. The operator is a torch or an edge overload.
    """

    def register(bound: Any) -> Any:
        upper_bound_shape_inference_table[fn] = bound
        return bound

    return register


class SymbolBounds:
    """Upper bound of each shape symbol of a graph, and of expressions over them."""

    def __init__(self, gm: fx.GraphModule) -> None:
        self.gm = gm
        self.inferred: dict[sympy.Symbol, int] = {}
        self.known: dict[sympy.Expr, int] = {}
        self._infer_data_dependent()

    def upper(self, size: Any, node: fx.Node) -> int:
        """The largest value of a size that occurs at `node`."""
        if isinstance(size, int):
            return size
        expr, env = size.node.expr, size.node.shape_env
        if expr not in self.known:
            ranges = {
                symbol: torch.utils._sympy.value_ranges.ValueRanges(
                    env.var_to_range[symbol].lower, self.inferred[symbol]
                )
                if symbol in self.inferred
                else env.var_to_range[symbol]
                for symbol in expr.free_symbols
            }
            bound = bound_sympy(expr, ranges).upper
            if not bound.is_number or not bound.is_finite or bound >= _NO_BOUND:
                raise _unbounded(self.gm, size, node)
            self.known[expr] = int(bound)
        return self.known[expr]

    def _infer_data_dependent(self) -> None:
        for module in all_graph_modules(self.gm):
            for node in module.graph.nodes:
                if node.target in upper_bound_shape_inference_table:
                    self._use_registered(node)
                if op_key(node.target) not in DATA_DEPENDENT_SIZE:
                    continue
                for value in pytree.tree_leaves(node.meta.get("val")):
                    if isinstance(value, torch.Tensor):
                        for size in value.shape:
                            self._infer_symbol(size, node)

    def _use_registered(self, node: fx.Node) -> None:
        """Bounds by the function that a script registered for the operator."""
        value = node.meta.get("val")
        if not isinstance(value, torch.Tensor):
            return
        args, kwargs = pytree.tree_map_only(
            fx.Node, lambda n: n.meta.get("val"), (node.args, dict(node.kwargs))
        )
        sizes = upper_bound_shape_inference_table[node.target](args, kwargs)
        for size, limit in zip(value.shape, sizes, strict=True):
            if isinstance(limit, int) and not isinstance(size, int):
                self.inferred.setdefault(size.node.expr, limit)

    def _infer_symbol(self, size: Any, node: fx.Node) -> None:
        if isinstance(size, int) or not isinstance(size.node.expr, sympy.Symbol):
            return
        symbol, env = size.node.expr, size.node.shape_env
        if symbol in self.inferred or env.var_to_range[symbol].upper < _NO_BOUND:
            return
        if not any(symbol in bound for bound in (node.meta.get("unbacked_bindings") or {},)):
            return
        limit = self._elements_at_most(node)
        if limit is not None:
            self.inferred[symbol] = limit

    def _elements_at_most(self, node: fx.Node) -> int | None:
        """How many rows a data-dependent operator can return."""
        if op_key(node.target) == "aten::index.Tensor":
            masks = [i for i in argument(node, "indices") if _dtype(i) in (torch.bool, torch.uint8)]
            return self._numel(masks[0]) if masks else None
        if op_key(node.target) == "aten::repeat_interleave.Tensor":
            return None
        source = argument(node, "self")
        if op_key(node.target) == "aten::unique_dim" or (
            op_key(node.target) == "aten::unique_consecutive" and argument(node, "dim") is not None
        ):
            # Slices were moved to the first dimension by a decomposition.
            return self.upper(source.meta["val"].shape[0], node)
        return self._numel(source)

    def _numel(self, node: fx.Node) -> int:
        total = 1
        for size in node.meta["val"].shape:
            total *= self.upper(size, node)
        return total


def _dtype(value: Any) -> torch.dtype | None:
    return value.meta["val"].dtype if isinstance(value, fx.Node) else None


def _unbounded(gm: fx.GraphModule, size: Any, node: fx.Node) -> ExportError:
    """The error for a size without a bound, in terms of the user's model and export call."""
    env = size.node.shape_env
    symbols = [
        s
        for s in sorted(size.node.expr.free_symbols, key=str)
        if not env.var_to_range[s].upper.is_finite or env.var_to_range[s].upper >= _NO_BOUND
    ]
    for symbol in symbols:
        for placeholder in placeholders(gm.graph):
            value = placeholder.meta.get("val")
            shape = value.shape if isinstance(value, torch.Tensor) else ()
            for dim, extent in enumerate(shape):
                if not isinstance(extent, int) and extent.node.expr == symbol:
                    return _unbounded_input(env, symbol, placeholder, dim, extent)
    names = ", ".join(str(s) for s in symbols) or str(size)
    where = source_line(node)
    return ExportError(
        ExportErrorType.MISSING_PROPERTY,
        f"the size {size} of node {node.name} depends on values computed at run time ({names}) and "
        "has no upper bound, so no memory can be planned for it. Bound it in the model, for "
        "example `torch._check(n <= 128)` right after `n = x.item()`."
        + (f" At {where}" if where else ""),
    )


def _unbounded_input(env: Any, symbol: Any, node: fx.Node, dim: int, extent: Any) -> ExportError:
    name = _dim_name(env, symbol)
    lower = env.var_to_range[symbol].lower
    example = max(64, 4 * int(extent.node.hint)) if extent.node.has_hint() else 128
    minimum = f"min={lower}, " if lower.is_finite and lower > 2 else ""
    return ExportError(
        ExportErrorType.MISSING_PROPERTY,
        f"dynamic dimension {name!r} (dimension {dim} of input {node.name!r}) has no upper bound, "
        "so no memory can be planned for it. Give it one in the dynamic_shapes of "
        "torch.export.export, for example: "
        f'{name} = torch.export.Dim("{name}", {minimum}max={example})',
    )


def _dim_name(env: Any, symbol: Any) -> str:
    """The name the user gave to a Dim, as far as the shape environment remembers it."""
    names = getattr(env, "source_name_to_debug_name", {})
    sources = getattr(env, "var_to_sources", {}).get(symbol, [])
    for source in sources:
        text = source.name() if callable(source.name) else source.name
        if text in names:
            return str(names[text])
    return re.sub(r"\W", "_", str(symbol))
