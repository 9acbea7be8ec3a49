"""Summary of a program's delegation: operators delegated and left, why, their share of the time.

One record per call, a table per operator, and the same as a data frame. Reads graphs with delegates
in them and the reasons that partitioners wrote there (reports.py); times are estimates (cost.py).
Of a file, only counts are known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch
from torch import fx
from torch._higher_order_ops.executorch_call_delegate import executorch_call_delegate
from torch.export import ExportedProgram

from executorch_py.exir.backend.cost import estimated_seconds, upper_bound
from executorch_py.exir.backend.lowered_module import LoweredBackendModule
from executorch_py.exir.backend.reports import reason_of
from executorch_py.exir.ir.graph import constant_tensors, source_line
from executorch_py.exir.ir.graph_modules import get_control_flow_submodules
from executorch_py.exir.ir.op_traits import is_getitem, is_random, op_key, op_overload

# Position of the argument whose first dimension is the number of iterations of a loop.
_SCANNED = {torch.ops.higher_order.map_impl: 1, torch.ops.higher_order.scan: 2}


@dataclass(frozen=True)
class CallRecord:
    """One call of an operator: `delegate` is None where it is left; `seconds` is an estimate.

    A call in the body of a loop is one record, with the time of all iterations.
    """

    method: str
    operator: str
    node: str
    delegate: str | None
    backend: str | None
    reason: str | None
    seconds: float | None
    source: str


@dataclass(frozen=True)
class DelegateRecord:
    """One delegate: its backend, its number of operators, and its payload."""

    method: str
    name: str
    backend: str
    operators: int | None
    payload_bytes: int


@dataclass(frozen=True)
class SummaryRow:
    """The calls of one operator that were delegated, or left for one reason."""

    operator: str
    delegated: int
    left: int
    share: float | None
    reason: str


@dataclass(frozen=True)
class DelegationSummary:
    """Delegated and left operators; printing it gives a table."""

    records: tuple[CallRecord, ...]
    delegates: tuple[DelegateRecord, ...]

    @property
    def delegated_share(self) -> float | None:
        """The part of the estimated time that is spent in delegates; None if unknown."""
        total = _seconds(self.records)
        if total is None or total == 0.0:
            return None
        return (_seconds([r for r in self.records if r.delegate is not None]) or 0.0) / total

    def rows(self) -> list[SummaryRow]:
        """Per operator what was delegated, then what was left per reason; most time first."""
        groups: dict[tuple[str, bool, str], list[CallRecord]] = {}
        for record in self.records:
            key = (record.operator, record.delegate is None, record.reason or "")
            groups.setdefault(key, []).append(record)
        total = _seconds(self.records)
        rows = []
        for (operator, left, reason), members in groups.items():
            seconds = _seconds(members)
            share = seconds / total if seconds is not None and total else None
            counts = (0, len(members)) if left else (len(members), 0)
            rows.append(SummaryRow(operator, *counts, share, reason))
        return sorted(rows, key=lambda r: (r.left == 0, -(r.share or 0.0), r.operator, r.reason))

    def to_dataframe(self) -> Any:
        """A pandas DataFrame with a row per record."""
        try:
            import pandas  # type: ignore[import-untyped,unused-ignore]
        except ImportError:
            raise ImportError(
                "to_dataframe() returns a pandas DataFrame: install pandas, or read .records"
            ) from None
        names = [field.name for field in fields(CallRecord)]
        return pandas.DataFrame(
            [[getattr(record, name) for name in names] for record in self.records], columns=names
        )

    def __str__(self) -> str:
        rows = [("operator", "delegated", "left", "share", "reason")]
        for row in self.rows():
            share = "" if row.share is None else f"{row.share:.1%}"
            rows.append((row.operator, str(row.delegated), str(row.left), share, row.reason))
        widths = [max(len(row[i]) for row in rows) for i in range(4)]
        lines = [
            f"{row[0]:<{widths[0]}}  {row[1]:>{widths[1]}}  {row[2]:>{widths[2]}}  "
            f"{row[3]:>{widths[3]}}  {row[4]}".rstrip()
            for row in rows
        ]
        return "\n".join([*lines, self._totals()])

    def _totals(self) -> str:
        left = sum(record.delegate is None for record in self.records)
        inside = len(self.records) - left
        n = len(self.delegates)
        takes = "1 delegate takes" if n == 1 else f"{n} delegates take"
        text = f"{takes} {inside} of {len(self.records)} calls"
        share = self.delegated_share
        return text if share is None else f"{text}, {share:.1%} of the estimated time"


def _seconds(records: Any) -> float | None:
    found = [record.seconds for record in records]
    return None if any(seconds is None for seconds in found) else sum(found)


def summary_of_programs(programs: Mapping[str, ExportedProgram]) -> DelegationSummary:
    """The summary of graphs by method, before or after they are lowered to the runtime."""
    records: list[CallRecord] = []
    delegates: list[DelegateRecord] = []
    for method, program in programs.items():
        constant = _computed_at_export(program)
        for gm, turns in _bodies(program.graph_module, 1):
            for node in gm.graph.nodes:
                lowered = _lowered(gm, node)
                if lowered is not None:
                    name = str(node.args[0].target)
                    backend = lowered.backend_id
                    inside = [
                        _record(method, inner, name, backend, seconds * turns)
                        for inner, seconds in _inside(lowered)
                    ]
                    records += inside
                    size = len(lowered.processed_bytes)
                    delegates.append(DelegateRecord(method, name, backend, len(inside), size))
                elif _is_call(node):
                    seconds = 0.0 if node in constant else estimated_seconds(node) * turns
                    records.append(_record(method, node, None, None, seconds))
    return DelegationSummary(tuple(records), tuple(delegates))


def _bodies(gm: fx.GraphModule, turns: int) -> Iterator[tuple[fx.GraphModule, int]]:
    """A graph and the bodies of its control flow, each with its number of iterations if known."""
    yield gm, turns
    for _, body, call in get_control_flow_submodules(gm):
        over = _SCANNED.get(call.target)
        scanned: Any = () if over is None else call.args[over]
        times = upper_bound(scanned[0].meta["val"].shape[0]) if scanned else 1
        yield from _bodies(body, turns * times)


def _computed_at_export(program: ExportedProgram) -> set[fx.Node]:
    """Nodes that read constants only, so that the finished program has their values."""
    names = constant_tensors(program)
    found = {n for n in program.graph.nodes if n.op == "placeholder" and n.name in names}
    for node in program.graph.nodes:
        inputs = node.all_input_nodes
        if node.op == "call_function" and inputs and found.issuperset(inputs):
            op = op_overload(node.target)
            if is_getitem(node.target) or (op is not None and not is_random(op)):
                found.add(node)
    return found


def _lowered(gm: fx.GraphModule, node: fx.Node) -> LoweredBackendModule | None:
    if node.op != "call_function" or node.target is not executorch_call_delegate:
        return None
    called = getattr(gm, str(getattr(node.args[0], "target", "")), None)
    return called if isinstance(called, LoweredBackendModule) else None


def _inside(lowered: LoweredBackendModule) -> Iterator[tuple[fx.Node, float]]:
    """The calls in a delegate and what each costs in one call of it."""
    constant = _computed_at_export(lowered.original_module)
    for gm, turns in _bodies(lowered.original_module.graph_module, 1):
        for node in gm.graph.nodes:
            if _is_call(node):
                yield node, 0.0 if node in constant else estimated_seconds(node) * turns


def _is_call(node: fx.Node) -> bool:
    """Whether a node calls an operator; not tuple items, memory and control flow."""
    return node.op == "call_function" and op_key(node.target) != ""


def _record(
    method: str, node: fx.Node, delegate: str | None, backend: str | None, seconds: float
) -> CallRecord:
    return CallRecord(
        method,
        op_key(node.target),
        node.name,
        delegate,
        backend,
        None if delegate is not None else reason_of(node),
        seconds,
        source_line(node),
    )


def summary_of_file(source: bytes | str | Path) -> DelegationSummary:
    """The summary of a program file: counts and payloads, no reasons and no times."""
    from executorch_py import _C

    program = _C.open_program(source if isinstance(source, bytes) else str(source))
    records: list[CallRecord] = []
    delegates: list[DelegateRecord] = []
    for method in program.method_names():
        info = program.method_info(method)
        for used in info["operators"]:
            record = CallRecord(method, used["name"], "", None, None, None, None, "")
            records += [record] * used["calls"]
        for i, delegate in enumerate(info["delegates"]):
            delegates.append(
                DelegateRecord(method, str(i), delegate["id"], None, delegate["nbytes"])
            )
    return DelegationSummary(tuple(records), tuple(delegates))
