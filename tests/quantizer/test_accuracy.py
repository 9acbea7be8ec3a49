"""What quantization costs on real data: digits that were held out, through XNNPACK's delegate."""

import copy

import pytest
import torch
from models import digits, sentences

from executorch_py.backends.xnnpack import XnnpackPartitioner
from executorch_py.exir import to_edge_transform_and_lower
from executorch_py.quantizer import (
    XNNPACKQuantizer,
    calibrate,
    convert_pt2e,
    get_symmetric_quantization_config,
    prepare_pt2e,
    prepare_qat_pt2e,
)

BATCH = torch.export.Dim("batch", min=1, max=1024)


@pytest.fixture(scope="module", params=sorted(digits.NETWORKS))
def name(request):
    return request.param


def exported(model):
    images = digits.data()[0][:4]
    return torch.export.export(model, (images,), dynamic_shapes=({0: BATCH},))


def accuracy_of(quantized):
    """Of the lowered file, which is one delegate, on the runtime."""
    edge = to_edge_transform_and_lower(exported(quantized), partitioner=[XnnpackPartitioner()])
    assert len(edge.delegation_summary().delegates) == 1
    program = edge.to_executorch()
    return digits.accuracy(program.run)


def quantizer(**switches):
    config = get_symmetric_quantization_config(is_per_channel=True, **switches)
    return XNNPACKQuantizer().set_global(config)


def test_static_int8_is_within_half_a_point_of_float(name):
    model = digits.trained(name)
    prepared = prepare_pt2e(exported(model).module(), quantizer())
    calibrate(prepared, digits.calibration())
    assert accuracy_of(convert_pt2e(prepared)) >= digits.accuracy(model) - 0.5


def test_dynamic_int8_is_within_half_a_point_of_float(name):
    model = digits.trained(name)
    prepared = prepare_pt2e(exported(model).module(), quantizer(is_dynamic=True))
    calibrate(prepared, digits.calibration()[:1])
    assert accuracy_of(convert_pt2e(prepared)) >= digits.accuracy(model) - 0.5


def test_training_quantized_is_within_a_fifth_of_a_point_of_float():
    model = digits.trained("small")
    prepared = prepare_qat_pt2e(
        exported(copy.deepcopy(model).train()).module(), quantizer(is_qat=True)
    )
    digits.learn(prepared, 2, 5e-4)
    quantized = convert_pt2e(prepared.eval())
    assert accuracy_of(quantized) >= digits.accuracy(model) - 0.2


def test_no_sentence_is_both_shown_to_calibrate_and_tested():
    assert not set(sentences.SENTENCES) & set(sentences.statements())
