"""Names that upstream's examples import: quantized fusion, cuts between layers, a profile."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from support.same_script import SameScripts

from executorch_py.util.python_profiler import CProfilerFlameGraph

_FUSION = """
import torch, warnings
from torch.export import export
from executorch.exir import EdgeCompileConfig, to_edge
from executorch.exir.passes.quant_fusion_pass import (
    QuantFusionPass, quant_fusion_and_const_prop_pass)
import torch.ao.quantization.fx._decomposed
warnings.simplefilter("ignore")
qd = torch.ops.quantized_decomposed
U8 = (0.1, 3, 0, 255, torch.uint8)
OTHER = (0.2, 5, 0, 255, torch.uint8)

def q(x, numbers=U8):
    return qd.quantize_per_tensor(x, *numbers)

def dq(x, numbers=U8):
    return qd.dequantize_per_tensor(x, *numbers)

def targets(gm):
    return [n.target.__name__ for n in gm.graph.nodes if n.op == "call_function"]

def edge(function, *inputs):
    class Net(torch.nn.Module):
        def forward(self, *args):
            return function(*args)

    config = EdgeCompileConfig(_check_ir_validity=False)
    return to_edge(export(Net(), inputs), compile_config=config)

def fused(function, *inputs):
    return targets(edge(function, *inputs).transform([QuantFusionPass(
        _fix_node_meta_val=True)]).exported_program().graph_module)

x, y = torch.rand(2, 4), torch.rand(2, 4)
"""
SCRIPTS = SameScripts(
    {
        "fusion": _FUSION
        + """
result = [
    fused(lambda x, y: dq(q(dq(q(x)) + dq(q(y, OTHER), OTHER))), x, y),
    fused(lambda x, y: dq(q(dq(q(x)) + y)), x, y),
    fused(lambda x: dq(q(dq(q(x))[1:])), x),
    fused(lambda x: dq(q(dq(q(x))[1:], OTHER), OTHER), x),
    fused(lambda x, y: dq(q(torch.cat([dq(q(x)), dq(q(y))]))), x, y),
    fused(lambda x, y: dq(q(torch.cat([dq(q(x)), dq(q(y, OTHER), OTHER)]))), x, y),
    fused(lambda x: x + 1, x),
]
""",
        "tables": _FUSION
        + """
rows = torch.arange(24, dtype=torch.uint8).reshape(6, 4)
scales, zeros = torch.linspace(0.1, 0.6, 6), torch.full((6,), 3.0)

class Table(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("rows", rows)
        self.register_buffer("scales", scales)
        self.register_buffer("zeros", zeros)

    def forward(self, i):
        table = qd.dequantize_per_channel(self.rows, self.scales, self.zeros, 0, 0, 255,
                                          torch.uint8)
        return torch.nn.functional.embedding(i, table)

indices = torch.tensor([5, 0, 3])
config = EdgeCompileConfig(_check_ir_validity=False)
program = to_edge(export(Table(), (indices,)), compile_config=config).exported_program()
QuantFusionPass(_fix_node_meta_val=True)(program.graph_module)
result = [targets(program.graph_module)]
""",
        "layers": """
import torch, warnings
from torch.export import export
from executorch.exir import to_edge
from executorch.extension.llm.custom_ops.model_sharding import (
    SplitGraph, get_split_graph_pass, split_graph)
warnings.simplefilter("ignore")

class Layer(torch.nn.Module):
    def forward(self, x):
        return x.sin() + 1

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(Layer() for _ in range(6))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x

def program():
    return to_edge(export(Net(), (torch.ones(3),))).exported_program()

def targets(gm):
    return [n.target.__name__ for n in gm.graph.nodes if n.op == "call_function"]

two, three = program(), program()
split_graph(two, 6, 2)
SplitGraph([4], pattern=r"none", layer_prefix_offsets={"L['self'].layers": 2, "layers": 2})(
    three.graph_module)
cls, arguments = get_split_graph_pass(6, 3, layer_prefix_offsets={"a": 1})
result = [targets(two.graph_module), targets(three.graph_module), cls.__name__, arguments,
          get_split_graph_pass(6, 1)[1]]
""",
    }
)


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_gives_what_it_gives_with_upstream(name: str) -> None:
    SCRIPTS.check(name)


def fused_net() -> torch.nn.Module:
    qd = torch.ops.quantized_decomposed
    numbers = (0.1, 3, 0, 255, torch.uint8)

    class Net(torch.nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            a, b = (
                qd.dequantize_per_tensor(qd.quantize_per_tensor(v, *numbers), *numbers)
                for v in (x, y)
            )
            total = qd.quantize_per_tensor(torch.cat([a, b]) + a.flip(0).repeat(2, 1), *numbers)
            return qd.dequantize_per_tensor(total, *numbers)

    return Net()


def test_a_fused_program_computes_what_the_model_does() -> None:
    from executorch_py.exir import EdgeCompileConfig, ExecutorchBackendConfig, to_edge
    from executorch_py.exir.passes.quant_fusion_pass import QuantFusionPass

    inputs = (torch.rand(2, 4), torch.rand(2, 4))
    config = EdgeCompileConfig(_check_ir_validity=False)
    edge = to_edge(torch.export.export(fused_net(), inputs), compile_config=config)
    program = edge.to_executorch(ExecutorchBackendConfig(passes=[QuantFusionPass()]))
    torch.testing.assert_close(program.run(*inputs), fused_net()(*inputs))


def test_low_bit_tables_are_packed_with_the_program() -> None:
    from torchao.quantization import IntxWeightOnlyConfig, quantize_
    from torchao.quantization.granularity import PerGroup

    from executorch_py.exir import EdgeCompileConfig, to_edge
    from executorch_py.exir.passes.quant_fusion_pass import quant_fusion_and_const_prop_pass

    model = torch.nn.Sequential(torch.nn.Embedding(6, 8)).eval()
    config = IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=PerGroup(8))
    quantize_(model, config, lambda m, fqn: isinstance(m, torch.nn.Embedding))
    indices = torch.tensor([5, 0, 3])
    edge = to_edge(
        torch.export.export(model, (indices,)),
        compile_config=EdgeCompileConfig(_check_ir_validity=False),
    )
    program = quant_fusion_and_const_prop_pass(edge.exported_program())
    calls = [n.target.__name__ for n in program.graph.nodes if n.op == "call_function"]
    assert any(name.startswith("quantized_decomposed.embedding_4bit") for name in calls)
    assert not any("dequantize" in name for name in calls)
    torch.testing.assert_close(program.module()(indices), model(indices))


def test_a_profile_is_a_page_that_lists_functions(tmp_path: Path) -> None:
    path = tmp_path / "profile.html"
    with pytest.raises(KeyError), CProfilerFlameGraph(str(path)):
        sorted(range(100), key=lambda value: -value)
        raise KeyError("kept")
    page = path.read_text()
    assert page.startswith("<!doctype html>") and "built-in method builtins.sorted" in page
    assert "http" not in page
    with pytest.raises(ValueError, match=r"expected a name such as 'profile\.html'"):
        CProfilerFlameGraph("profile")
