"""Checked passes over XNNPACK nodes: an untrue answer or a broken graph is found."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from support.xnnpack_cases import image
from support.xnnpack_group import lowered_whole
from torch import nn

from executorch_py.backends.xnnpack.passes import pipeline
from executorch_py.backends.xnnpack.passes.checks import GraphRewrite, run_checked
from executorch_py.backends.xnnpack.passes.choose_layouts import choose_layouts
from executorch_py.backends.xnnpack.passes.fold_quantization import fold_quantization
from executorch_py.backends.xnnpack.passes.pipeline import run_graph_passes
from executorch_py.backends.xnnpack.payload.graph import (
    Graph,
    Layout,
    Node,
    PerChannel,
    Value,
)
from executorch_py.backends.xnnpack.payload.payload_flatbuffer import Datatype, NodeKind
from executorch_py.exir.error import InternalError
from executorch_py.exir.passes import checked_pipeline
from executorch_py.exir.passes.base import Contract, Pass
from executorch_py.exir.passes.runner import Step


def value(name: str, *shape: int, data: torch.Tensor | None = None) -> Value:
    return Value(name, shape, Datatype.FP32, data=data)


def node(kind: NodeKind, *inputs: Value) -> Node:
    made = Node(kind, list(inputs), [value(kind.name.lower(), *inputs[0].shape)])  # type: ignore[arg-type]
    made.output.producer = made
    return made


def graph() -> Graph:
    """relu(x) + constant, with nothing to rewrite."""
    x, constant = value("x", 2, 3), value("c", 2, 3, data=torch.ones(2, 3))
    first = node(NodeKind.ABS, x)
    second = node(NodeKind.ADD, first.output, constant)
    return Graph([x], [second.output], [first, second])


def run(change: Callable[[Graph], object], answer: bool, given: Graph | None = None) -> None:
    def rewrite(graph: Graph) -> bool:
        change(graph)
        return answer

    run_checked([rewrite], given or graph())


def new_kind(graph: Graph) -> None:
    graph.nodes[0].kind = NodeKind.NEGATE


def new_clamp(graph: Graph) -> None:
    graph.nodes[1].clamp = (0.0, 6.0)


def new_attribute(graph: Graph) -> None:
    graph.nodes[0].attributes["perm"] = (1, 0)


def new_layout(graph: Graph) -> None:
    graph.nodes[0].output.layout = Layout.IMAGE


def new_shape(graph: Graph) -> None:
    graph.nodes[0].output.shape = (6,)


def new_constant(graph: Graph) -> None:
    graph.nodes[1].input(1).data = torch.ones(2, 3)


def new_scales(graph: Graph) -> None:
    graph.nodes[1].input(1).quantization = PerChannel(torch.ones(2), 0)


def no_node(graph: Graph) -> None:
    graph.nodes[1].inputs[0] = graph.inputs[0]


CHANGES = [
    new_kind,
    new_clamp,
    new_attribute,
    new_layout,
    new_shape,
    new_constant,
    new_scales,
    no_node,
]


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_that_is_not_reported_is_found(change: Callable[[Graph], None]) -> None:
    with pytest.raises(InternalError, match="pass rewrite returned False, but changed"):
        run(change, False)
    run(change, True)


def test_a_change_that_did_not_happen_is_found() -> None:
    with pytest.raises(InternalError, match="pass rewrite returned True, but left"):
        run(lambda graph: None, True)


def reorder(graph: Graph) -> None:
    graph.nodes.reverse()


def forget_producer(graph: Graph) -> None:
    graph.nodes[1].output.producer = graph.nodes[0]
    new_kind(graph)


def make_twice(graph: Graph) -> None:
    graph.nodes.insert(1, graph.nodes[0])


def unmade_output(graph: Graph) -> None:
    graph.outputs[0] = value("y", 2, 3)
    graph.nodes.clear()


def one_output_twice(graph: Graph) -> None:
    graph.outputs.append(graph.outputs[0])


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (reorder, "expected 'abs' before it"),
        (forget_producer, "expected it as producer of 'add', got NEGATE"),
        (make_twice, "expected one producer of 'abs', got two"),
        (unmade_output, "expected a producer of the output 'y', got none"),
        (one_output_twice, "expected 2 values as outputs, got 1"),
    ],
)
def test_a_broken_graph_is_found(damage: Callable[[Graph], None], message: str) -> None:
    with pytest.raises(InternalError, match=f"after pass rewrite: .*{message}"):
        run(damage, True)


def test_a_graph_with_a_dead_node_is_refused() -> None:
    given = graph()
    given.nodes.append(node(NodeKind.ABS, given.inputs[0]))
    with pytest.raises(InternalError, match=r"the graph given .*expected a reader of 'abs'"):
        run(lambda graph: None, False, given)


def test_layouts_alone_are_a_change() -> None:
    x = value("x", 1, 3, 4, 4)
    x.dim_order = (0, 2, 3, 1)
    only = node(NodeKind.ABS, x)
    only.output.dim_order = (0, 2, 3, 1)
    given = Graph([x], [only.output], [only])
    run_checked([choose_layouts], given)
    assert x.layout is only.output.layout is Layout.IMAGE and given.nodes == [only]


def test_quantized_weights_that_need_no_new_form_are_no_change() -> None:
    x = value("x", 2, 4)
    weight = Value("w", (3, 4), Datatype.QCINT8, PerChannel(torch.ones(3), 0))
    weight.data, weight.is_weight = torch.ones(3, 4, dtype=torch.int8), True
    product = Node(NodeKind.FULLY_CONNECTED, [x, weight, None], [value("y", 2, 3)])
    product.output.producer = product
    run_checked([fold_quantization], Graph([x], [product.output], [product]))


def test_passes_are_checked_where_those_of_the_exporter_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def liar(graph: Graph) -> bool:
        graph.nodes[0].flags += 64
        return False

    class Liar(Pass):
        """A pass that says that it changed something."""

        contract = Contract()

        def run(self, program: object) -> bool:
            return True

    rewrites: list[GraphRewrite] = [liar]
    monkeypatch.setattr(pipeline, "GRAPH_PASSES", rewrites)
    with checked_pipeline(), pytest.raises(InternalError, match="pass liar returned False"):
        run_graph_passes(graph())
    monkeypatch.setattr(pipeline, "PROGRAM_PASSES", (Step(Liar),))
    with checked_pipeline(), pytest.raises(InternalError, match="pass Liar returned True"):
        lowered_whole(nn.ReLU(), (image(1, 3, 4, 4),))
