"""Payloads of whole networks: number of nodes, layouts, and the minimum cut behind them."""

from __future__ import annotations

import itertools
import random
from collections import Counter

import pytest
import torch
from models import vision
from support.xnnpack_cases import SelfAttention, data, image, seeded
from support.xnnpack_group import lowered_whole
from support.xnnpack_payloads import payloads_of
from support.xnnpack_quantized_cases import rounded
from torch import nn

from executorch_py.backends.xnnpack import XnnpackPartitioner
from executorch_py.backends.xnnpack.passes.minimum_cut import MinimumCut
from executorch_py.backends.xnnpack.payload.payload_flatbuffer import Datatype, NodeKind, XNNGraph
from executorch_py.backends.xnnpack.preprocess import XnnpackBackend
from executorch_py.exir import to_edge, to_edge_transform_and_lower
from executorch_py.exir.error import ExportError
from executorch_py.exir.passes.external_constants_pass import (
    delegate_external_constants_pass_unlifted,
)


def payload(module: nn.Module, *inputs: torch.Tensor) -> XNNGraph:
    assert XnnpackBackend.__name__ == "XnnpackBackend"  # imported, so that it is registered
    (found,) = payloads_of(lowered_whole(module, inputs))
    return found


def kinds_of(graph: XNNGraph) -> Counter[NodeKind]:
    return Counter(node.kind for node in graph.xnodes)


@pytest.mark.parametrize(("channels_last", "permutations"), [(False, 1), (True, 0)])
def test_mobilenet_is_one_delegate_with_one_permutation_at_most(
    channels_last: bool, permutations: int
) -> None:
    x = image(1, 3, 64, 64) if channels_last else data(1, 3, 64, 64)
    graph = payload(vision.build("mobilenet_v2"), x)
    assert kinds_of(graph) == Counter(
        {
            NodeKind.STATIC_TRANSPOSE: permutations,
            NodeKind.CONV_2D: 35,
            NodeKind.DEPTHWISE_CONV_2D: 17,
            NodeKind.ADD: 10,
            NodeKind.GLOBAL_AVG_POOLING_2D: 1,
            NodeKind.STATIC_RESHAPE: 1,
            NodeKind.FULLY_CONNECTED: 1,
        }
    )
    clamped = [node for node in graph.xnodes if node.output_min_max is not None]
    assert len(clamped) == 35  # ReLU6 is fused


def test_attention_has_a_product_each_for_queries_keys_and_values() -> None:
    kinds = kinds_of(payload(seeded(lambda: SelfAttention(64, 4)), data(2, 5, 64)))
    assert kinds[NodeKind.FULLY_CONNECTED] == 4 and kinds[NodeKind.STATIC_SLICE] == 0
    assert kinds[NodeKind.STATIC_TRANSPOSE] == 4 and kinds[NodeKind.STATIC_RESHAPE] == 4


def test_equal_weights_are_stored_once() -> None:
    layer = seeded(lambda: nn.Linear(8, 8))
    manager = lowered_whole(nn.Sequential(layer, nn.ReLU(), layer), (data(2, 8),))
    (found,) = payloads_of(manager)
    assert len(found.constant_data) == 3  # the placeholder, the weight, the bias


