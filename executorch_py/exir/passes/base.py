"""Pass: the protocol of every step between an exported program and its memory plan.

A pass is one class, one sentence, one rewrite in place. Its contract names the facts that it relies
on, brings about and ends; all other facts stay as they were. `run` tells whether the program
changed. checks.py tests both after every pass if checks are enabled. Orders of passes are in
to_edge/steps.py and pipeline.py; this module knows no particular pass.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeAlias

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node
from torch.fx.passes.infra.pass_base import PassBase, PassResult

from executorch_py.exir.ir.graph_modules import graph_modules

# Meta that an inserted node inherits from the node for which it is inserted.
_INHERITED_META = ("stack_trace", "nn_module_stack", "source_fn_stack", "from_node", "torch_fn")


class Fact(Enum):
    """A rule that holds for every node of a program; checks.py has the test of each."""

    ATEN = "operators are torch's"
    NO_VIEWS = "no operator returns a view of its operand"
    TENSOR_OPERANDS = "tensor arguments of operators are tensors, not numbers"
    EDGE = "operators are the edge dialect's"
    DIM_ORDER = "layouts are dim orders, not memory formats"
    FUNCTIONAL = "no operator writes to its operands"
    PLAIN_MUTATIONS = "operators that write to operands are called without a wrapper"
    NO_METADATA_ASSERTIONS = "no dtypes or layouts are asserted"
    NO_ASSERTIONS = "nothing is asserted"
    SPECS = "every result has the TensorSpec of its value"
    RUNTIME_ARITHMETIC = "arithmetic on sizes calls operators of the runtime"
    UPPER_BOUNDS = "sizes of every TensorSpec are numbers"
    OUT_VARIANTS = "operators write to memory that the graph allocates"


Facts: TypeAlias = frozenset[Fact]


def facts(*named: Fact) -> Facts:
    """A set of facts."""
    return frozenset(named)


@dataclass(frozen=True)
class Dialect:
    """The verifier of a dialect, and the facts with which its rules hold."""

    verifier: Any
    facts: Facts


@dataclass(frozen=True)
class Contract:
    """Facts that a pass relies on, brings about and ends."""

    requires: Facts = frozenset()
    ensures: Facts = frozenset()
    ends: Facts = frozenset()

    def after(self, before: Facts) -> Facts:
        """The facts that hold after the pass, given those that held before."""
        return (before - self.ends) | self.ensures


def contract_of(passes: Iterable[Pass]) -> Contract:
    """The contract of passes that run one after the other."""
    requires, ensures, ends = facts(), facts(), facts()
    for one in passes:
        requires |= one.contract.requires - ensures
        ensures = one.contract.after(ensures)
        ends = (ends | one.contract.ends) - one.contract.ensures
    return Contract(requires, ensures, ends)


class Pass(ABC):
    """One rewrite of one program, in place."""

    contract: Contract

    @abstractmethod
    def run(self, program: ExportedProgram) -> bool:
        """Rewrite the program; True exactly if it changed."""


class GraphPass(PassBase, Pass):
    """A pass that needs the graph alone, and is therefore a pass of torch.fx as well.

    Subclasses define `rewrite`, or `apply` where one graph cannot be rewritten by itself.
    """

    def rewrite(self, gm: GraphModule) -> bool:
        """Change the graph of `gm`, not its control-flow bodies; True if it changed."""
        raise NotImplementedError(f"{type(self).__name__} defines neither rewrite() nor apply()")

    def apply(self, gm: GraphModule) -> bool:
        """Rewrite `gm` and its control-flow bodies, leaving generated code stale."""
        return any([self.rewrite(module) for module in graph_modules(gm)])

    def run(self, program: ExportedProgram) -> bool:
        return self.apply(program.graph_module)

    def call(self, graph_module: GraphModule) -> PassResult:
        """Rewrite through the interface of torch.fx, generated code included."""
        modified = self.apply(graph_module)
        if modified:
            for module in graph_modules(graph_module):
                module.recompile()
        return PassResult(graph_module, modified)


class FxPass(Pass):
    """A pass of torch.fx, maybe the user's, as a step of a pipeline.

    The pass is called as torch.fx calls it. A result that is no PassResult counts as a change.
    """

    def __init__(
        self, graph_pass: Callable[[GraphModule], Any], contract: Contract | None = None
    ) -> None:
        self.graph_pass = graph_pass
        self.contract = contract or Contract()

    def run(self, program: ExportedProgram) -> bool:
        result = self.graph_pass(program.graph_module)
        if not isinstance(result, PassResult):
            return True
        if result.graph_module is not program.graph_module:
            program._graph_module = result.graph_module
        return bool(result.modified)


class IfChanged(Pass):
    """A pass, or several, and further passes that run if one of these changed the program.

    The contract holds either way: it requires what any of them does, and ensures what the first
    passes ensure alone and all of them together. Checks run the passes inside one by one.
    """

    def __init__(self, *first: Pass, then: tuple[Pass, ...] = ()) -> None:
        self.first, self.then = first, then
        alone, whole = contract_of(first), contract_of((*first, *then))
        self.contract = Contract(whole.requires, alone.ensures & whole.ensures, whole.ends)

    def run(self, program: ExportedProgram) -> bool:
        changed = any([one.run(program) for one in self.first])
        if changed:
            for one in self.then:
                one.run(program)
        return changed


def operator_calls(gm: GraphModule) -> list[Node]:
    """The nodes of `gm` that call a torch operator overload, in order."""
    return [
        node
        for node in gm.graph.nodes
        if node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload)
    ]


def inherit_meta(node: Node, source: Node) -> None:
    """Copy the origin (source lines, modules) of a node to one that is inserted for it."""
    for key in _INHERITED_META:
        if key in source.meta:
            node.meta[key] = source.meta[key]


def map_tensor_arguments(node: Node, fn: Callable[[Any], Any]) -> bool:
    """Replace each argument in a Tensor slot by fn(argument) where that is not None."""
    schema = node.target._schema
    args, kwargs, changed = list(node.args), dict(node.kwargs), False
    for i, arg in enumerate(schema.arguments):
        if not isinstance(arg.type, torch.TensorType):
            continue
        if arg.name in kwargs:
            holder: Any = kwargs
            key: Any = arg.name
        elif not arg.kwarg_only and i < len(args):
            holder, key = args, i
        else:
            continue
        new = fn(holder[key])
        if new is not None:
            holder[key] = new
            changed = True
    if changed:
        node.args, node.kwargs = tuple(args), kwargs
    return changed
