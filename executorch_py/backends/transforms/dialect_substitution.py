"""AtenToDialectPass: the base of passes that replace operators by those of a backend's dialect.

    class ToMine(AtenToDialectPass): ...

    @ToMine.register_dialect_substitution(ops.edge.aten.relu.default)
    def relu(node, pass_):
        return DialectNodeSpec(torch.ops.mine.relu.default, node.args)

Names and arguments are upstream's.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import fx
from torch.export import ExportedProgram
from torch.fx.passes.infra.pass_base import PassResult

from executorch_py.exir.passes.user.export_pass import ExportPass

__all__ = ["AtenToDialectPass", "DialectNodeSpec", "SubstitutionFn"]


@dataclass
class DialectNodeSpec:
    """A call that replaces a node."""

    op: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any] | None = None


class AtenToDialectPass(ExportPass):
    """Replaces each call by the one that the function registered for its operator returns.

    A function gets the node and the pass, and returns None to leave the node. Each subclass has
    functions of its own, one for an operator.
    """

    _substitutions: ClassVar[dict[Any, Any]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._substitutions = {}

    def __init__(self, exported_program: ExportedProgram) -> None:
        super().__init__()
        self.exported_program = exported_program

    @classmethod
    def register_dialect_substitution(
        cls, target: Any
    ) -> Callable[[SubstitutionFn], SubstitutionFn]:
        """Register the decorated function for an operator."""

        def register(function: SubstitutionFn) -> SubstitutionFn:
            if target in cls._substitutions:
                raise RuntimeError(
                    f"{cls.__name__}: expected one function for {target}, got a second one"
                )
            cls._substitutions[target] = function
            return function

        return register

    def call(self, graph_module: fx.GraphModule) -> PassResult:
        modified = False
        for node in list(graph_module.graph.nodes):
            function = self._substitutions.get(node.target) if node.op == "call_function" else None
            spec = function(node, self) if function is not None else None
            if spec is None:
                continue
            with graph_module.graph.inserting_before(node):
                made = graph_module.graph.call_function(spec.op, spec.args, spec.kwargs or {})
            made.meta = node.meta
            here = traceback.format_stack(limit=1)[0]
            made.meta["stack_trace"] = f"{node.meta.get('stack_trace', '')}\n{here}"
            node.replace_all_uses_with(made)
            graph_module.graph.erase_node(node)
            modified = True
        if modified:
            graph_module.graph.eliminate_dead_code()
            graph_module.recompile()
            graph_module = super().call(graph_module).graph_module
        return PassResult(graph_module, modified)


SubstitutionFn = Callable[[fx.Node, AtenToDialectPass], DialectNodeSpec | None]
