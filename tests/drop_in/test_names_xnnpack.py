"""Names of upstream's XNNPACK delegate: the same script gives the same on both sides."""

from __future__ import annotations

import pytest
import torch
from support.same_script import SameScripts
from torch import nn

from executorch_py.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch_py.backends.xnnpack.quantizer.xnnpack_quantizer import (
    XNNPACKQuantizer,
    get_symmetric_quantization_config,
)
from executorch_py.exir import to_edge
from executorch_py.quantizer import convert_pt2e, prepare_pt2e

SCRIPTS = SameScripts(
    {
        "partitions": """
import torch, warnings
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import to_edge
warnings.simplefilter("ignore")

class Net(torch.nn.Module):
    def forward(self, x, y):
        a = (x + y).sigmoid()
        b = torch.sin(torch.cumsum(a, 0)) * y
        return b.tanh()

x = torch.ones(3, 4)

def partitions(generate):
    program = to_edge(torch.export.export(Net(), (x, x))).exported_program()
    found = [sorted(n.target.__name__ for n in p.nodes) for p in
             generate(program)]
    assert not any("delegation_tag" in n.meta for n in program.graph.nodes)
    return sorted(found)

result = [
    partitions(XnnpackPartitioner().generate_partitions),
    partitions(XnnpackPartitioner(per_op_mode=True).generate_partitions),
    partitions(XnnpackPartitioner().generate_per_op_partitions),
]
""",
    }
)


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_gives_what_it_gives_with_upstream(name: str) -> None:
    SCRIPTS.check(name)


def test_partitions_are_those_that_are_tagged() -> None:
    x = torch.ones(2, 8)
    layers = nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 2)).eval()
    program = to_edge(torch.export.export(layers, (x,))).exported_program()
    found = XnnpackPartitioner().generate_partitions(program)
    XnnpackPartitioner().partition(program)
    for partition in found:
        tags = {node.meta.get("delegation_tag") for node in partition.nodes}
        assert len(tags) == 1 and None not in tags


class OnlySums(XNNPACKQuantizer):
    """A quantizer that leaves out all patterns but one."""

    SUPPORTED_PATTERNS = [p for p in XNNPACKQuantizer.SUPPORTED_PATTERNS if p.name == "add"]  # noqa: RUF012


def test_a_quantizer_may_leave_patterns_out() -> None:
    class Net(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x + x.flip(0)) * 3

    x = torch.linspace(-1, 1, 8).reshape(2, 4)
    quantizer = OnlySums().set_global(get_symmetric_quantization_config())
    prepared = prepare_pt2e(torch.export.export(Net(), (x,)).module(), quantizer)
    prepared(x)
    graph = convert_pt2e(prepared).graph
    (product,) = (n for n in graph.nodes if n.target is torch.ops.aten.mul.Tensor)
    assert not any("quantize" in str(user.target) for user in product.users)
    (total,) = (n for n in graph.nodes if n.target is torch.ops.aten.add.Tensor)
    assert all("quantize_per_tensor" in str(user.target) for user in total.users)
    assert len(OnlySums.get_supported_operators()[0].operators) == 1


def test_partitions_do_not_depend_on_tags_from_before_which_stay() -> None:
    class Net(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x + x).erf() * x

    program = to_edge(torch.export.export(Net(), (torch.ones(3),))).exported_program()
    for number, node in enumerate(program.graph.nodes):
        node.meta["delegation_tag"] = f"tag{number % 2}"
    before = [dict(node.meta) for node in program.graph.nodes]
    found = XnnpackPartitioner().generate_partitions(program)
    names = sorted(node.name for partition in found for node in partition.nodes)
    assert names == ["aten_add_tensor", "aten_mul_tensor"]
    assert [node.meta for node in program.graph.nodes] == before
