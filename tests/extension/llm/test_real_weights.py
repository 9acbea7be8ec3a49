"""A model with real weights: perplexity of its programs beside transformers in f32.

The weights are downloaded once, into build/real-models; without a network the test is skipped.
tests/bench/bench_perplexity.py measures more models, caches and tokens.
"""

from __future__ import annotations

import math
from pathlib import Path
from pydoc_data.topics import topics

import numpy as np
import pytest
import torch
from support.real_models import Unavailable, gguf_file

from executorch_py.extension.llm.export import export_folder
from executorch_py.extension.llm.export.hf_model import cast_parameters, load_model
from executorch_py.extension.llm.session import Session, perplexity

WINDOW, N_WINDOWS = 256, 16


@pytest.fixture(scope="module")
def path() -> Path:
    try:
        return gguf_file("SmolLM2-135M-Instruct-Q4_1")
    except Unavailable as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def ids(path: Path) -> list[int]:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    found: list[int] = tokenizer(topics["compound"])["input_ids"]
    return found[: WINDOW * N_WINDOWS]


@pytest.fixture(scope="module")
def eager(path: Path, ids: list[int]) -> float:
    """Perplexity of transformers; only the weights are read by this project."""
    model = load_model(path).model
    cast_parameters(model)
    model.set_attn_implementation("sdpa")
    half, losses = WINDOW // 2, []
    for window in torch.tensor(ids).split(WINDOW):
        with torch.no_grad():
            logits = model(window[None]).logits[0, half - 1 : -1].double()
        losses.append(torch.nn.functional.cross_entropy(logits, window[half:]).item())
    return math.exp(float(np.mean(losses)))


# Share of eager's perplexity that a program may differ by, and in which direction.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "least", "most"),
    [
        ({"group": None}, 0.9999, 1.0001),
        ({"cache": "f16"}, 0.97, 1.03),
        ({"cache": "i8"}, 0.97, 1.03),
    ],
    ids=["f32", "the file's codes", "the file's codes, int8 cache"],
)
def test_perplexity_is_that_of_transformers(
    path: Path,
    ids: list[int],
    eager: float,
    tmp_path: Path,
    options: dict[str, str | None],
    least: float,
    most: float,
) -> None:
    file = tmp_path / "decoder.pte"
    program = export_folder(path, capacity=WINDOW, prefill=64, all_logits=True, **options)
    program.save(file)
    with Session(file) as session:
        found = perplexity(session, ids, window=WINDOW)
    assert found.n_tokens == WINDOW // 2 * N_WINDOWS
    assert least <= found.value / eager <= most
