"""qlinear: logits of eager torch with the weights of each mode, and the operators of the mode."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from support.decoders import build
from support.tolerance import CODE_OF_A_ROW, F32_LAYERS, Tolerance, assert_near
from support.upstream_peer import Upstream
from torchao.quantization import Int8DynamicActivationIntxWeightConfig, quantize_
from torchao.quantization.granularity import PerAxis, PerGroup

from executorch_py.extension.llm.export.standard_quantized import (
    GroupedLinear,
    WeightKind,
    quantize_rows,
)
from executorch_py.optimum import ExecuTorchModelForCausalLM

OWN, UPSTREAM = "executorch_py", "executorch-1.5"
IDS, LENGTH, GROUP = torch.tensor([[5, 17, 42, 3, 9]]), 16, 32
# 8 linear layers, one of them with 90 inputs, which no group of 32 divides.
N_LINEAR, N_ODD = 8, 1
ODD = {"num_hidden_layers": 1, "intermediate_size": 90}
# Operators of linear layers in the program of each target, in any form that the lowering chooses.
FOUR_BITS = "quantized_decomposed::embedding_4bit.dtype_out"
EIGHT_BITS = (
    "quantized_decomposed::embedding_byte.dtype_out",
    "quantized_decomposed::mixed_linear.out",
)
DYNAMIC = {  # and how many layers one of them is
    "executorch_py::qlinear_groups.out": 1,
    "executorch_py::gated_qlinear_groups.out": 2,
    "executorch_py::joint_qlinear_groups.out": 3,
}
MODES = ["4w", "8w", "8da4w,8da8w", "4w,8w", "8w,8da4w"]
ROWS = ["4w", "8w", "8da4w", "8da4w,8w"]


def fresh(more: dict[str, Any]) -> Any:
    """A small random model with biases, whose logits are of the size of 1."""
    model = build("Qwen2", {"eos_token_id": 299, "initializer_range": 0.1, **ODD, **more})
    torch.manual_seed(1)
    for layer in model.modules():
        if isinstance(layer, torch.nn.Linear) and layer.bias is not None:
            torch.nn.init.normal_(layer.bias, std=0.3)
    return model


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("modes")
    fresh({}).save_pretrained(path)
    return path


@cache
def exported(folder: Path, target: str = OWN, **options: Any) -> ExecuTorchModelForCausalLM:
    fused = {"use_custom_kv_cache": True} if target == UPSTREAM else {}
    return ExecuTorchModelForCausalLM.from_pretrained(
        folder, export=True, max_seq_len=LENGTH, target=target, **fused, **options
    )


def kind_of(name: str, group: int) -> WeightKind:
    four, dynamic = name.endswith("4w"), name.startswith("8da")
    return WeightKind(4 if four else 8, group, search=four and not dynamic)


def dequantized(weight: torch.Tensor, kind: WeightKind) -> torch.Tensor:
    codes, scales = quantize_rows(weight, kind)
    assert int(codes.max()) < kind.limit and len(codes.unique()) > 2 ** (kind.bits - 1)
    return (codes.unflatten(1, (scales.shape[1], -1)) * scales.unsqueeze(-1)).flatten(1)


def with_torchao(layer: torch.nn.Linear, kind: WeightKind) -> torch.nn.Linear:
    """The layer with rows of activations in int8, and scales as XNNPACK's kernels read them."""
    dtype = torch.int4 if kind.bits == 4 else torch.int8
    granularity = PerGroup(kind.group) if kind.group else PerAxis(0)
    config = Int8DynamicActivationIntxWeightConfig(
        weight_dtype=dtype, weight_granularity=granularity
    )
    quantize_(layer, config)
    weight: Any = layer.weight
    if kind.group:
        weight.scale.copy_(weight.scale.to(torch.bfloat16))
    return layer


def eager(
    modes: str, target: str, group: int = GROUP, table: WeightKind | None = None, **more: Any
) -> torch.Tensor:
    """The logits [tokens, vocabulary] of eager torch with weights of these modes."""
    model = fresh(more)
    first, _, second = modes.partition(",")
    with torch.no_grad():
        for path, layer in list(model.named_modules()):
            if not isinstance(layer, torch.nn.Linear):
                continue
            divides = not group or layer.in_features % group == 0
            name = first if divides else second
            if not name:
                continue
            kind = kind_of(name, group if divides else 0)
            if not name.startswith("8da"):
                layer.weight = torch.nn.Parameter(dequantized(layer.weight, kind))
                continue
            owner, _, leaf = path.rpartition(".")
            if target == UPSTREAM:
                made: torch.nn.Module = with_torchao(layer, kind)
            else:
                made = GroupedLinear(*quantize_rows(layer.weight, kind), kind, layer.bias)
            setattr(model.get_submodule(owner), leaf, made)
        if table is not None:
            embedding = model.get_input_embeddings()
            embedding.weight = torch.nn.Parameter(dequantized(embedding.weight, table))
        logits: torch.Tensor = model(IDS).logits[0]
    return logits


def tolerance_of(modes: str) -> Tolerance:
    return CODE_OF_A_ROW if "8da" in modes else F32_LAYERS


