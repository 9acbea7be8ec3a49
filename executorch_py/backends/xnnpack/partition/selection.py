"""Which nodes of a graph XNNPACK takes, what goes with them, and why it leaves the others.

Node by node from support.py, then by what nodes need of each other: weights and their conversions,
scales found at run time, quantized results. Knows no regions and no tags.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import torch
from torch import fx

from executorch_py.backends.xnnpack.partition.config.xnnpack_config import (
    ConfigPrecisionType,
    config_key,
)
from executorch_py.backends.xnnpack.site import (
    Options,
    Quantized,
    Site,
    dynamic_chain,
    is_dequantize,
    is_quantize,
    quantization_of,
    size_sources,
)
from executorch_py.backends.xnnpack.support import (
    COMPANIONS,
    Quantization,
    Role,
    reason,
    role_of,
    rule_of,
)
from executorch_py.backends.xnnpack.support_checks import quantized_result
from executorch_py.exir.ir.op_facts import is_getitem, op_key

FP32 = ConfigPrecisionType.FP32
STATIC = ConfigPrecisionType.STATIC_QUANT
DYNAMIC = ConfigPrecisionType.DYNAMIC_QUANT
_KINDS = {FP32: "not quantized", STATIC: "quantized statically", DYNAMIC: "quantized dynamically"}


@dataclass(frozen=True)
class Request:
    """What a partitioner was asked to take: kinds of arithmetic, operators (None: all), options."""

    precisions: frozenset[ConfigPrecisionType] = frozenset(ConfigPrecisionType)
    operators: Mapping[str, frozenset[ConfigPrecisionType]] | None = None
    options: Options = field(default_factory=Options)
    forms: frozenset[str] | None = None

    def refusal(self, node: fx.Node, kind: ConfigPrecisionType) -> str | None:
        """Why this node was not asked for."""
        if kind not in self.precisions:
            return f"it is {_KINDS[kind]}, which was not asked for"
        if self.operators is not None:
            kinds = self.operators.get(config_key(op_key(node.target)), frozenset())
            if kind not in kinds:
                return "its operator was not asked for"
        return None


def precision_of(node: fx.Node, constants: Mapping[str, torch.Tensor]) -> ConfigPrecisionType:
    """With which arithmetic a node would be computed."""
    rule = rule_of(node)
    if rule is None or rule.role is Role.CONVERT:
        return STATIC
    site = Site(node, dict(constants))
    activations = [arg for arg in site.operands() if site.constant(arg) is None]
    kinds = {site.quantized(arg) for arg in activations}
    if Quantized.DYNAMIC in kinds:
        return DYNAMIC
    if rule.quantization is Quantization.NONE or quantized_result(node) is None:
        return FP32
    if kinds == {Quantized.STATIC}:
        return STATIC
    if len(activations) == 1 and quantized_result(activations[0]) is not None:
        return precision_of(activations[0], constants)  # an activation behind a quantized node
    return FP32


class Selection:
    """The nodes of one graph that can be delegated.

    `wanted` are calls, `groups` those that stay together, `floating` those of which each region can
    have a copy; `reasons` tells of every other call why it is left.
    """

    def __init__(
        self, gm: fx.GraphModule, constants: Mapping[str, torch.Tensor], request: Request
    ) -> None:
        self._constants, self._request = dict(constants), request
        self.wanted: set[fx.Node] = set()
        self.groups: list[list[fx.Node]] = []
        self.floating: set[fx.Node] = set()
        self.reasons: dict[fx.Node, str] = {}
        self._calls = [node for node in gm.graph.nodes if node.op == "call_function"]
        for node in self._calls:
            if not is_getitem(node.target):
                self._look_at(node)
        self._bind()
        for node in self._calls:
            if is_getitem(node.target) and node.args[0] in self.wanted:
                self.wanted.add(node)

    def _look_at(self, node: fx.Node) -> None:
        role = role_of(node)
        if role is Role.SIZES:
            self.floating.add(node)
            return
        if is_dequantize(node) and quantization_of(node, self._constants) is Quantized.CONSTANT:
            self.floating.add(node)
            return
        if op_key(node.target) in COMPANIONS:
            return  # taken along by what reads it, see _bind
        request = self._request
        found = reason(node, self._constants, request.options, request.forms)
        if found is None:
            found = request.refusal(node, precision_of(node, self._constants))
        if found is not None:
            self.reasons[node] = found
        elif is_dequantize(node):
            self.floating.add(node)
        else:
            self.wanted.add(node)

    # ---- what belongs together

    def _bind(self) -> None:
        """Take conversions along with products, or leave products whose conversions are not."""
        for node in self._calls:
            if node in self.wanted:
                self._bind_product(node)
        changed = True
        while changed:  # a chain that one reader cannot follow keeps the others, too
            changed = False
            for group in list(self.groups):
                outside = self._outside_reader(group)
                if outside is not None:
                    self._dissolve(group, outside)
                    changed = True
        bound = {node for group in self.groups for node in group}
        for node in self._calls:
            if node in bound:
                self.wanted.add(node)
                self.reasons.pop(node, None)
            elif node not in self.wanted | self.floating and not is_getitem(node.target):
                self.reasons.setdefault(node, "nothing that it converts for is delegated")

    def _bind_product(self, node: fx.Node) -> None:
        rule = rule_of(node)
        if rule is None or rule.quantization is not Quantization.GEMM:
            return
        site = Site(node, self._constants)
        for arg in site.operands():
            how = site.quantized(arg)
            if how is Quantized.DYNAMIC:
                self.groups.append([node, *dict.fromkeys(dynamic_chain(arg))])
            elif how is Quantized.STATIC and self._has_integer_weights(site):
                self._bind_static(node, arg)

    def _has_integer_weights(self, site: Site) -> bool:
        return any(site.quantized(arg) is Quantized.CONSTANT for arg in site.operands())

    def _bind_static(self, node: fx.Node, dequantize: fx.Node) -> None:
        """Integer products make integers: the node, its activation, and the conversion behind."""
        behind = quantized_result(node)
        assert behind is not None
        group = [node]
        while group[-1] is not behind:
            group.append(next(iter(group[-1].users)))
        for member in (dequantize, *group):
            if member in self.reasons:
                self._leave(node, f"'{member.name}' beside it is left: {self.reasons[member]}")
                return
        self.groups.append(group)

    def _outside_reader(self, group: Collection[fx.Node]) -> fx.Node | None:
        """Who reads a conversion with a scale found at run time and cannot be delegated."""
        for node in group:
            if op_key(node.target) not in COMPANIONS and not is_quantize(node):
                continue
            for user in node.users:
                known = user in self.wanted or user in group or is_getitem(user.target)
                if not known and not self._is_static_result(node, group):
                    return user
        return None

    def _is_static_result(self, node: fx.Node, group: Collection[fx.Node]) -> bool:
        return is_quantize(node) and not any(
            op_key(member.target) in COMPANIONS for member in group
        )

    def _dissolve(self, group: list[fx.Node], outside: fx.Node) -> None:
        self.groups.remove(group)
        self._leave(
            group[0],
            f"'{outside.name}' reads its quantized input too and is left; "
            "DuplicateDynamicQuantChainPass gives each reader its own",
        )

    def _leave(self, node: fx.Node, why: str) -> None:
        self.wanted.discard(node)
        self.reasons[node] = why

    def leave_all(self, nodes: Collection[fx.Node], why: str) -> None:
        """Take back nodes, and the groups that they are in."""
        taken_back = set(nodes)
        self.groups = [group for group in self.groups if taken_back.isdisjoint(group)]
        for node in nodes:
            self._leave(node, why)

    def size_nodes(self, node: fx.Node) -> list[fx.Node]:
        """The nodes that compute sizes for a node."""
        return size_sources(node)[0]
