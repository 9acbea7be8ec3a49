"""ConvLayouts: layout assignment; regions of convolutions compute with channels-last images.

Convolutions of this project are faster in that layout, and give the same bits; means over pixels
add them in another order. A region is a set of convolutions connected by operators that accept both
layouts. Images are copied where they enter and leave it, so a region is converted only if these
copies are few beside its results. Only the runtime of this project has the kernels: upstream's
refuse some of these calls. Relies on `meta["val"]`; sizes must be static, values f32.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from torch import fx
from torch.export import ExportedProgram

from executorch_py.exir.dialects.edge_ops import ops
from executorch_py.exir.ir.fake_values import (
    evaluate,
    fake_evaluation,
    fake_mode_of,
    refresh_users,
)
from executorch_py.exir.ir.match import argument
from executorch_py.exir.ir.op_traits import is_getitem, op_key
from executorch_py.exir.passes.base import Contract, Fact, Pass, facts

_CHANNELS_LAST = [0, 2, 3, 1]
# Limits of a region that is converted: number of convolutions, copied elements per element that
# convolutions compute, and the part of multiply-adds that computes many channels.
_MIN_CONVOLUTIONS = 4
_MAX_COPIED = 0.1
_MANY_CHANNELS = 32
_MIN_PART_OF_MANY_CHANNELS = 0.75

_CONVOLUTION = "aten::convolution"
_MEAN = "aten::mean.dim"
_POOL = "aten::max_pool2d_with_indices"
# Element-wise operators on images of one size; further operands may be 0-d, or images of one pixel
# with as many channels.
_ELEMENTWISE = frozenset(
    {
        "aten::add.Tensor",
        "aten::clamp",
        "aten::div.Scalar",
        "aten::div.Tensor",
        "aten::elu",
        "aten::gelu",
        "aten::hardtanh",
        "aten::leaky_relu",
        "aten::mul.Scalar",
        "aten::mul.Tensor",
        "aten::relu",
        "aten::sigmoid",
        "aten::sub.Tensor",
        "aten::tanh",
    }
)


@dataclass
class _Region:
    nodes: set[fx.Node] = field(default_factory=set)

    def entries(self) -> list[fx.Node]:
        """Images from outside that the region reads."""
        found = {n: None for node in self.nodes for n in _images_read(node) if n not in self.nodes}
        return sorted(found)

    def exits(self) -> list[fx.Node]:
        """Images of the region that are read outside."""
        return sorted(n for n in self.nodes if _image(n) is not None and self.readers(n))

    def readers(self, node: fx.Node) -> list[fx.Node]:
        return [user for user in node.users if user not in self.nodes]

    def is_faster(self) -> bool:
        convolutions = [n for n in self.nodes if op_key(n.target) == _CONVOLUTION and _is_plane(n)]
        computed = sum(_elements(n) for n in convolutions)
        copied = sum(map(_elements, [*self.entries(), *self.exits()]))
        wide = [n for n in convolutions if n.meta["val"].shape[1] >= _MANY_CHANNELS]
        return (
            len(convolutions) >= _MIN_CONVOLUTIONS
            and copied <= _MAX_COPIED * computed
            and sum(map(_work, wide)) >= _MIN_PART_OF_MANY_CHANNELS * sum(map(_work, convolutions))
        )


class ConvLayouts(Pass):
    """Copy images into and out of regions of convolutions that gain from channels-last."""

    contract = Contract(requires=facts(Fact.FUNCTIONAL))

    def run(self, program: ExportedProgram) -> bool:
        gm = program.graph_module
        mode = fake_mode_of(gm)
        regions = [region for region in _regions(gm.graph) if region.is_faster()] if mode else []
        if mode is None or not regions:
            return False
        copies = []
        for region in regions:
            copies += [_copy_in(gm.graph, region, value) for value in region.entries()]
            outside = [_copy_out(gm.graph, region, value) for value in region.exits()]
            with fake_evaluation(mode):
                for copy in (*copies, *outside):
                    copy.meta["val"] = evaluate(copy)
        refresh_users(gm, copies)
        return True


def _regions(graph: fx.Graph) -> list[_Region]:
    """Connected sets of nodes that may compute with channels-last images."""
    free = {node: None for node in graph.nodes if _may_join(node)}
    regions = []
    while free:
        region, pending = _Region(), [next(iter(free))]
        while pending:
            node = pending.pop()
            if node not in free:
                continue
            del free[node]
            region.nodes.add(node)
            pending += [*_images_read(node), *node.users]
        regions.append(region)
    return regions


def _may_join(node: fx.Node) -> bool:
    if node.op != "call_function":
        return False
    if is_getitem(node.target):
        return op_key(node.args[0].target) == _POOL and _may_join(node.args[0])
    key = op_key(node.target)
    if key == _POOL:
        return _is_plane(node.args[0]) and all(u.args[1] == 0 for u in node.users)
    if key == _MEAN:
        return _is_plane(node.args[0]) and _averages_pixels(node)
    if not _may_be_read(node):
        return False
    if key == _CONVOLUTION:
        return _may_be_read(node.args[0]) and _is_convolution_of_pixels(node)
    return key in _ELEMENTWISE and all(
        _is_number(n) or _has_channels_of(n, node) for n in node.all_input_nodes
    )


def _averages_pixels(node: fx.Node) -> bool:
    dims = argument(node, "dim")
    return dims is not None and sorted(d % 4 for d in dims) == [2, 3]


def _has_channels_of(node: fx.Node, result: fx.Node) -> bool:
    """Whether an image has the result's size, or is one pixel that is used for all of them."""
    if not _may_be_read(node):
        return False
    shape, whole = node.meta["val"].shape, result.meta["val"].shape
    return shape == whole or (shape[:2] == whole[:2] and not _is_plane(node))


