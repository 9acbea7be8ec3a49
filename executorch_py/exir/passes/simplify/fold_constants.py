"""FoldConstants: results that depend on constants only are computed at export, by eager torch.

Such results are casts of scalars, aranges, masks, and above all transposed weights of linear
layers. Growth of the file is limited: a result much larger than the constants that it replaces is
computed at run time as before. So a tied embedding is not stored twice, and a large mask stays out
of the file. Quantization of constants is folded, and arithmetic on dequantized constants with it.
Dequantization itself, and calls that only move dequantized elements, stay for the passes that use
integer weights.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, InputSpec, TensorArgument

from executorch_py.exir.ir.constants import add_constants, drop_unused_constants, inherited_meta
from executorch_py.exir.ir.evaluate import (
    dense_example,
    depends_on_operands_only,
    evaluate,
    is_plain,
    laid_out_like,
    result_bytes,
)
from executorch_py.exir.ir.graph import erase_dead_nodes, foldable_constants
from executorch_py.exir.ir.op_traits import (
    CHOOSE_QPARAMS,
    DEQUANTIZE,
    MOVES,
    op_key,
)
from executorch_py.exir.ir.signature import name_outputs
from executorch_py.exir.passes.base import Contract, Fact, Pass, facts

# A result this small is always worth folding.
_SMALL_BYTES = 4096
# Bytes by which results may exceed the constants that they replace. In a large model the limit is
# this part of all its constants, because a mask costs less as bytes than as work in every run.
_ALLOWED_GROWTH = 64 * 1024
_ALLOWED_PART = 64
# Operators that leave the integers behind a dequantization readable.
_LEAVES = MOVES | {"aten::cat"}


class FoldConstants(Pass):
    """Replace results that depend on constants only by constants.

    Operators named in `keep` (as `aten::name.overload`) are not folded.
    """

    contract = Contract(requires=facts(Fact.FUNCTIONAL))

    def __init__(self, keep: Iterable[str] = ()) -> None:
        self.keep = CHOOSE_QPARAMS | set(keep)

    def run(self, program: ExportedProgram) -> bool:
        return _Folder(program, self.keep).run()


def constant_prop_pass(
    exported_program: ExportedProgram,
    custom_skip_targets: Iterable[Any] | None = None,
    _skip_dim_order: bool = True,
) -> ExportedProgram:
    """FoldConstants under upstream's name, in place; returns the same program.

    Upstream folds everything that depends on constants except the operators given here, and by
    default keeps dequantization where a backend or a quantized kernel can use it. New constants
    have upstream's names.
    """
    known = set(exported_program.constants)
    FoldConstants(map(op_key, custom_skip_targets or ())).run(exported_program)
    _number_new_constants(exported_program, known)
    name_outputs(exported_program)
    exported_program.graph_module.recompile()
    return exported_program


def _number_new_constants(ep: ExportedProgram, known: set[str]) -> None:
    """Name the constants that are not `known` by numbers, each like its placeholder."""
    nodes = {node.name: node for node in ep.graph.nodes if node.op == "placeholder"}
    specs = ep.graph_signature.input_specs
    for i, spec in enumerate(specs):
        if spec.kind is not InputKind.CONSTANT_TENSOR or spec.target in known:
            continue
        name = next(n for n in map("_prop_tensor_constant{}".format, count()) if n not in known)
        known.add(name)
        node = nodes[spec.arg.name]
        node._rename(name)
        node.target = node.name
        ep.constants[name] = ep.constants.pop(str(spec.target))
        specs[i] = InputSpec(spec.kind, TensorArgument(node.name), name, persistent=True)


@dataclass
class _Cluster:
    """Results that use the same large constants, and are folded together or not at all."""

    results: list[fx.Node] = field(default_factory=list)
    sources: set[fx.Node] = field(default_factory=set)


class _Folder:
    def __init__(self, ep: ExportedProgram, kept: Iterable[str]) -> None:
        self.ep = ep
        self.kept = frozenset(kept)
        self.graph = ep.graph_module.graph
        self.constants = {k: v for k, v in foldable_constants(ep).items() if is_plain(v)}
        self.foldable: set[fx.Node] = set()
        self.sources: dict[fx.Node, frozenset[fx.Node]] = {}
        self.values: dict[fx.Node, Any] = {}

    def run(self) -> bool:
        for node in self.graph.nodes:
            if node.op == "placeholder" and node.name in self.constants:
                self.sources[node] = frozenset([node])
                self.values[node] = self.constants[node.name].detach()
            elif self._is_foldable(node):
                self.foldable.add(node)
                self.sources[node] = frozenset().union(
                    *(self.sources[n] for n in node.all_input_nodes)
                )
        self._leave_integers()
        frontier = [n for n in self.graph.nodes if n in self.foldable and self._is_result(n)]
        chosen = self._worthwhile(frontier)
        if not chosen:
            return False
        self._replace(chosen)
        return True

    def _is_foldable(self, node: fx.Node) -> bool:
        return depends_on_operands_only(node, self.kept) and all(
            n in self.sources for n in node.all_input_nodes
        )

    def _leave_integers(self) -> None:
        """Keep dequantization of constants, and moves after it, that are read at run time."""
        floats: set[fx.Node] = set()
        for node in self.graph.nodes:
            moved = op_key(node.target) in _LEAVES and floats.issuperset(node.all_input_nodes)
            if node in self.foldable and (moved or op_key(node.target) in DEQUANTIZE):
                floats.add(node)
        for node in reversed(self.graph.nodes):
            if node in floats and self._is_result(node):
                self.foldable.discard(node)

    def _is_result(self, node: fx.Node) -> bool:
        return any(user not in self.foldable for user in node.users)

    def _worthwhile(self, frontier: list[fx.Node]) -> list[fx.Node]:
        """The results to fold: small ones, and clusters that do not make the file much larger."""
        chosen = {
            n for n in frontier if result_bytes(n) <= _SMALL_BYTES or self._is_reshaped_constant(n)
        }
        held = sum(value.numel() * value.element_size() for value in self.constants.values())
        allowed = max(_ALLOWED_GROWTH, held // _ALLOWED_PART)
        for cluster in self._clusters([n for n in frontier if n not in chosen]):
            folded = chosen | set(cluster.results)
            freed = sum(result_bytes(s) for s in cluster.sources if self._is_freed(s, folded))
            cost = sum(result_bytes(n) for n in _distinct(cluster.results))
            if cost <= freed + allowed:
                chosen = folded
                allowed -= max(0, cost - freed - _ALLOWED_GROWTH)
        return [n for n in frontier if n in chosen]

    def _is_reshaped_constant(self, node: fx.Node) -> bool:
        """Whether a result has the bytes of a constant, which the file then holds once."""
        if op_key(node.target) not in ("aten::view_copy", "aten::unsqueeze_copy"):
            return False
        source = node.args[0]
        return (
            isinstance(source, fx.Node)
            and source.op == "placeholder"
            and self.constants[source.name].is_contiguous()
        )

    def _clusters(self, results: list[fx.Node]) -> list[_Cluster]:
        clusters: list[_Cluster] = []
        of_source: dict[fx.Node, _Cluster] = {}
        for node in results:
            large = {s for s in self.sources[node] if result_bytes(s) > _SMALL_BYTES}
            merged = _Cluster([node], set(large))
            found = {id(of_source[s]): of_source[s] for s in large if s in of_source}
            for cluster in found.values():
                merged.results = cluster.results + merged.results
                merged.sources |= cluster.sources
                clusters.remove(cluster)
            clusters.append(merged)
            of_source.update({s: merged for s in merged.sources})
        return clusters

    def _is_freed(self, source: fx.Node, folded: set[fx.Node]) -> bool:
        """Whether every use of a constant ends in folded results."""
        stack = [source]
        while stack:
            node = stack.pop()
            for user in node.users:
                if user not in self.foldable:
                    return False
                if user not in folded:
                    stack.append(user)
        return True

    def _replace(self, chosen: list[fx.Node]) -> None:
        placeholders: dict[Any, fx.Node] = {}
        pending: list[tuple[str, torch.Tensor, object, dict[str, object]]] = []
        keys: dict[fx.Node, Any] = {}
        with torch.no_grad():
            for node in chosen:
                key = _identity(node)
                keys[node] = key
                if key not in placeholders:
                    placeholders[key] = node
                    example = dense_example(node.meta["val"])
                    value = laid_out_like(evaluate(node, self.values), example)
                    meta = {k: node.meta[k] for k in ("stack_trace",) if k in node.meta}
                    meta |= inherited_meta(self.sources[node])
                    pending.append((self._name(node), value, example, meta))
        self.values.clear()
        made = dict(zip(placeholders, add_constants(self.ep, pending), strict=True))
        for node in chosen:
            node.replace_all_uses_with(made[keys[node]])
        erase_dead_nodes(self.graph)
        drop_unused_constants(self.ep, set(self.constants))

    def _name(self, node: fx.Node) -> str:
        """`<weight>_folded` for a value of one constant, else a name after the node."""
        sources = self.sources[node]
        if len(sources) == 1:
            (source,) = sources
            fqn = next(
                s.target for s in self.ep.graph_signature.input_specs if s.arg.name == source.name
            )
            return f"{fqn}_folded"
        return f"_folded_{node.name}"


def _identity(node: fx.Node) -> Any:
    """A key that is equal for calls with equal values: one operator with equal arguments."""
    return (op_key(node.target), _key_of(node.args), _key_of(node.kwargs))


def _key_of(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return tuple(_key_of(item) for item in value)
    if isinstance(value, dict):
        return tuple((k, _key_of(v)) for k, v in sorted(value.items()))
    return (type(value).__name__, value) if not isinstance(value, fx.Node) else value


def _distinct(results: list[fx.Node]) -> list[fx.Node]:
    return list({_identity(n): n for n in results}.values())
