"""Transformers in static int8: one XNNPACK delegate on integers, equal to the converted module.

No operator quantizes or dequantizes outside of the delegate. The delegate and the kernels agree
with the converted module in eager torch. Architectures are torchvision's, with the class token, the
shifted windows with their masks and the merging of patches. Layers are few, widths and images
small.
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
from executorch_py.testing.quantization_step import output_steps
from models import vision

PRODUCTS = (torch.ops.aten.linear.default, torch.ops.aten.conv2d.default)
IMAGES = 4


def vit() -> nn.Module:
    model: nn.Module = vision.torchvision_models().VisionTransformer(
        image_size=32, patch_size=8, num_layers=1, num_heads=2, hidden_dim=32, mlp_dim=64
    )
    # The class token is symmetric and larger than the patches, so that the concatenation has the
    # zero point 0: the token is then a quantized constant, as weights are.
    model.class_token = nn.Parameter(torch.tensor([-5.0, 5.0]).repeat(16).reshape(1, 1, 32))
    return model


def swin() -> nn.Module:
    model: nn.Module = vision.torchvision_models().SwinTransformer(
        patch_size=[4, 4], embed_dim=16, depths=[2, 0], num_heads=[2, 4], window_size=[4, 4]
    )
    return model


def with_visible_results(model: nn.Module) -> nn.Module:
    """The model with seeded weights, none of them zero; heads and class tokens start as zero."""
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
    (step,) = output_steps(file.exported_program())
    assert step is not None
    n_near = 0
    for image in images:
        with torch.no_grad():
            exact, wanted = model(image), reference(image)
        assert wanted.unique().numel() > 50
        for kernels in (plain, in_integers):
            assert (kernels.run(image) - wanted).abs().max() <= 1.01 * step
        # XNNPACK's sums round differently from torch's. A norm spreads one integer that differs by
        # one to several in later layers; the difference is less than that of the quantization.
        off = file.run(image) - wanted
        n_near += bool(off.abs().max() <= 1.01 * step)
        assert root_mean_square(off) <= max(step, root_mean_square(wanted - exact))
    assert n_near >= IMAGES / 2