def n_layers(found: ExecuTorchModelForCausalLM) -> Counter[str]:
    """Linear layers of a program by the kind of their weights; others are the delegate's."""
    counts = Counter(found.program.metadata("forward").operators)
    dynamic = sum(counts[name] * n for name, n in DYNAMIC.items())
    return Counter(
        {
            "4": counts[FOUR_BITS],
            "8": sum(counts[name] for name in EIGHT_BITS),
            "dynamic": dynamic,
            "float": counts["executorch_py::packed_linear.out"],
        }
    )


LAYERS: dict[str, dict[str, int]] = {
    "4w": {"4": N_LINEAR - N_ODD, "float": N_ODD},
    "8w": {"8": N_LINEAR - N_ODD, "float": N_ODD},
    "8da4w,8da8w": {"dynamic": N_LINEAR},
    "4w,8w": {"4": N_LINEAR - N_ODD, "8": N_ODD},
    "8w,8da4w": {"8": N_LINEAR - N_ODD, "dynamic": N_ODD},
}


@pytest.mark.parametrize("modes", MODES)
def test_logits_are_those_of_eager_torch_with_the_weights_of_each_mode(
    folder: Path, modes: str
) -> None:
    found, wanted = exported(folder, qlinear=modes), eager(modes, OWN)
    assert_near(found(IDS)[0], wanted[-1], tolerance_of(modes))
    for other in ("", modes.partition(",")[0] if "," in modes else ""):
        assert not torch.allclose(wanted, eager(other, OWN), *tolerance_of(modes))
    assert n_layers(found) == Counter(LAYERS[modes])


@pytest.mark.parametrize("modes", MODES)
def test_logits_for_upstream_are_those_of_eager_torch_with_the_weights_of_each_mode(
    folder: Path, modes: str
) -> None:
    found = exported(folder, qlinear=modes, target=UPSTREAM)
    assert_near(found(IDS)[0], eager(modes, UPSTREAM), tolerance_of(modes))
    kinds = LAYERS[modes]
    # Layers by row and float ones are the delegate's, as are those with dynamic activations.
    groups = {key: n for key, n in kinds.items() if key in ("4", "8") and n > N_ODD}
    assert n_layers(found) == Counter(groups)


@pytest.mark.parametrize("target", [OWN, UPSTREAM])
@pytest.mark.parametrize("modes", ROWS)
def test_a_group_size_of_0_is_a_scale_for_each_row_of_every_layer(
    folder: Path, modes: str, target: str
) -> None:
    found = exported(folder, qlinear=modes, qlinear_group_size=0, target=target)
    wanted = eager(modes, target, group=0)
    out = found(IDS)[0]
    assert_near(out, wanted if target == UPSTREAM else wanted[-1], tolerance_of(modes))
    counts = n_layers(found)
    assert counts["float"] == 0
    assert counts["dynamic"] == (N_LINEAR if target == OWN and modes.startswith("8da") else 0)


@pytest.mark.parametrize("target", [OWN, UPSTREAM])
def test_layers_whose_inputs_the_group_does_not_divide_stay_float_without_a_second_mode(
    folder: Path, target: str
) -> None:
    found = exported(folder, qlinear="8da4w", target=target)
    wanted = eager("8da4w", target)
    assert_near(found(IDS)[0], wanted if target == UPSTREAM else wanted[-1], CODE_OF_A_ROW)


@pytest.mark.parametrize("target", [OWN, UPSTREAM])
def test_a_file_with_4_bits_is_smaller_than_one_with_8(folder: Path, target: str) -> None:
    # A scale of 2 bytes for 32 weights is the same in both.
    n_weights = sum(m.weight.numel() for m in fresh({}).modules() if isinstance(m, torch.nn.Linear))
    small, large = (
        exported(folder, qlinear=modes, target=target).program._program.nbytes
        for modes in ("4w", "8w")
    )
    assert large - small > 0.4 * n_weights


def test_a_tied_table_keeps_its_own_bits_beside_weights_alone(tmp_path: Path) -> None:
    tied = {"tie_word_embeddings": True}
    fresh(tied).save_pretrained(tmp_path)
    found = exported(tmp_path, qlinear="4w", qembedding="8w")
    assert_near(found(IDS)[0], eager("4w", OWN, table=WeightKind(8, GROUP), **tied)[-1], F32_LAYERS)
    assert n_layers(found)["4"] == N_LINEAR - N_ODD
    assert "executorch_py::embedding_groups.out" in found.program.metadata("forward").operators


@pytest.mark.interop
@pytest.mark.parametrize(
    "options",
    [
        {"qlinear": "4w", "qembedding": "8w"},
        {"qlinear": "8w,4w", "recipe": "portable"},
        {"qlinear": "4w", "qlinear_group_size": 0},
    ],
    ids=["groups", "kernels", "rows"],
)
def test_upstream_computes_the_same_logits_with_weights_of_few_bits(
    folder: Path, tmp_path: Path, upstream: Upstream, options: dict[str, Any]
) -> None:
    found = exported(folder, target=UPSTREAM, **options)
    (tmp_path / "model.pte").write_bytes(found.program._program.buffer())
    torch.save([[IDS, torch.arange(IDS.shape[1])]], tmp_path / "model.inputs.pt")
    upstream.ask("run_decoder", "model", tmp_path)
    ((out,),) = torch.load(tmp_path / "model.pt")
    assert_near(out, found(IDS), F32_LAYERS)
