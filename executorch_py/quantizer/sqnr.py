"""Comparison of a quantized model with the float model: SQNR, clipping and range of each layer."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx, nn

from executorch_py.exir.ir.decibels import sqnr_db
from executorch_py.exir.ir.graph import deep_copy
from executorch_py.exir.trace_errors import readable_errors
from executorch_py.quantizer import fold_batch_norm
from executorch_py.quantizer.calibrate import arguments_of
from executorch_py.quantizer.observer_report import Table, percent
from executorch_py.quantizer.observers import module_path

_QUANTIZE = "quantize_per_tensor"
_DEQUANTIZE = "dequantize_per_tensor"
WORST = 5  # layers that a summary names


@dataclass(frozen=True)
class Layer:
    """One operator whose result both models have.

    sqnr_db: signal-to-quantization-noise ratio in decibels, the power of the float result over that
    of the difference, with all layers before it quantized as well; infinite without a difference.
    clipped: the share of float results more than half a quantization step outside the integers.
    dead: the share of unused integers between the least and the greatest result; a large share
    means that a few results are outliers.
    """

    name: str
    module: str
    operator: str
    sqnr_db: float
    clipped: float
    dead: float
    float_least: float
    float_greatest: float


def compare(model: nn.Module, quantized: fx.GraphModule, data: Iterable[Any]) -> Table:
    """A table with a row for each quantized layer and each output, in graph order.

    The summary names the layers of the lowest SQNR. model: the float model, eager or exported
    (`.module()`). quantized: the result of `convert_pt2e` for it. data: samples as for `calibrate`;
    all of them are run.
    """
    if not isinstance(quantized, fx.GraphModule):
        raise TypeError(
            f"quantized: expected the result of convert_pt2e, got a {type(quantized).__name__}"
        )
    samples = list(data)
    if not samples:
        raise ValueError("data: expected at least one sample to compare with, got none")
    reference = float_graph(model, samples[0])
    tallies = _tallies(reference, quantized)
    exact, rounded = _Recorder(reference, set(tallies)), _Recorder(quantized, _rounded(tallies))
    for sample in samples:
        positional, named = arguments_of(sample)
        wanted, found = exact.results(positional, named), rounded.results(positional, named)
        for name, tally in tallies.items():
            tally.add(wanted[name], found[tally.reader], found.get(tally.integers))
    rows = [tally.layer() for tally in tallies.values()]
    worst = sorted(rows, key=lambda row: row.sqnr_db)[:WORST]
    names = ", ".join(f"{row.name} {row.sqnr_db:.1f} dB" for row in worst)
    return Table(rows, _COLUMNS, f"worst of {len(rows)}: {names}")


def float_graph(model: nn.Module, sample: Any) -> fx.GraphModule:
    """A copy of the model's graph with batch norms folded as by `prepare_pt2e`."""
    if isinstance(model, fx.GraphModule):
        graph = deep_copy(model)
    else:
        positional, named = arguments_of(sample)
        with readable_errors():
            graph = torch.export.export(model, positional, named).module()
    fold_batch_norm.fold_all(graph)
    return graph


_COLUMNS = (
    ("layer", lambda r: r.name),
    ("module", lambda r: r.module),
    ("operator", lambda r: r.operator),
    ("SQNR dB", lambda r: f"{r.sqnr_db:.1f}"),
    ("clipped", lambda r: percent(r.clipped)),
    ("dead", lambda r: percent(r.dead)),
    ("least", lambda r: f"{r.float_least:.4g}"),
    ("greatest", lambda r: f"{r.float_greatest:.4g}"),
)


