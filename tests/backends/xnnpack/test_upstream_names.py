"""Scripts written with upstream's names for XNNPACK: their programs are delegated and run."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from support.tolerance import SMALL_LAYER_STEPS, assert_near
from torch import nn
from torch.export import export
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

from executorch_py.backends.transforms.duplicate_dynamic_quant_chain import (
    DuplicateDynamicQuantChainPass,
)
from executorch_py.backends.xnnpack import (
    XnnpackDynamicallyQuantizedPartitioner,
    XnnpackPartitioner,
    get_xnnpack_edge_compile_config,
    get_xnnpack_executorch_backend_config,
)
from executorch_py.backends.xnnpack.partition.config.xnnpack_config import ConfigPrecisionType
from executorch_py.backends.xnnpack.partition.xnnpack_partitioner import (
    XnnpackFloatingPointPartitioner,
    XnnpackQuantizedPartitioner,
)
from executorch_py.backends.xnnpack.quantizer.xnnpack_quantizer import (
    XNNPACKQuantizer,
    get_symmetric_quantization_config,
)
from executorch_py.backends.xnnpack.utils.configs import get_transform_passes
from executorch_py.exir import to_edge_transform_and_lower
from executorch_py.exir.backend.utils import get_delegates
from executorch_py.quantizer import AnnotationWarning

X = torch.linspace(-1, 1, 24).reshape(3, 8)


def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)).eval()


def converted(model: nn.Module, quantizer: Any, **settings: bool) -> Any:
    prepared = prepare_pt2e(export(model, (X,)).module(), quantizer)
    prepared(X)
    return convert_pt2e(prepared, **settings)


def quantizing_nodes(module: torch.fx.GraphModule) -> int:
    return sum("quantize_per" in str(node.target) for node in module.graph.nodes)


@pytest.mark.parametrize(
    "make",
    [
        XnnpackPartitioner,
        XnnpackFloatingPointPartitioner,
        XnnpackQuantizedPartitioner,
        XnnpackDynamicallyQuantizedPartitioner,
        lambda: XnnpackPartitioner(
            config_precisions=[ConfigPrecisionType.FP32], per_op_mode=True, verbose=True
        ),
    ],
)
def test_a_script_written_for_upstream_runs(make: Any) -> None:
    model = net()
    edge = to_edge_transform_and_lower(
        export(model, (X,)),
        partitioner=[make()],
        transform_passes=get_transform_passes(),
        compile_config=get_xnnpack_edge_compile_config(),
    )
    program = edge.to_executorch(get_xnnpack_executorch_backend_config())
    torch.testing.assert_close(program.run(X), model(X))


def test_a_quantized_model_runs_in_the_delegate() -> None:
    model = net()
    quantizer = XNNPACKQuantizer().set_global(get_symmetric_quantization_config())
    quantized = converted(model, quantizer)
    edge = to_edge_transform_and_lower(export(quantized, (X,)), [], [XnnpackPartitioner()])
    assert len(get_delegates(edge.exported_program().graph)) == 1
    assert_near(edge.to_executorch().run(X), quantized(X), SMALL_LAYER_STEPS)


def test_only_nodes_that_the_filter_lets_through_are_quantized() -> None:
    everything = XNNPACKQuantizer().set_global(get_symmetric_quantization_config())
    some = XNNPACKQuantizer().set_global(get_symmetric_quantization_config())
    some.set_filter_function(lambda node: "linear_1" in node.name)
    nothing = XNNPACKQuantizer().set_global(get_symmetric_quantization_config(is_dynamic=True))
    nothing.set_filter_function(lambda node: False)
    counts = [quantizing_nodes(converted(net(), q)) for q in (everything, some)]
    with pytest.warns(AnnotationWarning, match="in the whole model: nothing is annotated"):
        counts.append(quantizing_nodes(converted(net(), nothing)))
    assert counts[0] > counts[1] > counts[2] == 0


def test_every_reader_of_a_dynamic_chain_gets_its_own() -> None:
    class Shared(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(8, 4), nn.Linear(8, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            result: torch.Tensor = self.a(x) + self.b(x)
            return result

    config = get_symmetric_quantization_config(is_per_channel=True, is_dynamic=True)
    module = converted(Shared(), XNNPACKQuantizer().set_global(config), fold_quantize=False)
    before = module(X)

    def chains() -> int:
        return sum("choose_qparams" in str(node.target) for node in module.graph.nodes)

    one = chains()
    assert DuplicateDynamicQuantChainPass()(module).modified
    assert chains() == one + 1
    torch.testing.assert_close(module(X), before)
    assert not DuplicateDynamicQuantChainPass()(module).modified
