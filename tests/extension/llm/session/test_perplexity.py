"""Logits after each token, and perplexity beside torch's cross entropy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from support.decoder_files import CAPACITY, PREFILL, file_with_start, file_without_caches
from support.decoders import build
from support.tolerance import F32_LAYERS, assert_near

from executorch_py.errors import InvalidArgument
from executorch_py.extension.llm.export.hf_decoder import Decoder, export_decoder
from executorch_py.extension.llm.export.metadata import constant_methods
from executorch_py.extension.llm.session import Session, perplexity

IDS = np.random.default_rng(2).integers(3, 300, 90)


def model() -> torch.nn.Module:
    """The same weights in each call."""
    model = build("Llama", {})
    with torch.no_grad():
        model.lm_head.weight.mul_(20)  # logits that differ
    return model


@pytest.fixture(scope="module", params=[False, True], ids=["last logits", "all logits"])
def session(request: pytest.FixtureRequest) -> Session:
    decoder = Decoder(model(), CAPACITY, prefill=PREFILL, all_logits=request.param)
    return Session(export_decoder(decoder, constant_methods(decoder)).buffer)


def test_logits_has_a_row_for_each_token_with_the_bits_of_single_steps(session: Session) -> None:
    session.rewind(0)
    session.generate(IDS[:3], max_new_tokens=1)  # its token is read by the next call
    rows = session.logits(IDS[3:25])
    assert rows.shape == (22, 300) and rows.dtype == np.float32 and session.position == 26
    tokens = session.tokens
    session.rewind(0)
    singles = [session.step(token) for token in tokens]
    assert np.array_equal(rows, singles[4:])
    assert session.logits([]).shape == (0, 300)


@pytest.mark.parametrize("kind", ["all logits", "last logits", "one token", "no caches"])
def test_logits_of_other_conventions_are_those_of_longer_and_longer_prompts(
    tmp_path: Path, kind: str
) -> None:
    path = tmp_path / "decoder.pte"
    if kind == "no caches":
        file_without_caches(path)
    else:
        file_with_start(path, all_logits=kind == "all logits", one_token=kind == "one token")
    session = Session(path)
    ids = [5, 17, 42, 3, 9]
    rows = session.logits(ids)
    for n in range(1, 6):
        session.rewind(0)
        assert_near(rows[n - 1], session.prefill(ids[:n]), F32_LAYERS)


@pytest.mark.parametrize(("window", "context", "first"), [(32, None, None), (20, 1, 1), (48, 5, 2)])
def test_perplexity_is_the_exponential_of_torchs_cross_entropy(
    session: Session, window: int, context: int | None, first: int | None
) -> None:
    found = perplexity(session, IDS, window=window, context=context, first=first)
    start, losses, eager = window // 2 if context is None else context, [], model()
    for piece in torch.tensor(IDS)[: len(IDS) // window * window].split(window):
        given = piece.clone()
        if first is not None:
            given[0] = first
        with torch.no_grad():
            logits = eager(given[None]).logits[0, start - 1 : -1]
        losses.append(torch.nn.functional.cross_entropy(logits, piece[start:], reduction="none"))
    every = torch.cat(losses).double()
    assert found.n_tokens == len(every) and session.position == 0
    assert_near(np.float32(found.value), np.float32(every.mean().exp()), F32_LAYERS)
    assert str(found).endswith(f" over {len(every)} tokens")


@pytest.mark.parametrize(
    ("n", "options", "message"),
    [
        (90, {"window": 49}, "window: expected 2 to 48, the context's length, got 49"),
        (90, {"window": 16, "context": 16}, "context: expected 1 to 15, got 16"),
        (40, {"window": 48}, "tokens: expected 48 or more, one window, got 40"),
    ],
)
def test_impossible_windows_are_refused(
    session: Session, n: int, options: dict[str, int], message: str
) -> None:
    with pytest.raises(InvalidArgument, match=message):
        perplexity(session, IDS[:n], **options)