class _Tally:
    """Sums over all samples for one layer."""

    def __init__(self, node: fx.Node, reader: str, integers: fx.Node | None) -> None:
        self.node, self.reader = node, reader
        self.integers = integers.name if integers is not None else ""
        self.limits = _limits(integers)
        self.power = self.difference = 0.0
        self.least, self.greatest = math.inf, -math.inf
        self.n_elements = self.n_clipped = 0
        self.used: set[int] = set()

    def add(self, wanted: torch.Tensor, found: torch.Tensor, integers: torch.Tensor | None) -> None:
        exact = wanted.double()
        self.power += float(exact.square().sum())
        self.difference += float((exact - found.double()).square().sum())
        if wanted.numel() > 0:
            self.least = min(self.least, float(wanted.min()))
            self.greatest = max(self.greatest, float(wanted.max()))
        if integers is None:
            return
        low, high = self.limits
        self.n_elements += integers.numel()
        self.n_clipped += int(((exact < low) | (exact > high)).sum())
        self.used.update(integers.unique().tolist())

    def layer(self) -> Layer:
        between = max(self.used) - min(self.used) + 1 if self.used else 1
        return Layer(
            self.node.name,
            module_path(self.node),
            str(self.node.target).removesuffix(".default"),
            sqnr_db(self.power, self.difference),
            self.n_clipped / self.n_elements if self.n_elements else 0.0,
            1 - len(self.used) / between if self.used else 0.0,
            self.least,
            self.greatest,
        )


def _limits(quantize: fx.Node | None) -> tuple[float, float]:
    """The range of values that are not clipped; dynamic scales clip nothing."""
    scale, zero_point, least, greatest = (0, 0, 0, 0) if quantize is None else quantize.args[1:5]
    if isinstance(scale, fx.Node):
        return -math.inf, math.inf
    return (least - zero_point - 0.5) * scale, (greatest - zero_point + 0.5) * scale


def _tallies(reference: fx.GraphModule, quantized: fx.GraphModule) -> dict[str, _Tally]:
    """The layers that both graphs have, by the name of the float graph's node."""
    there = {node.name: node for node in reference.graph.nodes if node.op == "call_function"}
    outputs = set(_outputs(quantized))
    made: dict[str, _Tally] = {}
    for node in quantized.graph.nodes:
        if node.name not in there or not isinstance(node.meta.get("val"), torch.Tensor):
            continue
        rounded = next((u for u in node.users if _is(u, _QUANTIZE)), None)
        back = (
            None
            if rounded is None
            else next((u for u in rounded.users if _is(u, _DEQUANTIZE)), None)
        )
        if back is not None:
            made[node.name] = _Tally(there[node.name], back.name, rounded)
        elif node in outputs:
            made[node.name] = _Tally(there[node.name], node.name, None)
    if not made:
        raise ValueError(
            "quantized: expected what convert_pt2e made of `model`, got a model without a layer in "
            "common"
        )
    return made


def _rounded(tallies: dict[str, _Tally]) -> set[str]:
    return {name for t in tallies.values() for name in (t.reader, t.integers) if name}


def _outputs(graph: fx.GraphModule) -> Iterator[fx.Node]:
    yield from next(n for n in reversed(graph.graph.nodes) if n.op == "output").all_input_nodes


def _is(node: fx.Node, operator: str) -> bool:
    return node.op == "call_function" and operator in str(node.target)


class _Recorder(fx.Interpreter):
    """Runs a graph and records the results of the nodes with these names."""

    def __init__(self, module: fx.GraphModule, names: set[str]) -> None:
        super().__init__(module)
        self.names, self.kept = names, dict[str, torch.Tensor]()

    def run_node(self, n: fx.Node) -> Any:
        result = super().run_node(n)
        if n.name in self.names:
            self.kept[n.name] = result.detach().clone()
        return result

    def results(self, positional: Sequence[Any], named: dict[str, Any]) -> dict[str, torch.Tensor]:
        with torch.no_grad():
            self.run(*flat_inputs(self.module, positional, named))
        return self.kept


def flat_inputs(graph: nn.Module, positional: Sequence[Any], named: dict[str, Any]) -> list[Any]:
    """The arguments as a flat list in the order of the graph's placeholders."""
    spec = getattr(graph, "_in_spec", None)
    if spec is None:
        return [*positional, *named.values()]
    flat: list[Any] = torch.utils._pytree.tree_leaves((tuple(positional), named))
    return flat


__all__ = ["Layer", "compare", "flat_inputs", "float_graph", "sqnr_db"]
