"""Perplexity of a trained model's programs over 20,160 bytes, beside eager torch."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from support.byte_model import CONTEXT, WINDOW, eager_perplexity, texts, train
from torchao.quantization import Int8DynamicActivationIntxWeightConfig, quantize_
from torchao.quantization.granularity import PerGroup

from executorch_py.extension.llm.export import export_folder
from executorch_py.extension.llm.export.hf_decoder import Decoder, export_decoder
from executorch_py.extension.llm.export.metadata import constant_methods
from executorch_py.extension.llm.session import Session, perplexity

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def model() -> Any:
    return train()


@pytest.fixture(scope="module")
def eager(model: Any) -> float:
    return eager_perplexity(model)


@pytest.fixture(scope="module")
def integers(model: Any) -> Any:
    """The model with rows of int8 and weights of 4 bits in groups of 32, by torchao."""
    made = copy.deepcopy(model)
    config = Int8DynamicActivationIntxWeightConfig(
        weight_dtype=torch.int4, weight_granularity=PerGroup(32)
    )
    quantize_(made, config)
    return made


@pytest.fixture(scope="module")
def eager_integers(integers: Any) -> float:
    return eager_perplexity(integers)


@pytest.fixture(scope="module")
def program_of_integers(integers: Any) -> float:
    return of_decoder(integers, "f32")


def of_program(source: Any) -> float:
    with Session(source) as session:
        ids = texts()[1].flatten().numpy()
        found = perplexity(session, ids, window=WINDOW, context=CONTEXT)
    assert found.n_tokens >= 20_000
    return found.value


def of_decoder(model: Any, cache: str) -> float:
    decoder = Decoder(model, WINDOW, prefill=WINDOW // 2, cache=cache, all_logits=True)
    return of_program(export_decoder(decoder, constant_methods(decoder)).buffer)


def test_the_model_has_learned(eager: float) -> None:
    assert 3 < eager < 16  # 256 without training


def test_a_program_in_f32_has_eagers_perplexity(model: Any, eager: float) -> None:
    assert abs(of_decoder(model, "f32") / eager - 1) < 1e-4


def test_caches_of_few_bits_cost_half_a_percent_at_most(model: Any, eager: float) -> None:
    assert of_decoder(model, "f16") < 1.0005 * eager
    assert of_decoder(model, "i8") < 1.005 * eager


def test_weights_by_torchao_have_eager_torchaos_perplexity(
    program_of_integers: float, eager_integers: float
) -> None:
    assert abs(program_of_integers / eager_integers - 1) < 0.005


def test_rows_of_int8_cost_three_percent_at_most(integers: Any, program_of_integers: float) -> None:
    floats = copy.deepcopy(integers)
    for layer in floats.modules():
        if isinstance(layer, torch.nn.Linear):
            layer.weight = torch.nn.Parameter(layer.weight.dequantize())
    assert program_of_integers < 1.03 * eager_perplexity(floats)


def test_codes_made_at_export_cost_what_torchaos_cost(
    model: Any, eager_integers: float, tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    model.save_pretrained(folder)
    program = export_folder(folder, capacity=WINDOW, prefill=128, cache="f32", all_logits=True)
    assert of_program(program.buffer) < 1.01 * eager_integers
