"""Low-bit weights: equal numbers in eager torch, kernels and delegate; small files; errors."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch
from support.low_bit_network import INDICES, PT2E, TORCHAO, Words, by_pt2e, exported, indices
from torch import nn
from torchao.quantization.pt2e.quantizer import ComposableQuantizer as TorchaoComposed

from executorch_py.backends.xnnpack import XnnpackPartitioner
from executorch_py.exir import (
    ExecutorchBackendConfig,
    ExecutorchProgramManager,
    to_edge,
    to_edge_transform_and_lower,
)
from executorch_py.quantizer import (
    CalibrationError,
    ComposableQuantizer,
    XNNPACKQuantizer,
    convert_pt2e,
    get_groupwise_quantization_config,
    get_symmetric_quantization_config,
    get_weight_only_quantization_config,
    gptq,
    prepare_pt2e,
    quantize,
)
from executorch_py.quantizer.gptq import (
    SWEEPS,
    best_scales,
    round_gptq,
    round_to_nearest,
    to_bfloat16,
)
from executorch_py.runtime import Runtime

ELSE = 6144  # bytes of a file that are neither weights nor their scales
DELEGATED = {  # models that are one delegate; XNNPACK has no groups with float activations
    "4 bits in groups times 8": 1,
    "4 bits in rows times 8": 1,
    "8 bits alone": 1,
    "8 bits a tensor alone": 1,
    "4 bits in rows alone": 1,
}


made = cache(exported)


@cache
def lowered(name: str, delegate: bool) -> ExecutorchProgramManager:
    program = made(name)[1]
    if delegate:
        edge = to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner()])
    else:
        edge = to_edge(program)
    return edge.to_executorch()


def difference(program: ExecutorchProgramManager, model: nn.Module) -> float:
    """The largest difference to eager torch, relative to the largest result."""
    method = Runtime.get().load_program(program.buffer).load_method("forward")
    with torch.no_grad():
        expected = model(INDICES)
    return float((method.execute([INDICES])[0] - expected).abs().max() / expected.abs().max())


def n_delegates(program: ExecutorchProgramManager) -> int:
    nodes = program.exported_program().graph.nodes
    return sum("executorch_call_delegate" in str(n.target) for n in nodes)


@pytest.mark.parametrize("delegate", [False, True], ids=["kernels", "delegate"])
@pytest.mark.parametrize("name", PT2E)
def test_the_converted_model_computes_alike_everywhere(name: str, delegate: bool) -> None:
    program = lowered(name, delegate)
    # A low-bit embedding puts activations halfway between integers; they may round either way.
    assert difference(program, made(name)[0]) < (0.006 if "times" in name else 1e-5)
    if delegate:
        assert n_delegates(program) == DELEGATED.get(name, n_delegates(program))


@pytest.mark.parametrize("delegate", [False, True], ids=["kernels", "delegate"])
@pytest.mark.parametrize("name", TORCHAO)
def test_what_torchao_quantizes_before_export_computes_alike(name: str, delegate: bool) -> None:
    # XNNPACK rounds the scales of groups to bfloat16, and finds asymmetric scales for activations.
    dynamic = "8" in name and "alone" not in name and "table" not in name
    assert difference(lowered(name, delegate), made(name)[0]) < (0.012 if dynamic else 1e-5)


@pytest.mark.parametrize(
    ("name", "linear", "table"),
    [
        ("4 bits in groups times 8", 4, 8),
        ("8 bits alone", 8, 8),
        ("4 bits in rows alone", 4, 2),
        ("4 bits in groups alone", 4, 4),
    ],
)
def test_a_file_is_as_small_as_its_weights(name: str, linear: int, table: int) -> None:
    weights = 2 * 64 * 128 * linear // 8 + 40 * 64 * table // 8
    scales = 2 * (2 * 64 * 128 + 40 * 64) // 32
    for delegate in (False, True):
        assert len(lowered(name, delegate).buffer) < weights + scales + ELSE


def test_eight_bits_are_a_quarter_and_four_a_sixth_of_floats() -> None:
    model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 256)).eval()
    x = (torch.randn(2, 256),)
    exported = torch.export.export(model, x)
    floats = len(to_edge(exported).to_executorch().buffer)
    shares = {}
    for bits, group in ((8, None), (4, 32)):
        config = get_groupwise_quantization_config(bits, group)
        prepared = prepare_pt2e(exported.module(), XNNPACKQuantizer().set_global(config))
        with torch.no_grad():
            small = torch.export.export(convert_pt2e(prepared), x)
        shares[bits] = [len(to_edge(small).to_executorch().buffer) / floats]
        edge = to_edge_transform_and_lower(small, partitioner=[XnnpackPartitioner()])
        shares[bits].append(len(edge.to_executorch().buffer) / floats)
    assert max(shares[8]) <= 0.27
    assert max(shares[4]) <= 0.17


def test_eight_bits_are_widened_as_one_row_is_multiplied() -> None:
    config = get_weight_only_quantization_config(8)
    layer, x = nn.Linear(64, 32).eval(), torch.randn(1, 64)
    graph = prepare_pt2e(
        torch.export.export(layer, (x,)).module(), XNNPACKQuantizer().set_global(config)
    )
    model = convert_pt2e(graph)
    with torch.no_grad():
        program = to_edge(torch.export.export(model, (x,))).to_executorch()
        expected = model(x)
    nodes = program.exported_program().graph.nodes
    assert any("mixed_linear" in str(node.target) for node in nodes)
    method = Runtime.get().load_program(program.buffer).load_method("forward")
    torch.testing.assert_close(method.execute([x])[0], expected)


@pytest.mark.parametrize("name", ["int8 times int8", "int8 times int8 for VNNI"])
def test_own_operators_multiply_rows_of_integers_by_integers(name: str) -> None:
    model, traced = made(name)
    program = to_edge(traced).to_executorch(ExecutorchBackendConfig(own_operators=True))
    called = [str(node.target) for node in program.exported_program().graph.nodes]
    assert sum("qlinear_float" in name for name in called) == 2
    assert difference(program, model) < 0.012


def test_a_product_with_groups_of_weights_alone_says_why_it_is_left() -> None:
    edge = to_edge_transform_and_lower(
        made("4 bits in groups alone")[1], partitioner=[XnnpackPartitioner()]
    )
    reasons = [str(n.meta) for n in edge.exported_program().graph.nodes if "addmm" in n.name]
    assert reasons and all("groups of 32, which XNNPACK multiplies in 4 bits" in r for r in reasons)


# ---- rounding of weights


def test_scales_are_numbers_of_bfloat16_and_zeros_stay_zeros() -> None:
    weight = torch.randn(6, 64, generator=torch.Generator().manual_seed(0))
    weight[2] = 0
    integers, scales = round_to_nearest(weight, 32, -8, 7)
    assert torch.equal(scales, to_bfloat16(scales)) and bool((scales > 0).all())
    assert not integers[2].any() and integers.dtype is torch.int8
    wide = integers.reshape(6, 2, 32) * scales.unsqueeze(-1)
    scale = weight.reshape(6, 2, 32).abs().amax(-1, keepdim=True).clamp(min=1) / 7.5
    by_range = (weight.reshape(6, 2, 32) / scale).round().clamp(-8, 7) * scale
    lost = [(w - weight.reshape(6, 2, 32)).square().sum() for w in (wide, by_range)]
    assert lost[0] < lost[1]


def test_rounding_by_data_keeps_the_products_of_like_data() -> None:
    torch.manual_seed(0)
    mix = torch.randn(64, 64) * torch.logspace(0, -2, 64)
    seen, unseen = torch.randn(2, 2000, 64) @ mix
    weight = torch.randn(32, 64)
    found = {}
    for name, (integers, scales) in {
        "weights": round_to_nearest(weight, 32, -8, 7),
        "data": round_gptq(weight, seen.t() @ seen, 32, -8, 7),
    }.items():
        wide = (integers.reshape(32, 2, 32) * scales.unsqueeze(-1)).reshape(32, 64)
        found[name] = float((unseen @ (wide - weight).t()).square().sum())
    assert found["data"] < 0.7 * found["weights"]


def test_sweeps_over_integers_and_scales_lose_less(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    torch.manual_seed(0)
    seen = torch.randn(2000, 128) @ (torch.randn(128, 128) * torch.logspace(0, -1, 128))
    moments, weight = seen.t() @ seen, torch.randn(64, 128)
    damped = moments + gptq.DAMPING * moments.diagonal().mean() * torch.eye(128)
    for size in (32, 128):
        lost = []
        for sweeps in (0, SWEEPS):
            monkeypatch.setattr(gptq, "SWEEPS", sweeps)
            integers, scales = round_gptq(weight, moments, size, -8, 7)
            wide = integers.reshape(64, -1, size) * scales.unsqueeze(-1)
            error = wide.reshape(64, 128) - weight
            lost.append(float(((error @ damped) * error).sum()))
            assert torch.equal(scales, to_bfloat16(scales)) and bool((scales > 0).all())
            assert integers.min() >= -8 and integers.max() <= 7
        assert lost[1] < 0.98 * lost[0]


def test_columns_that_data_never_shows_are_rounded_as_well() -> None:
    moments = torch.zeros(64, 64)
    moments[:32, :32] = torch.eye(32)
    weight = torch.randn(8, 64, generator=torch.Generator().manual_seed(0))
    weight[3] = 0
    for given in (moments, torch.zeros(64, 64)):
        integers, scales = round_gptq(weight, given, 32, -8, 7)
        wide = (integers.reshape(8, 2, 32) * scales.unsqueeze(-1)).reshape(8, 64)
        assert float((wide - weight).abs().max()) < 0.5 and not integers[3].any()


def test_scales_may_be_chosen_by_what_matters() -> None:
    values = torch.randn(1, 32, generator=torch.Generator().manual_seed(0))
    importance = torch.where(values.abs() < 1, 100.0, 1.0)

    def lost(scale: torch.Tensor) -> float:
        error = (values / scale).round().clamp(-8, 7) * scale - values
        return float((error.square() * importance).sum())

    assert lost(best_scales(values, -8, 7, importance)) < lost(best_scales(values, -8, 7))


def test_rounding_by_data_is_nearer_and_needs_data() -> None:
    config = get_groupwise_quantization_config(fit="data")
    with torch.no_grad():
        wanted = Words()(INDICES)
        lost = [
            float((model(INDICES) - wanted).square().sum())
            for model in (by_pt2e(get_groupwise_quantization_config()), by_pt2e(config, samples=20))
        ]
    assert lost[1] < lost[0]
    with pytest.raises(CalibrationError, match=r"saw no data: embedding -> linear \(up\)"):
        by_pt2e(config)


# ---- errors


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"bits": 3}, "bits: expected 4 or 8 with int8 activations, got 3"),
        ({"bits": 2}, "bits: expected 4 or 8 with int8 activations, got 2"),
        ({"bits": 5, "is_dynamic": False}, "bits: expected 2 or 4 or 8 for weights alone, got 5"),
        ({"group_size": 48}, "group_size: expected a multiple of 32.* got 48"),
        ({"group_size": 0}, "group_size: expected a multiple of 32.* got 0"),
        ({"bits": 8}, "group_size: expected None.* got 32"),
        ({"fit": "best"}, "fit: expected 'weights' or 'data', got 'best'"),
    ],
)
def test_settings_that_nothing_computes_are_refused(settings: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        get_groupwise_quantization_config(**settings)


def prepared(config: Any, model: nn.Module) -> Any:
    graph = torch.export.export(model.eval(), (INDICES,)).module()
    return prepare_pt2e(graph, XNNPACKQuantizer().set_global(config))


def test_groups_that_do_not_divide_a_row_are_refused_by_the_layers_name() -> None:
    with pytest.raises(
        ValueError, match=r"up: expected weights whose columns groups of 128 .*, got 64"
    ):
        prepared(get_groupwise_quantization_config(4, 128), Words())


def test_weights_that_are_not_finite_are_refused_by_name() -> None:
    model = Words()
    model.down.weight.data[3, 5] = float("nan")
    with pytest.raises(CalibrationError, match=r"saw NaN or infinity: down\.weight"):
        convert_pt2e(prepared(get_groupwise_quantization_config(), model))


def test_a_table_takes_weights_alone() -> None:
    static = get_symmetric_quantization_config()
    with pytest.raises(ValueError, match="get_weight_only_quantization_config"):
        XNNPACKQuantizer().set_module_type(nn.Embedding, static)
    with pytest.raises(ValueError, match="get_weight_only_quantization_config"):
        XNNPACKQuantizer().set_operator_type(torch.ops.aten.embedding, static)


def test_a_table_that_is_left_stays_float() -> None:
    quantizer = XNNPACKQuantizer().set_global(get_weight_only_quantization_config(8))
    quantizer.set_module_name("table", None)
    graph = torch.export.export(Words().eval(), (INDICES,)).module()
    converted = convert_pt2e(prepare_pt2e(graph, quantizer))
    embedding = next(n for n in converted.graph.nodes if "embedding" in n.name)
    assert embedding.args[0].op == "get_attr"
    assert sum("dequantize" in str(n.target) for n in converted.graph.nodes) == 2


def test_composed_quantizers_are_watched_as_one() -> None:
    table = XNNPACKQuantizer().set_module_type(
        nn.Embedding, get_weight_only_quantization_config(4, 32)
    )
    static = XNNPACKQuantizer().set_global(get_symmetric_quantization_config())
    graph = torch.export.export(Words().eval(), (INDICES,)).module()
    unseen = prepare_pt2e(graph, ComposableQuantizer([table, static]))
    with pytest.raises(CalibrationError, match=r"saw no data: .*up\.weight"):
        convert_pt2e(unseen)
    graph = torch.export.export(Words().eval(), (INDICES,)).module()
    with pytest.raises(CalibrationError, match="saw no data: WatchedRange"):
        convert_pt2e(prepare_pt2e(graph, TorchaoComposed([table, static])))


def test_sensitive_layers_may_have_more_bits_instead_of_floats() -> None:
    four, eight = (get_groupwise_quantization_config(bits, None) for bits in (4, 8))
    done = quantize(
        Words().eval(), indices(4), max_drop=0.003, config=four, instead=eight, progress=False
    )
    assert 0 < len(done.left_float) < 3 and "1 of 2 layers quantized by config" in str(done)
    limits = [n.args[5:7] for n in done.module.graph.nodes if "dequantize_affine" in str(n.target)]
    assert sorted(limits) == [(-128, 127), (-8, 7)]
