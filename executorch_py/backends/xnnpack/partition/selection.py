"""Which nodes of a graph XNNPACK takes, what goes with them, and why it leaves the others.

Node by node from support.py, then by what nodes need of each other: weights and their conversions,
scales found at run time, quantized results. Knows no regions and no tags.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from torch import fx
from torch.export import ExportedProgram

from executorch_py.backends.xnnpack.partition.config.xnnpack_config import (
    XNNPartitionerConfig,
    config_key,
)
from executorch_py.backends.xnnpack.support.capability import COMPANIONS, GraphFacts, reason
from executorch_py.backends.xnnpack.support.node_facts import (
    ConfigPrecisionType,
    NodeFacts,
    Options,
    Quantization,
    Quantized,
    Role,
    is_dequantize,
    is_quantize,
)
from executorch_py.exir.ir.op_traits import is_getitem, op_key

FP32 = ConfigPrecisionType.FP32
STATIC = ConfigPrecisionType.STATIC_QUANT
DYNAMIC = ConfigPrecisionType.DYNAMIC_QUANT
_FUSED = frozenset({"aten::relu", "aten::hardtanh"})
_WEIGHTS = {"aten::linear": "weight", "aten::mm": "mat2", "aten::addmm": "mat2"}
_PACKED_EACH_TIME = "its weights come into a loop or branch as operands, packed in every call"
_KINDS = {FP32: "not quantized", STATIC: "quantized statically", DYNAMIC: "quantized dynamically"}


@dataclass(frozen=True)
class Request:
    """What a partitioner was asked to take: kinds of arithmetic, operators by their configs.

    As in upstream, kinds of arithmetic choose operators: one that has a kind asked for is taken
    however its operands are. Floats alone leave what is quantized. Without `only_these`, operators
    that have no config are taken with the floats.
    """

    operators: Mapping[str, XNNPartitionerConfig]
    only_these: bool = False
    precisions: frozenset[ConfigPrecisionType] = frozenset(ConfigPrecisionType)
    options: Options = field(default_factory=Options)
    forms: frozenset[str] | None = None

    def _config(self, facts: NodeFacts) -> XNNPartitionerConfig | None:
        return self.operators.get(config_key(facts.key))

    def refusal(self, facts: NodeFacts, program: ExportedProgram) -> str | None:
        """Why this node was not asked for."""
        if self.precisions == {FP32} and facts.precision is not FP32:
            return f"it is {_KINDS[facts.precision]}, which was not asked for"
        config = self._config(facts)
        if config is None and self.only_these:
            return "its operator was not asked for"
        enabled = _kinds_of(facts) if config is None else config.enabled_precision_types
        if self.precisions.isdisjoint(enabled):
            kinds = " or ".join(_KINDS[p] for p in ConfigPrecisionType if p in self.precisions)
            return f"it is never {kinds}; the rest was not asked for"
        if config is not None and not config.takes(facts.node, program):
            return f"{type(config).__name__} refuses it"
        return None

    def quantizes(self, facts: NodeFacts) -> bool:
        """Whether an operator that is taken brings its conversions along."""
        config = self._config(facts)
        return config is None or config.enabled_precision_types != [FP32]


def _kinds_of(facts: NodeFacts) -> list[ConfigPrecisionType]:
    """The kinds of arithmetic of an operator without a config."""
    quantized = facts.rule is not None and facts.rule.quantization is not Quantization.NONE
    return [FP32, STATIC] if quantized else [FP32]


def _multiplies_operand(facts: NodeFacts) -> bool:
    """Whether a product's weights are an input of the graph that it is in."""
    name = _WEIGHTS.get(facts.key)
    return name is not None and bool(facts.argument(name).op == "placeholder")


def _moved(operand: NodeFacts) -> list[fx.Node]:
    """An operand, what it was before it was moved, and all between."""
    chain = [operand.node]
    while chain[-1] is not operand.before_moves:
        chain.append(chain[-1].all_input_nodes[0])
    return chain


def _chain(node: fx.Node, last: fx.Node) -> list[fx.Node]:
    """The only reader of a node, its only reader, and so on, with the node."""
    chain = [node]
    while chain[-1] is not last:
        chain.append(next(iter(chain[-1].users)))
    return chain


def _has_integer_weights(facts: NodeFacts) -> bool:
    return any(facts.quantized(arg) is Quantized.CONSTANT for arg in facts.operands)