def _is_convolution_of_pixels(node: fx.Node) -> bool:
    """Whether every output channel of a convolution reads all input channels, or just its own."""
    weight, groups = node.args[1].meta["val"], argument(node, "groups")
    channels = argument(node, "input").meta["val"].shape[1]
    depthwise = groups == channels == weight.shape[0]
    return not argument(node, "transposed") and (groups == 1 or depthwise)


def _images_read(node: fx.Node) -> list[fx.Node]:
    """The inputs of a region's node that are images."""
    inputs: list[fx.Node] = node.all_input_nodes
    if op_key(node.target) == _CONVOLUTION:
        return inputs[:1]
    return [n for n in inputs if is_getitem(node.target) or not _is_number(n)]


def _image(node: object) -> torch.Tensor | None:
    value = node.meta.get("val") if isinstance(node, fx.Node) else None
    return value if isinstance(value, torch.Tensor) and value.dim() == 4 else None


def _may_be_read(node: object) -> bool:
    """Whether a value is a contiguous f32 image of more than one channel."""
    value = _image(node)
    return (
        value is not None
        and value.dtype == torch.float32
        and all(isinstance(size, int) for size in value.shape)
        and value.shape[1] > 1
        and value.is_contiguous()
    )


def _is_plane(node: object) -> bool:
    """Whether a value is such an image with more than one pixel: the layouts differ."""
    value = _image(node)
    return value is not None and _may_be_read(node) and value.shape[2] * value.shape[3] > 1


def _is_number(node: fx.Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.dim() == 0


def _work(convolution: fx.Node) -> int:
    """Multiply-adds of a convolution."""
    weight = argument(convolution, "weight").meta["val"]
    return _elements(convolution) * int(math.prod(weight.shape[1:]))


def _elements(node: fx.Node) -> int:
    return int(math.prod(node.meta["val"].shape))


def _copy_in(graph: fx.Graph, region: _Region, value: fx.Node) -> fx.Node:
    readers = [user for user in value.users if user in region.nodes]
    first = next(node for node in graph.nodes if node in readers)
    return _copy(graph, first, value, _CHANNELS_LAST, readers)


def _copy_out(graph: fx.Graph, region: _Region, value: fx.Node) -> fx.Node:
    readers = region.readers(value)
    first = next(node for node in graph.nodes if node in readers)
    return _copy(graph, first, value, [0, 1, 2, 3], readers)


def _copy(
    graph: fx.Graph, before: fx.Node, value: fx.Node, order: list[int], readers: list[fx.Node]
) -> fx.Node:
    with graph.inserting_before(before):
        copy = graph.call_function(
            ops.edge.dim_order_ops._to_dim_order_copy.default, (value,), {"dim_order": order}
        )
    if "stack_trace" in value.meta:
        copy.meta["stack_trace"] = value.meta["stack_trace"]
    for reader in readers:
        reader.replace_input_with(value, copy)
    return copy
