"""Quantized layers of all kinds: delegate, kernels and upstream's runtime against eager torch.

The reference is the converted graph in eager torch. Operators that stay float have a reason.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from support.layer_cases import CASES, PRODUCTS, All, Case, inputs_of
from support.upstream_peer import Upstream
from support.xnnpack_payloads import WEIGHTED, integer_nodes, payloads_of
from torch import fx

from executorch_py.backends.xnnpack import XnnpackPartitioner
from executorch_py.backends.xnnpack.payload.payload_flatbuffer import Datatype, NodeKind, XNNGraph
from executorch_py.backends.xnnpack.quantizer.validate import has_integers
from executorch_py.exir import (
    EdgeProgramManager,
    ExecutorchBackendConfig,
    to_edge_transform_and_lower,
)
from executorch_py.quantizer import (
    XNNPACKQuantizer,
    calibrate,
    convert_pt2e,
    get_symmetric_quantization_config,
    left_float,
    prepare_pt2e,
)
from executorch_py.quantizer.observer_report import Table

# Steps by which results may differ where a sum of rounded numbers is rounded again.
MAX_STEPS = {"residual_chain": 2.01, "cat_of_cats": 2.01}


@dataclass
class Quantized:
    """One model of all cases, quantized and lowered."""

    cases: tuple[Case, ...]
    annotated: Counter[str]  # calls on integers before conversion, by operator
    left: Table
    graph: fx.GraphModule
    inputs: tuple[torch.Tensor, ...]
    plain: EdgeProgramManager
    delegated: EdgeProgramManager

    def reference(self) -> list[torch.Tensor]:
        with torch.no_grad():
            return list(self.graph(*self.inputs))

    def steps(self) -> list[float | None]:
        """The scale of each result; None for floats."""
        output = next(n for n in self.graph.graph.nodes if n.op == "output")
        results = [n if "dequantize" in str(n.target) else None for n in output.args[0]]
        return [None if n is None else float(n.args[1]) for n in results]


def quantize_all(cases: tuple[Case, ...], **settings: Any) -> Quantized:
    config = get_symmetric_quantization_config(is_per_channel=True, **settings)
    model, inputs = All(cases).eval(), inputs_of(cases)
    exported = torch.export.export(model, inputs).module()
    noted: list[fx.Node] = []

    class Counting(XNNPACKQuantizer):
        def validate(self, model: fx.GraphModule) -> None:
            super().validate(model)
            noted.extend(n for n in model.graph.nodes if has_integers(n))

    prepared = prepare_pt2e(exported, Counting().set_global(config))
    calibrate(prepared, [inputs, inputs_of(cases, seed=1)])
    left, graph = left_float(prepared), convert_pt2e(prepared)
    program = torch.export.export(graph, inputs)
    return Quantized(
        cases,
        Counter(str(n.target).split(".")[1] for n in noted),
        left,
        graph,
        inputs,
        to_edge_transform_and_lower(program),
        to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner()]),
    )


@pytest.fixture(scope="module")
def static() -> Quantized:
    return quantize_all(CASES)


@pytest.fixture(scope="module")
def dynamic() -> Quantized:
    return quantize_all(PRODUCTS, is_dynamic=True)


def names(cases: tuple[Case, ...]) -> list[str]:
    """The name of the case of each result."""
    counts = {"cat_both_ways": 2, "output_read_again": 3}
    return [case.name for case in cases for _ in range(counts.get(case.name, 1))]


def farther(quantized: Quantized, found: Any, wanted: list[torch.Tensor]) -> list[str]:
    """The results whose difference to the reference exceeds the limit."""
    wrong = []
    results = zip(names(quantized.cases), quantized.steps(), found, wanted, strict=True)
    for name, scale, result, right in results:
        off = float((torch.as_tensor(result) - right).abs().max())
        step = float(right.abs().max()) / 64 if scale is None else scale
        if not off <= MAX_STEPS.get(name, 1.01) * step:
            wrong.append(f"{name}: off by {off / step:.2f} of {step:.3g}")
    return wrong


def test_our_kernels_give_the_references_numbers(static: Quantized) -> None:
    found = static.plain.to_executorch().run(*static.inputs)
    assert farther(static, found, static.reference()) == []


def test_our_integer_kernels_give_the_references_numbers(static: Quantized) -> None:
    in_integers = ExecutorchBackendConfig(own_operators=True)
    found = static.plain.to_executorch(in_integers).run(*static.inputs)
    assert farther(static, found, static.reference()) == []


def test_the_delegate_gives_the_references_numbers(static: Quantized) -> None:
    found = static.delegated.to_executorch().run(*static.inputs)
    assert farther(static, found, static.reference()) == []


@pytest.mark.interop
def test_upstreams_runtime_gives_the_references_numbers(
    static: Quantized, upstream: Upstream, tmp_path: Path
) -> None:
    (tmp_path / "all.pte").write_bytes(static.delegated.to_executorch().buffer)
    torch.save([static.inputs], tmp_path / "all.inputs.pt")
    upstream.ask("run_inputs", "all", tmp_path)
    (found,) = torch.load(tmp_path / "all.pt")
    assert farther(static, found, static.reference()) == []


def test_the_floats_are_not_far(static: Quantized) -> None:
    with torch.no_grad():
        wanted = All(CASES).eval()(*static.inputs)
    for name, found, right in zip(names(CASES), static.reference(), wanted, strict=True):
        assert (found - right).norm() < 0.05 * right.norm(), name


def payload_of(quantized: Quantized) -> XNNGraph:
    graphs = payloads_of(quantized.delegated)
    return max(graphs, key=lambda graph: len(graph.xnodes))


def test_what_is_annotated_is_computed_with_integers(static: Quantized) -> None:
    payload, asked = payload_of(static), static.annotated
    products = ("linear", "mm", "addmm")
    layers = sum(n for name, n in asked.items() if "conv" in name or name in products)
    assert layers > 45
    assert integer_nodes(payload, WEIGHTED, Datatype.QINT8) == layers
    for operator, kind in (
        ("add", NodeKind.ADD),
        ("sub", NodeKind.SUBTRACT),
        ("mul", NodeKind.MULTIPLY),
        ("max_pool2d", NodeKind.MAX_POOLING_2D),
    ):
        assert integer_nodes(payload, (kind,), Datatype.QINT8) == asked[operator], operator


def test_what_stays_float_says_why(static: Quantized) -> None:
    found = {(row.module.removeprefix("cases."), row.operator): row for row in static.left.rows}
    wanted = {(case.name, operator): why for case in CASES for operator, why in case.left}
    assert found.keys() == wanted.keys()
    for place, why in wanted.items():
        assert re.search(why, found[place].reason), place


def test_scales_of_run_time_are_for_all_products(dynamic: Quantized) -> None:
    reference, found = dynamic.reference(), dynamic.plain.to_executorch().run(*dynamic.inputs)
    assert farther(dynamic, found, reference) == []
    found = dynamic.delegated.to_executorch().run(*dynamic.inputs)
    assert farther(dynamic, found, reference) == []
    layers = dynamic.annotated.total()
    assert layers > 12
    assert integer_nodes(payload_of(dynamic), WEIGHTED, Datatype.QDINT8) == layers
    deep = next(row for row in dynamic.left.rows if row.module == "cases.conv1d_deep.a")
    assert "quantized at run time" in deep.reason