def test_what_cannot_be_written_is_named() -> None:
    class Sorted(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.erf(x)

    with pytest.raises(ExportError, match=r"'aten_erf_default' \(aten::erf\): expected .*, got"):
        lowered_whole(Sorted(), (data(2, 3),))


@pytest.mark.parametrize("seed", range(20))
def test_the_cut_is_as_cheap_as_the_best_labelling(seed: int) -> None:
    choose = random.Random(seed)
    sides = [choose.choice([True, False, None, None, None]) for _ in range(7)]
    hyperedges = [
        (choose.sample(range(7), choose.randint(2, 4)), choose.randint(1, 9)) for _ in range(8)
    ]

    def cost(chosen: tuple[bool, ...]) -> int:
        return sum(price for members, price in hyperedges if len({chosen[m] for m in members}) > 1)

    cut = MinimumCut()
    vertices = [cut.vertex(side) for side in sides]
    for members, price in hyperedges:
        cut.connect([vertices[m] for m in members], price)
    source_side = cut.source_side()
    found = tuple(vertex in source_side for vertex in vertices)
    allowed = [
        chosen
        for chosen in itertools.product([False, True], repeat=7)
        if all(side in (None, chosen[i]) for i, side in enumerate(sides))
    ]
    assert found in allowed
    assert cost(found) == min(map(cost, allowed))


def test_a_permutation_is_free_where_an_image_is_channels_last() -> None:
    class Patches(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(3, 8, 4, stride=4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.conv(x).flatten(2).transpose(1, 2)

    kinds = kinds_of(payload(seeded(Patches), data(1, 3, 8, 8)))
    assert kinds[NodeKind.STATIC_TRANSPOSE] == 1  # the input's


class Rolled(nn.Module):
    """Shifted windows: two rolls, then quantization."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return rounded(torch.abs(x).roll((1, 2), (1, 2)), 1 / 32, -128)


def test_what_is_joined_of_parts_and_then_quantized_is_quantized_once_before() -> None:
    x = data(1, 4, 6, 3)
    manager = to_edge_transform_and_lower(
        torch.export.export(Rolled(), (x,)), partitioner=[XnnpackPartitioner()]
    )
    (graph,) = payloads_of(manager)
    kinds = [node.kind for node in graph.xnodes]
    assert kinds[:2] == [NodeKind.ABS, NodeKind.CONVERT] and kinds[-1] is NodeKind.CONVERT
    assert Counter(kinds[2:-1]) == {NodeKind.STATIC_SLICE: 4, NodeKind.CONCATENATE_2: 2}
    found = Counter(value.tensor.datatype for value in graph.xvalues)
    assert found == {Datatype.QINT8: 7, Datatype.FP32: 3}
    assert torch.equal(manager.to_executorch().run(x), Rolled()(x))


class TwoParts(nn.Module):
    """Two slices of one input with equal quantization; the first is moved twice."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first = rounded(torch.relu(rounded(x[:, 0, 0], 0.02, 3)), 0.02, 3)
        return first + rounded(torch.relu(rounded(x[:, :, 0], 0.02, 3)), 0.02, 3).sum(1)


def test_parts_that_are_quantized_alike_are_taken_of_what_was_quantized_before_them() -> None:
    x = data(2, 4, 5, 5)
    manager = to_edge_transform_and_lower(
        torch.export.export(TwoParts(), (x,)), partitioner=[XnnpackPartitioner()]
    )
    (graph,) = payloads_of(manager)
    assert graph.xnodes[0].kind is NodeKind.CONVERT
    torch.testing.assert_close(torch.as_tensor(manager.to_executorch().run(x)), TwoParts()(x))


class ReturnedTwice(nn.Module):
    """One sum as two results, each behind permutations that undo each other."""

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        y = (x + 1) * x
        return [y.unsqueeze(3).permute(0, 1, 3, 2).permute(0, 1, 3, 2) for _ in range(2)]


class QuantizedTwice(nn.Module):
    """One quantized sum as two results, each quantized again after a move."""

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        y = rounded(rounded(x, 0.02, 3) + rounded(x, 0.02, 3), 0.05, 1)
        return [_quantized(y.transpose(1, 2)), _quantized(y.transpose(1, 2))]


def _quantized(x: torch.Tensor) -> torch.Tensor:
    return torch.ops.quantized_decomposed.quantize_per_tensor(x, 0.05, 1, -128, 127, torch.int8)


@pytest.mark.parametrize("model", [ReturnedTwice(), QuantizedTwice()])
def test_two_equal_results_are_both_written(model: nn.Module) -> None:
    x, dynamic = data(2, 3, 5), {1: torch.export.Dim("rows", min=1, max=6)}
    exported = torch.export.export(model, (x,), dynamic_shapes=(dynamic,))
    edge = to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()])
    assert all(len(set(p.output_ids)) == len(p.output_ids) == 2 for p in payloads_of(edge))
    program = edge.to_executorch()
    for rows in (3, 1, 6):
        assert program.verify(model, data(2, rows, 5)).ok


def test_the_edge_program_given_is_not_changed() -> None:
    module = seeded(lambda: nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4)))
    manager = to_edge(torch.export.export(module, (data(1, 3, 4, 4),)))
    program = manager.exported_program()
    before = str(program.graph)
    XnnpackBackend.preprocess(XnnpackBackend.copy_exported_program_for_preprocess(program, []), [])
    assert str(program.graph) == before


class Folded(nn.Module):
    """A batch norm folded into a convolution, and a weight transposed ahead of time."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 4, 3, bias=False), nn.BatchNorm2d(4)
        self.matrix = nn.Parameter(data(5, 36))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.mm(self.norm(self.conv(x)).flatten(1), self.matrix.t())


def test_folded_weights_stay_in_their_data_file() -> None:
    module, inputs = seeded(Folded), (data(1, 3, 5, 5),)
    unlifted = torch.export.export(module, inputs).module()
    delegate_external_constants_pass_unlifted(unlifted, lambda node: "weights")
    edge = to_edge_transform_and_lower(
        torch.export.export(unlifted, inputs), partitioner=[XnnpackPartitioner()]
    )
    assert edge.delegation_summary().delegated_share == 1.0
    stored = edge._named_data_store.get_named_data_store_output()
    assert not stored.pte_data and len(stored.external_data["weights"]) == 3
