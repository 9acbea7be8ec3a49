"""Summaries of edge programs: operators, their counts, and the part that is delegated.

Reads graphs with delegates in them; pandas is needed only for the one function that returns a
data frame, and imported there.
"""

from __future__ import annotations

import operator
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TextIO

from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

from executorch_py.exir.ir.graph_modules import graph_modules

# The number at the end of a node name: names of nodes of one operator differ only in it.
_NUMBER_AT_END = re.compile(r"_\d+$")


def _graph_module(program: ExportedProgram | GraphModule) -> GraphModule:
    return program.graph_module if isinstance(program, ExportedProgram) else program


def _operator_name(node: Node) -> str | None:
    """`aten.add.Tensor`, the name of a function or control-flow operator; None for plumbing."""
    target: Any = node.target
    if node.op != "call_function" or target is operator.getitem:
        return None
    name = getattr(target, "_name", None)
    if isinstance(name, str) and name:
        return name.replace("::", ".")
    return str(target.__name__ if hasattr(target, "__name__") else target)


def _calls(gm: GraphModule) -> Iterator[tuple[str, GraphModule, Node]]:
    for module in graph_modules(gm):
        for node in module.graph.nodes:
            name = _operator_name(node)
            if name is not None:
                yield name, module, node


def _delegate(module: GraphModule, node: Node) -> Any:
    """The lowered module that a node calls, or None."""
    first = node.args[0] if node.args else None
    if not isinstance(first, Node) or first.op != "get_attr":
        return None
    called = getattr(module, str(first.target), None)
    return called if hasattr(called, "processed_bytes") else None


def operator_counts(program: ExportedProgram | GraphModule) -> dict[str, int]:
    """How often each operator is called, control-flow bodies included, most frequent first."""
    counts = Counter(name for name, _, _ in _calls(_graph_module(program)))
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def print_ops(program: ExportedProgram | GraphModule, out: TextIO | None = None) -> None:
    """Print the operators of a program with their counts."""
    for name, count in operator_counts(program).items():
        print(f"{count:6}  {name}", file=out or sys.stdout)


@dataclass
class DelegationBreakdown:
    """Numbers of delegated and of other nodes of one operator."""

    op_type: str = ""
    delegated: int = 0
    non_delegated: int = 0


@dataclass
class DelegationInfo:
    """Numbers of delegated and of other nodes of a graph, in all and by operator."""

    num_delegated_subgraphs: int
    num_delegated_nodes: int
    num_non_delegated_nodes: int
    delegation_by_operator: dict[str, DelegationBreakdown]

    def get_summary(self) -> str:
        """Three lines of totals."""
        return (
            f"Total delegated subgraphs: {self.num_delegated_subgraphs}\n"
            f"Number of delegated nodes: {self.num_delegated_nodes}\n"
            f"Number of non-delegated nodes: {self.num_non_delegated_nodes}\n"
        )

    def _rows(self) -> list[tuple[str, int, int]]:
        rows = [
            (b.op_type, b.delegated, b.non_delegated)
            for _, b in sorted(self.delegation_by_operator.items())
        ]
        total = ("Total", self.num_delegated_nodes, self.num_non_delegated_nodes)
        return [*rows, total]

    def get_operator_delegation_dataframe(self) -> Any:
        """A pandas DataFrame, one row per operator and one of totals."""
        try:
            import pandas  # type: ignore[import-untyped]
        except ImportError:
            raise ImportError(
                "get_operator_delegation_dataframe() returns a pandas DataFrame: install pandas, "
                "or read delegation_by_operator"
            ) from None
        columns = [
            "op_type",
            "occurrences_in_delegated_graphs",
            "occurrences_in_non_delegated_graphs",
        ]
        return pandas.DataFrame(self._rows(), columns=columns)

    def format_table(self) -> str:
        """The same rows as text."""
        rows = [("operator", "delegated", "not delegated"), *self._rows()]
        width = max(len(row[0]) for row in rows)
        return "\n".join(f"{row[0]:<{width}}  {row[1]:>9}  {row[2]:>13}" for row in rows)


def get_delegation_info(graph_module: GraphModule) -> DelegationInfo:
    """Count the nodes inside and outside the delegates of a graph.

    Operators go by the names of their nodes (`aten_add_tensor`), tuple items (`getitem`) included.
    """
    by_operator: dict[str, DelegationBreakdown] = {}
    n_delegates = 0

    def count(node: Node, delegated: bool) -> None:
        name = _NUMBER_AT_END.sub("", node.name)
        entry = by_operator.setdefault(name, DelegationBreakdown(name))
        if delegated:
            entry.delegated += 1
        else:
            entry.non_delegated += 1

    for module in graph_modules(_graph_module(graph_module)):
        for node in _function_calls(module):
            lowered = _delegate(module, node)
            if lowered is None:
                count(node, delegated=False)
                continue
            n_delegates += 1
            for inner_module in graph_modules(lowered.original_module.graph_module):
                for inner in _function_calls(inner_module):
                    count(inner, delegated=True)
    return DelegationInfo(
        n_delegates,
        sum(entry.delegated for entry in by_operator.values()),
        sum(entry.non_delegated for entry in by_operator.values()),
        by_operator,
    )


def _function_calls(gm: GraphModule) -> list[Node]:
    return [node for node in gm.graph.nodes if node.op == "call_function"]


def print_delegation_info(graph_module: GraphModule, out: TextIO | None = None) -> None:
    """Print the totals and the table of `get_delegation_info`."""
    info = get_delegation_info(graph_module)
    print(info.get_summary(), end="", file=out or sys.stdout)
    print(info.format_table(), file=out or sys.stdout)
