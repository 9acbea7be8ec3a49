"""Transformers in static int8: one XNNPACK delegate that works on integers, nothing quantized or
dequantized outside, and the numbers of the converted module in eager torch whoever runs the file.

Architectures are torchvision's own, with the class token, the shifted windows with their masks and
the merging of patches; few layers, small widths and images.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from support.xnnpack_payloads import WEIGHTED, integer_nodes, payloads_of
from torch import nn

from executorch_py.backends.xnnpack import XnnpackPartitioner
from executorch_py.backends.xnnpack.payload.payload_flatbuffer import Datatype
from executorch_py.exir import ExecutorchBackendConfig, to_edge_transform_and_lower
from executorch_py.quantizer import (
    XNNPACKQuantizer,
    calibrate,
    convert_pt2e,
    get_symmetric_quantization_config,
    prepare_pt2e,
)
from executorch_py.testing.quantization_step import output_quanta
from models import vision

PRODUCTS = (torch.ops.aten.linear.default, torch.ops.aten.conv2d.default)
IMAGES = 4


def vit() -> nn.Module:
    model: nn.Module = vision.torchvision_models().VisionTransformer(
        image_size=32, patch_size=8, num_layers=1, num_heads=2, hidden_dim=32, mlp_dim=64
    )
    # As far below zero as above and beyond the patches, so that what it is joined with has the zero
    # point 0: it is a constant of integers then, as weights are.
    model.class_token = nn.Parameter(torch.tensor([-5.0, 5.0]).repeat(16).reshape(1, 1, 32))
    return model


def swin() -> nn.Module:
    model: nn.Module = vision.torchvision_models().SwinTransformer(
        patch_size=[4, 4], embed_dim=16, depths=[2, 0], num_heads=[2, 4], window_size=[4, 4]
    )
    return model


def with_visible_results(model: nn.Module) -> nn.Module:
    """Weights of a seed; none is zero, as those of heads and class tokens are at first."""
    for parameter in model.parameters():
        if not parameter.any():
            nn.init.normal_(parameter, std=0.2)
    return model.eval()


def root_mean_square(x: torch.Tensor) -> float:
    return float(x.square().mean().sqrt())


@pytest.mark.parametrize("build", [vit, swin])
def test_an_int8_vision_transformer_is_one_delegate_with_the_references_numbers(
    build: Callable[[], nn.Module],
) -> None:
    torch.manual_seed(3)
    model = with_visible_results(build())
    images = [torch.randn(1, 3, 32, 32) for _ in range(IMAGES)]
    config = get_symmetric_quantization_config(is_per_channel=True)
    exported = torch.export.export(model, (images[0],)).module()
    prepared = prepare_pt2e(exported, XNNPACKQuantizer().set_global(config))
    calibrate(prepared, images, progress=False)
    reference = convert_pt2e(prepared)

    program = torch.export.export(reference, (images[0],))
    edge = to_edge_transform_and_lower(program)
    delegated = to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner()])

    summary = delegated.delegation_summary()
    assert len(summary.delegates) == 1, str(summary)
    assert {record.operator for record in summary.records if record.delegate is None} == set()
    (payload,) = payloads_of(delegated)
    n_products = sum(node.target in PRODUCTS for node in reference.graph.nodes)
    assert integer_nodes(payload, WEIGHTED, Datatype.QINT8) >= n_products > 5

    plain, file = edge.to_executorch(), delegated.to_executorch()
    in_integers = edge.to_executorch(ExecutorchBackendConfig(own_operators=True))
    (quantum,) = output_quanta(file.exported_program())
    assert quantum is not None
    n_near = 0
    for image in images:
        with torch.no_grad():
            exact, wanted = model(image), reference(image)
        assert wanted.unique().numel() > 50
        for kernels in (plain, in_integers):
            assert (kernels.run(image) - wanted).abs().max() <= 1.01 * quantum
        # XNNPACK's sums round otherwise than torch; of an integer that becomes its neighbour there
        # a norm makes several in all that follows: less than what quantizing itself has changed.
        off = file.run(image) - wanted
        n_near += bool(off.abs().max() <= 1.01 * quantum)
        assert root_mean_square(off) <= max(quantum, root_mean_square(wanted - exact))
    assert n_near >= IMAGES / 2
