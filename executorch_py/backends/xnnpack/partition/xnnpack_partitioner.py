"""XnnpackPartitioner: tags nodes for XNNPACK, in as few and as large regions as possible.

Selection finds the nodes that can be delegated, and Regions divides them. This module has
upstream's options, writes the tags, and writes reasons to nodes that stay.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram
from torch.fx.passes.infra.partitioner import Partition

from executorch_py.backends.xnnpack.partition.config import ALL_PARTITIONER_CONFIGS
from executorch_py.backends.xnnpack.partition.config.xnnpack_config import XNNPartitionerConfig
from executorch_py.backends.xnnpack.partition.prepare import prepare
from executorch_py.backends.xnnpack.partition.regions import Regions, edges_of
from executorch_py.backends.xnnpack.partition.restore_linear import Decomposed, restore
from executorch_py.backends.xnnpack.partition.selection import Request, Selection
from executorch_py.backends.xnnpack.partition.unroll_recurrent import unroll_recurrent
from executorch_py.backends.xnnpack.preprocess import XnnpackBackend
from executorch_py.backends.xnnpack.support.capability import GraphFacts, reason, serializable
from executorch_py.backends.xnnpack.support.node_facts import (
    NOT_LINEAR,
    ConfigPrecisionType,
    NodeFacts,
    Options,
    Quantized,
    Role,
    is_dequantize,
)
from executorch_py.backends.xnnpack.support.scale_checks import check_scales
from executorch_py.exir.backend.canonical_partitioners.duplicate_marked_nodes import (
    COPIES,
    FOR_ALL,
    FOR_PARTITIONS,
)
from executorch_py.exir.backend.cost import estimated_seconds
from executorch_py.exir.backend.partitioner import (
    DelegationSpec,
    Partitioner,
    PartitionResult,
)
from executorch_py.exir.backend.reports import note_reason
from executorch_py.exir.backend.tagging import tag_constant_data
from executorch_py.exir.ir.graph import constant_tensors, copy_program
from executorch_py.exir.ir.graph_modules import graph_modules
from executorch_py.exir.ir.op_traits import RESHAPES, op_key
from executorch_py.exir.settings_check import expect_bool, expect_unlike

logger = logging.getLogger(__name__)

# Operators that XNNPACK computes whole and that are not decomposed before partitioning.
_KEPT_WHOLE = (
    "aten.linear.default",
    "aten.hardswish.default",
    "aten.hardsigmoid.default",
    "aten.mish.default",
    "aten.matmul.default",
    "aten.max_pool2d.default",
    "aten.prelu.default",
    "aten.roll.default",
    "aten.scaled_dot_product_attention.default",
    "aten.upsample_bilinear2d.vec",
    "torchao.choose_qparams_affine.default",
    "torchao.quantize_affine.default",
    "torchao.dequantize_affine.default",
)
_KEPT = frozenset("::".join(n.split(".")[:2]) for n in _KEPT_WHOLE)
# Meta that tagging writes.
_TAGS = ("delegation_tag", COPIES)
_ONLY_MOVES = "it moves elements, and no delegated node beside it computes"
_AT_THE_EDGE = "a reshape at the edge of a delegate costs nothing outside"
_SMALL = "its region takes less time than calling a delegate"
# With leave_small_regions, regions below this time stay. By cost.py, a product takes more, and so
# does a transcendental function of 1024 elements. docs/benchmarks.md has the cost of a call.
_SMALL_SECONDS = 0.4e-6
_CYCLIC = "its conversions are read by nodes that it depends on itself"
_OPTIONS = (
    "per_op_mode",
    "verbose",
    "enable_bf16",
    "force_non_static_weights_for_f32_linear",
    "leave_small_regions",
    "delegate_moves",
)


def _check(configs: Any, precisions: Any) -> None:
    if configs is not None and not (
        isinstance(configs, Sequence) and all(isinstance(config, type) for config in configs)
    ):
        raise TypeError(f"configs: expected a list of classes of partition.config, got {configs!r}")
    if precisions is not None and not (
        isinstance(precisions, Sequence)
        and all(isinstance(precision, ConfigPrecisionType) for precision in precisions)
    ):
        known = ", ".join(str(precision) for precision in ConfigPrecisionType)
        raise TypeError(f"config_precisions: expected some of {known}, got {precisions!r}")


class XnnpackPartitioner(Partitioner):
    """Delegates the nodes that XNNPACK computes.

    configs: limits the partitioner to operators (classes of partition.config, or derived ones).
    config_precisions: limits it to operators that have these kinds of arithmetic; default: all.
    FP32 alone leaves conversions to and from integers outside, and computes between them in floats.
    per_op_mode: makes a delegate of every operator. verbose: prints the nodes that stay and why.
    enable_bf16: delegates bfloat16 products, for runtimes whose XNNPACK has them.
    force_non_static_weights_for_f32_linear: leaves weights and biases of float linear layers
    outside and passes them to the delegate in every call, for weights that other programs share.
    Upstream does not have these two. leave_small_regions: leaves regions that a delegate would only
    slow down. delegate_moves: takes, as upstream does, also what only moves or converts elements:
    cat, slices, clones, reshapes, quantize and dequantize nodes without a delegated neighbour that
    computes.
    """

    asks_functional_graph = False

    def __init__(
        self,
        configs: Sequence[type[XNNPartitionerConfig]] | None = None,
        config_precisions: ConfigPrecisionType | Sequence[ConfigPrecisionType] | None = None,
        per_op_mode: bool = False,
        verbose: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        if isinstance(config_precisions, ConfigPrecisionType):
            config_precisions = [config_precisions]
        _check(configs, config_precisions)
        for name, flag in (("per_op_mode", per_op_mode), ("verbose", verbose), *kwargs.items()):
            if name in _OPTIONS:
                expect_bool(name, flag)
            else:
                expect_unlike("XnnpackPartitioner", name, _OPTIONS)
        self.per_op_mode, self.verbose = per_op_mode, verbose
        self.delegation_spec = DelegationSpec(XnnpackBackend.__name__, [])
        self.target_partitioner_configs = _by_operator(
            [config(**kwargs) for config in configs or ALL_PARTITIONER_CONFIGS], config_precisions
        )
        precisions = frozenset(config_precisions or ConfigPrecisionType)
        self._request = Request(
            operators=self.target_partitioner_configs,
            only_these=bool(configs),
            precisions=precisions,
            options=Options(
                bf16=bool(kwargs.get("enable_bf16", False)),
                floats_only=precisions == {ConfigPrecisionType.FP32},
            ),
        )
        self._leave_small = bool(kwargs.get("leave_small_regions", False))
        self._takes_moves = bool(kwargs.get("delegate_moves", False))
        self._weights_stay_outside = bool(
            kwargs.get("force_non_static_weights_for_f32_linear", False)
        )

    # ---- before decomposition

    def transform_for_pre_decomposition(self, exported_program: ExportedProgram) -> ExportedProgram:
        """Unroll recurrent layers of few steps, if no option excludes the unrolled operators."""
        floats = ConfigPrecisionType.FP32 in self._request.precisions
        if self.per_op_mode or self._request.only_these or not floats:
            return exported_program
        return unroll_recurrent(exported_program)

    def ops_to_not_decompose(
        self, ep: ExportedProgram
    ) -> tuple[list[torch._ops.OpOverload], Callable[[fx.Node], bool] | None]:
        """The operators to keep whole, and a filter for their calls that XNNPACK computes.

        The filter is for the program as it is now: it makes the facts of each node once.
        """
        known = GraphFacts(constant_tensors(ep), self._request.options)

        def accepts(node: fx.Node) -> bool:
            if node.op != "call_function":
                return False
            if op_key(node.target).startswith("torchao::"):
                return True
            facts = known[node]
            if reason(facts, self._request.forms) is not None:
                return False
            return self._request.refusal(facts, ep) is None

        forms = self._forms()
        return [op for op in map(_overload, _KEPT_WHOLE) if op and op_key(op) in forms], accepts

    # ---- partitioning

    def transform_before_partition(self, edge_program: ExportedProgram) -> ExportedProgram:
        """Rewrite operators that would divide delegates; see restore_linear.py and prepare.py.

        Only layers that are delegated are restored, since no core operator is a linear layer.
        """
        left: dict[str, str] = {}  # products of layers that the selection leaves, with reasons
        while True:
            program = copy_program(edge_program)
            restored = self._restore_linears(program, left)
            prepare(program)
            if not restored:
                return program
            tagged = copy_program(program)
            _, [(gm, selection), *_] = self._tag(tagged)
            outside = {
                restored[node.name]: selection.reasons.get(node, _ONLY_MOVES)
                for node in gm.graph.nodes
                if node.name in restored and "delegation_tag" not in node.meta
            }
            if not outside:
                return program
            left |= outside

    def _restore_linears(self, program: ExportedProgram, left: Mapping[str, str]) -> dict[str, str]:
        """Restore layers in place, but those in `left`, and note why others are not restored."""
        request, facts = self._request, GraphFacts(constant_tensors(program), self._request.options)

        def concerns(layer: Decomposed) -> bool:
            if layer.product.name in left:
                layer.product.meta[NOT_LINEAR] = left[layer.product.name]
                return False
            return bool(self._weights_stay_outside or is_dequantize(layer.weight) or layer.reshapes)

        def accepts(product: fx.Node, linear: fx.Node) -> bool:
            why = request.exclusion(facts[product], program)
            why = why or reason(facts[linear], request.forms)
            why = why or request.refusal(facts[linear], program)
            if why is not None:
                product.meta[NOT_LINEAR] = why
            return why is None

        return restore(program, concerns, accepts)

    def _forms(self) -> frozenset[str]:
        return serializable() if self._request.forms is None else self._request.forms

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        """Tag the nodes of each delegate, in all graphs of a program."""
        tags, selections = self._tag(exported_program)
        for gm, selection in selections:
            tagged = (node for node in gm.graph.nodes if "delegation_tag" in node.meta)
            check_scales(selection.facts[node] for node in tagged)
            self._note(gm, selection)
        tag_constant_data(exported_program)
        if self._weights_stay_outside:
            _leave_weights(exported_program)
        return PartitionResult(exported_program, tags)

    def generate_partitions(self, ep: ExportedProgram) -> list[Partition]:
        """The nodes of each delegate of the main graph; the program is not tagged."""
        with _without_tags(ep):
            tags, _ = self._tag(ep)
            found: dict[str, list[fx.Node]] = {tag: [] for tag in tags}
            for node in ep.graph.nodes:
                if "delegation_tag" in node.meta:
                    found[node.meta["delegation_tag"]].append(node)
        delegates = filter(None, found.values())
        return [Partition(id=i, nodes=delegate) for i, delegate in enumerate(delegates)]

    def generate_per_op_partitions(self, ep: ExportedProgram) -> list[Partition]:
        """The nodes of each delegate if every operator becomes one."""
        singly = copy.copy(self)
        singly.per_op_mode = True
        return singly.generate_partitions(ep)

    def _tag(
        self, exported_program: ExportedProgram
    ) -> tuple[dict[str, DelegationSpec], list[tuple[fx.GraphModule, Selection]]]:
        """Tag the calls of each delegate; return the tags, and the selection from each graph."""
        tags: dict[str, DelegationSpec] = {}
        selections: list[tuple[fx.GraphModule, Selection]] = []
        constants = constant_tensors(exported_program)
        for gm in graph_modules(exported_program.graph_module):
            known = constants if gm is exported_program.graph_module else {}
            facts = GraphFacts(known, self._request.options)
            selection = Selection(gm, facts, self._request, exported_program)
            for nodes in self._regions(gm, selection):
                tag = f"tag{len(tags)}"
                tags[tag] = self.delegation_spec
                for node in nodes:
                    node.meta["delegation_tag"] = tag
            _tag_movable(gm, selection)
            for node in self._lone_conversions(gm, selection):
                node.meta["delegation_tag"] = tag = f"tag{len(tags)}"
                node.meta.pop(COPIES)
                tags[tag] = self.delegation_spec
            selections.append((gm, selection))
        return tags, selections

    def _regions(self, gm: fx.GraphModule, selection: Selection) -> list[list[fx.Node]]:
        facts = selection.facts

        def is_worth_a_call(nodes: Sequence[fx.Node]) -> bool:
            """Whether a region computes; operators kept from decomposition must be delegated."""
            if self._takes_moves:
                return True
            return any(facts[n].role is Role.COMPUTE or facts[n].key in _KEPT for n in nodes)

        while True:
            together = selection.operators() if self.per_op_mode else selection.colocated
            regions = Regions(gm.graph, selection.wanted, together, selection.movable)
            if regions.cyclic:
                selection.leave_all(regions.cyclic, _CYCLIC)
                continue
            if self.per_op_mode:
                return regions.singles()
            divided = regions.divide(is_worth_a_call)
            small = [nodes for nodes in divided if self._leave_small and _is_small(nodes, facts)]
            if not small:
                break
            for nodes in small:
                selection.leave_all(nodes, _SMALL)
        if self._takes_moves:
            return divided
        found = []
        for nodes in divided:
            edges = edges_of(nodes, {node for node in nodes if _is_free_outside(facts[node])})
            selection.leave_all(edges, _AT_THE_EDGE)
            found.append([node for node in nodes if node not in edges])
        return found

    def _lone_conversions(self, gm: fx.GraphModule, selection: Selection) -> list[fx.Node]:
        """The dequantized activations of which no reader is delegated, if moves are."""
        known = selection.facts
        return [
            node
            for node in gm.graph.nodes
            if self._takes_moves and node in selection.movable
            if known[node].quantized_value is Quantized.STATIC
            if "delegation_tag" not in node.meta
        ]

    def _note(self, gm: fx.GraphModule, selection: Selection) -> None:
        """Record the reason of every call that stays."""
        for node in gm.graph.nodes:
            if node.op != "call_function" or "delegation_tag" in node.meta:
                continue
            why = selection.reasons.get(node)
            if why is None and node in selection.wanted:
                why = _ONLY_MOVES
            if (
                why is None
                and node in selection.movable
                and selection.facts[node].role is not Role.SIZES
            ):
                why = "nothing that reads it is delegated"
            if why is not None:
                note_reason(node, why, is_weak=selection.is_excluded(node))
                logger.debug("%s is left: %s", node.name, why)
                if self.verbose:
                    print(f"{node.name} ({op_key(node.target)}) is left: {why}")


def _by_operator(
    configs: Sequence[XNNPartitionerConfig], precisions: Sequence[ConfigPrecisionType] | None
) -> dict[str, XNNPartitionerConfig]:
    found: dict[str, XNNPartitionerConfig] = {}
    for config in configs:
        config.set_enabled_precision_types(precisions)
        other = found.setdefault(config.target_name, config)
        if other is not config:
            names = " and ".join(type(c).__name__ for c in (other, config))
            raise RuntimeError(
                f"configs: expected one config per target_name, got {names} for "
                f"'{config.target_name}'"
            )
    return found


def _leave_weights(program: ExportedProgram) -> None:
    """Make weights and biases of delegated float linear layers inputs of the delegate."""
    for node in program.graph.nodes:
        if op_key(node.target) != "aten::linear" or "delegation_tag" not in node.meta:
            continue
        if node.args[1].op == "placeholder":  # weights of integers come out of a conversion
            for operand in node.args[1:]:
                if isinstance(operand, fx.Node):
                    operand.meta.pop("delegation_tag", None)


def _overload(name: str) -> Any:
    """The operator of that name; None if its library is not imported."""
    found: Any = torch.ops
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def _is_free_outside(facts: NodeFacts) -> bool:
    return facts.key in RESHAPES and not any(map(is_dequantize, facts.node.all_input_nodes))


@contextmanager
def _without_tags(program: ExportedProgram) -> Iterator[None]:
    """A block in which no node has a tag at first; tags from before come back behind it."""
    nodes = [node for gm in graph_modules(program.graph_module) for node in gm.graph.nodes]
    before = [{key: node.meta.pop(key) for key in _TAGS if key in node.meta} for node in nodes]
    try:
        yield
    finally:
        for node, tags in zip(nodes, before, strict=True):
            for key in _TAGS:
                node.meta.pop(key, None)
            node.meta.update(tags)


def _is_small(nodes: Sequence[fx.Node], facts: GraphFacts) -> bool:
    """Whether portable kernels compute a float region in the time of a delegate call."""
    if any(facts[n].role is Role.CONVERT or facts[n].key in _KEPT for n in nodes):
        return False
    return sum(map(estimated_seconds, nodes)) < _SMALL_SECONDS


def _tag_movable(gm: fx.GraphModule, selection: Selection) -> None:
    """Tag conversions and sizes with the regions of their readers; each region gets a copy.

    A dequantized activation that is also read outside is computed in the region that made the
    integers, so that the integers need not leave the region.
    """
    for node in reversed(gm.graph.nodes):
        if node not in selection.movable:
            continue
        tags = [user.meta.get("delegation_tag") for user in node.users]
        inside = [tag for tag in tags if tag is not None]
        source = node.args[0]
        activation = False
        if isinstance(source, fx.Node) and selection.facts[node].role is not Role.SIZES:
            activation = source.op == "call_function"
        own = source.meta.get("delegation_tag") if activation else None
        if own is None or len(inside) == len(tags):
            own = inside[0] if inside else None
        if own is not None:
            node.meta["delegation_tag"] = own
        node.meta[COPIES] = FOR_PARTITIONS if activation else FOR_ALL


class XnnpackDynamicallyQuantizedPartitioner(XnnpackPartitioner):
    """Delegates products with weights, the only operators with dynamic quantization."""

    def __init__(self, **kwargs: Any) -> None:
        if "config_precisions" in kwargs:
            raise ValueError(
                "config_precisions: expected none, as XnnpackDynamicallyQuantizedPartitioner is "
                f"DYNAMIC_QUANT by definition, got {kwargs['config_precisions']!r}; leave it out, "
                "or use XnnpackPartitioner"
            )
        super().__init__(config_precisions=ConfigPrecisionType.DYNAMIC_QUANT, **kwargs)


class XnnpackFloatingPointPartitioner(XnnpackPartitioner):
    """Delegates arithmetic in floats; conversions to and from integers stay outside."""

    def __init__(self) -> None:
        super().__init__(config_precisions=ConfigPrecisionType.FP32)


class XnnpackQuantizedPartitioner(XnnpackPartitioner):
    """Delegates operators that can be quantized with scales known ahead of time."""

    def __init__(self) -> None:
        super().__init__(config_precisions=ConfigPrecisionType.STATIC_QUANT)


__all__ = [
    "ALL_PARTITIONER_CONFIGS",
    "XnnpackDynamicallyQuantizedPartitioner",
    "XnnpackFloatingPointPartitioner",
    "XnnpackPartitioner",
    "XnnpackQuantizedPartitioner",
]
