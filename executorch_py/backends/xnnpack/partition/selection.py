"""Selection of the nodes of a graph for XNNPACK, with reasons for the others.

Nodes are selected one by one by the capability table, and then by their dependence on each other:
weights and their conversions, scales found at run time, quantized results. Knows no regions and no
tags.
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
from executorch_py.backends.xnnpack.partition.restore_linear import ORIGIN
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
_PACKED_IN_CALLS = "its weights come into a loop or branch as operands, packed in every call"
_KINDS = {FP32: "not quantized", STATIC: "quantized statically", DYNAMIC: "quantized dynamically"}


@dataclass(frozen=True)
class Request:
    """The options of a partitioner: kinds of arithmetic, and operators by their configs.

    As in upstream, a kind of arithmetic chooses operators: an operator that has the kind is
    selected with quantized and with float operands. FP32 alone excludes conversions to and from
    integers. Without `only_these`, operators without a config are selected with FP32.
    """

    operators: Mapping[str, XNNPartitionerConfig]
    only_these: bool = False
    precisions: frozenset[ConfigPrecisionType] = frozenset(ConfigPrecisionType)
    options: Options = field(default_factory=Options)
    forms: frozenset[str] | None = None

    def _config(self, facts: NodeFacts) -> XNNPartitionerConfig | None:
        """The config of an operator; a restored linear layer may have that of its product."""
        origin = facts.node.meta.get(ORIGIN, facts.key)
        found = self.operators.get(config_key(facts.key))
        return self.operators.get(config_key(origin)) if found is None else found

    def exclusion(self, facts: NodeFacts, program: ExportedProgram) -> str | None:
        """Why the node's config excludes it; None if it does not, or if there is none."""
        config = self._config(facts)
        taken = config is None or config.takes(facts, program)
        return None if taken else f"{type(config).__name__} refuses it"

    def refusal(self, facts: NodeFacts, program: ExportedProgram) -> str | None:
        """Why the options exclude a node; None if they do not."""
        if self.options.floats_only and facts.role is Role.CONVERT:
            return "it converts to or from integers, which the partitioner's options exclude"
        config = self._config(facts)
        if config is None and self.only_these:
            return "the partitioner's configs do not include its operator"
        enabled = _kinds_of(facts) if config is None else config.enabled_precision_types
        if self.precisions.isdisjoint(enabled):
            kinds = " or ".join(_KINDS[p] for p in ConfigPrecisionType if p in self.precisions)
            return f"it is never {kinds}; the partitioner's options exclude the rest"
        return self.exclusion(facts, program)

    def quantizes(self, facts: NodeFacts) -> bool:
        """Whether the conversions of a selected operator are selected with it."""
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


def _moves_of(operand: NodeFacts) -> list[fx.Node]:
    """An operand and the moves before it, back to the node whose elements they move."""
    path = [operand.node]
    while path[-1] is not operand.before_moves:
        path.append(path[-1].all_input_nodes[0])
    return path


def _path(node: fx.Node, last: fx.Node) -> list[fx.Node]:
    """The nodes from one to another, each the only reader of the one before."""
    path = [node]
    while path[-1] is not last:
        path.append(next(iter(path[-1].users)))
    return path


def _has_integer_weights(facts: NodeFacts) -> bool:
    return any(facts.quantized(arg) is Quantized.CONSTANT for arg in facts.operands)