class Selection:
    """The nodes of one graph that can be delegated.

    `wanted` are calls, `groups` those that stay together, `floating` those of which each region can
    have a copy; `reasons` tells of every other call why it is left.
    """

    def __init__(
        self, gm: fx.GraphModule, facts: GraphFacts, request: Request, program: ExportedProgram
    ) -> None:
        self.facts, self._request, self._program = facts, request, program
        self._in_body = gm is not program.graph_module
        self.wanted: set[fx.Node] = set()
        self.groups: list[list[fx.Node]] = []
        self.floating: set[fx.Node] = set()
        self.reasons: dict[fx.Node, str] = {}
        self._unasked: set[fx.Node] = set()  # left only for want of being asked for
        self._calls = [facts[node] for node in gm.graph.nodes if node.op == "call_function"]
        for call in self._calls:
            if not is_getitem(call.node.target):
                self._look_at(call)
        for call in [c for c in self._calls if c.node in self.wanted]:
            self._ask_for_neighbours(call)
        self._bind()
        for call in self._calls:
            if is_getitem(call.node.target) and call.node.args[0] in self.wanted:
                self.wanted.add(call.node)

    def _look_at(self, facts: NodeFacts) -> None:
        node = facts.node
        if facts.role is Role.SIZES or facts.quantized_value is Quantized.CONSTANT:
            self.floating.add(node)
            return
        if facts.key in COMPANIONS:
            return  # taken along by what reads it, see _bind
        found = _PACKED_EACH_TIME if self._in_body and _multiplies_operand(facts) else None
        if found is None:
            found = reason(facts, self._request.forms)
        if found is None:
            found = self._request.refusal(facts, self._program)
            if found is not None:
                self._unasked.add(node)
        if found is not None:
            self.reasons[node] = found
        elif is_dequantize(node):
            self.floating.add(node)
        else:
            self.wanted.add(node)

    def _ask_for_neighbours(self, facts: NodeFacts) -> None:
        """Operators on integers bring their conversions, products the activation behind them."""
        if not self._unasked or not self._request.quantizes(facts):
            return
        near = self._fused_behind(facts)
        if facts.precision is STATIC:
            behind = facts.quantized_result
            for arg in facts.operands:
                near += _moved(self.facts[arg])
            near += [] if behind is None else _chain(facts.node, behind)[1:]
        for other in self._unasked.intersection(near):
            self._unasked.remove(other)
            self.reasons.pop(other)
            (self.floating if is_dequantize(other) else self.wanted).add(other)

    def _fused_behind(self, facts: NodeFacts) -> list[fx.Node]:
        """The activation that a float product with weights computes on the way out, if any."""
        rule, users = facts.rule, list(facts.node.users)
        if rule is None or rule.quantization is not Quantization.GEMM or len(users) != 1:
            return []
        if facts.precision is not FP32:
            return []
        return [user for user in users if op_key(user.target) in _FUSED]

    # ---- what belongs together

    def _bind(self) -> None:
        """Take conversions along with products, or leave products whose conversions are not."""
        for call in self._calls:
            if call.node in self.wanted:
                self._bind_product(call)
        changed = True
        while changed:  # a chain that one reader cannot follow keeps the others, too
            changed = False
            for group in list(self.groups):
                outside = self._outside_reader(group)
                if outside is not None:
                    self._dissolve(group, outside)
                    changed = True
        bound = {node for group in self.groups for node in group}
        for node in (call.node for call in self._calls):
            if node in bound:
                self.wanted.add(node)
                self.reasons.pop(node, None)
            elif not (node in self.wanted or node in self.floating or is_getitem(node.target)):
                self.reasons.setdefault(node, "nothing that it converts for is delegated")

    def _bind_product(self, facts: NodeFacts) -> None:
        if facts.rule is None or facts.rule.quantization is not Quantization.GEMM:
            return
        node = facts.node
        for operand in map(self.facts.__getitem__, facts.operands):
            *moves, source = _moved(operand)
            known = self.wanted.issuperset(moves) and _has_integer_weights(facts)
            if operand.quantized_value is Quantized.DYNAMIC:
                self.groups.append([node, *dict.fromkeys(operand.dynamic_chain)])
            elif facts.quantized(source) is Quantized.STATIC and known:
                self._bind_static(facts, source)

    def _bind_static(self, facts: NodeFacts, dequantize: fx.Node) -> None:
        """Integer products make integers: the node, its activation, and the conversion behind."""
        node, behind = facts.node, facts.quantized_result
        assert behind is not None
        group = _chain(node, behind)
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

    def operators(self) -> list[list[fx.Node]]:
        """The groups, and products with the activations fused to them: what is one operator."""
        pairs = [(call.node, user) for call in self._calls for user in self._fused_behind(call)]
        return [*self.groups, *(list(pair) for pair in pairs if self.wanted.issuperset(pair))]