class Selection:
    """The nodes of one graph that can be delegated.

    wanted: selected calls. colocated: sets of nodes that must be in one region. movable: nodes of
    which each region can have a copy. reasons: why each other call is left.
    """

    def __init__(
        self, gm: fx.GraphModule, facts: GraphFacts, request: Request, program: ExportedProgram
    ) -> None:
        self.facts, self._request, self._program = facts, request, program
        self._in_body = gm is not program.graph_module
        self.wanted: set[fx.Node] = set()
        self.colocated: list[list[fx.Node]] = []
        self.movable: set[fx.Node] = set()
        self.reasons: dict[fx.Node, str] = {}
        self._excluded: set[fx.Node] = set()  # left for the partitioner's options alone
        self._calls = [facts[node] for node in gm.graph.nodes if node.op == "call_function"]
        for call in self._calls:
            if not is_getitem(call.node.target):
                self._select(call)
        for call in [c for c in self._calls if c.node in self.wanted]:
            self._include_neighbours(call)
        self._colocate()
        for call in self._calls:
            if is_getitem(call.node.target) and call.node.args[0] in self.wanted:
                self.wanted.add(call.node)

    def _select(self, facts: NodeFacts) -> None:
        node = facts.node
        is_weight = facts.quantized_value is Quantized.CONSTANT or facts.is_folded_weight
        if facts.role is Role.SIZES or is_weight:
            self.movable.add(node)
            return
        is_companion = facts.key in COMPANIONS
        if is_companion and not self._request.options.floats_only:
            return  # selected with its reader, see _colocate
        found = _PACKED_IN_CALLS if self._in_body and _multiplies_operand(facts) else None
        if found is None and not is_companion:
            found = reason(facts, self._request.forms)
        if found is None:
            found = self._request.refusal(facts, self._program)
            if found is not None:
                self._excluded.add(node)
        if found is not None:
            self.reasons[node] = found
        elif is_dequantize(node):
            self.movable.add(node)
        else:
            self.wanted.add(node)

    def _include_neighbours(self, facts: NodeFacts) -> None:
        """Select conversions around operators on integers, and activations behind products."""
        if not self._excluded or not self._request.quantizes(facts):
            return
        near = self._fused_behind(facts)
        if facts.precision is STATIC:
            behind = facts.quantized_result
            for arg in facts.operands:
                near += _moves_of(self.facts[arg])
            near += [] if behind is None else _path(facts.node, behind)[1:]
        for other in self._excluded.intersection(near):
            self._excluded.remove(other)
            self.reasons.pop(other)
            (self.movable if is_dequantize(other) else self.wanted).add(other)

    def _fused_behind(self, facts: NodeFacts) -> list[fx.Node]:
        """The activation that is fused with a float product with weights, if any."""
        rule, users = facts.rule, list(facts.node.users)
        if rule is None or rule.quantization is not Quantization.GEMM or len(users) != 1:
            return []
        if facts.precision is not FP32:
            return []
        return [user for user in users if op_key(user.target) in _FUSED]

    # ---- colocated nodes

    def _colocate(self) -> None:
        """Select conversions with products, or leave products whose conversions are left."""
        for call in self._calls:
            if call.node in self.wanted:
                self._colocate_product(call)
        changed = True
        while changed:  # a reader that is left may force others of its conversions to stay
            changed = False
            for members in list(self.colocated):
                outside = self._outside_reader(members)
                if outside is not None:
                    self._dissolve(members, outside)
                    changed = True
        bound = {node for members in self.colocated for node in members}
        for node in (call.node for call in self._calls):
            if node in bound:
                self.wanted.add(node)
                self.reasons.pop(node, None)
                self._excluded.discard(node)
            elif not (node in self.wanted or node in self.movable or is_getitem(node.target)):
                self.reasons.setdefault(node, "nothing that it converts for is delegated")

    def _colocate_product(self, facts: NodeFacts) -> None:
        if facts.rule is None or facts.rule.quantization is not Quantization.GEMM:
            return
        node = facts.node
        for operand in map(self.facts.__getitem__, facts.operands):
            *moves, source = _moves_of(operand)
            known = self.wanted.issuperset(moves) and _has_integer_weights(facts)
            if operand.quantized_value is Quantized.DYNAMIC:
                self.colocated.append([node, *dict.fromkeys(operand.dynamic_chain)])
            elif facts.quantized(source) is Quantized.STATIC and known:
                self._colocate_static(facts, source)

    def _colocate_static(self, facts: NodeFacts, dequantize: fx.Node) -> None:
        """Colocate an integer product with its activation and the quantization of its result."""
        node, behind = facts.node, facts.quantized_result
        assert behind is not None
        members = _path(node, behind)
        for member in (dequantize, *members):
            if member in self.reasons:
                self._leave(node, f"'{member.name}' beside it is left: {self.reasons[member]}")
                return
        self.colocated.append(members)

    def _outside_reader(self, members: Collection[fx.Node]) -> fx.Node | None:
        """A reader of a conversion with a dynamic scale that cannot be delegated, if any."""
        for node in members:
            if op_key(node.target) not in COMPANIONS and not is_quantize(node):
                continue
            for user in node.users:
                known = user in self.wanted or user in members or is_getitem(user.target)
                if not known and not self._is_static_result(node, members):
                    return user
        return None

    def _is_static_result(self, node: fx.Node, members: Collection[fx.Node]) -> bool:
        return is_quantize(node) and not any(
            op_key(member.target) in COMPANIONS for member in members
        )

    def _dissolve(self, members: list[fx.Node], outside: fx.Node) -> None:
        self.colocated.remove(members)
        self._leave(
            members[0],
            f"'{outside.name}' reads its quantized input too and is left; "
            "DuplicateDynamicQuantChainPass gives each reader its own",
        )

    def _leave(self, node: fx.Node, why: str) -> None:
        self.wanted.discard(node)
        self.reasons[node] = why
        self._excluded.discard(node)

    def leave_all(self, nodes: Collection[fx.Node], why: str) -> None:
        """Deselect nodes, and dissolve the colocated sets that they are in."""
        left = set(nodes)
        self.colocated = [members for members in self.colocated if left.isdisjoint(members)]
        for node in nodes:
            self._leave(node, why)

    def is_excluded(self, node: fx.Node) -> bool:
        """Whether a call is left for the partitioner's options alone."""
        return node in self._excluded

    def operators(self) -> list[list[fx.Node]]:
        """The sets of nodes that are one operator: colocated ones, products with activations."""
        pairs = [(call.node, user) for call in self._calls for user in self._fused_behind(call)]
        return [*self.colocated, *(list(pair) for pair in pairs if self.wanted.issuperset(pair))]
