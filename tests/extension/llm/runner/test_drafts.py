"""Drafts with programs: the method that checks them, and texts that are the same with them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.decoder_files import CAPACITY, OWN, PREFILL, own_file
from support.trained_tokenizers import of_300_words

from executorch_py.errors import InvalidArgument
from executorch_py.extension.llm.runner import TextRunner
from executorch_py.extension.llm.sampler import SamplingOptions
from executorch_py.extension.llm.session import Session
from executorch_py.extension.llm.tokenizer import Tokenizer

VERIFY = 6
TOKENIZER = Tokenizer.from_bytes(of_300_words())
PROMPT = [3, 4, 5, 6, 3, 4, 5]


@pytest.fixture(scope="module", params=OWN)
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return own_file(tmp_path_factory.mktemp("drafts"), request.param, verify=VERIFY)


def test_a_program_with_verify_tells_how_many_tokens_it_checks(path: Path) -> None:
    facts = Session(path).interface
    assert (facts.verify_method, facts.most_rows) == ("verify", VERIFY)
    assert facts.longest == PREFILL and not facts.all_logits


def test_logits_of_several_tokens_have_the_bits_of_single_steps(path: Path) -> None:
    together, alone = Session(path), Session(path)
    for tokens in ([5], [7, 8, 9, 10, 11, 12, 13, 14], [2] * 17, [3, 1]):
        expected = np.stack([alone.step(token) for token in tokens])
        np.testing.assert_array_equal(together.logits(tokens), expected)


def test_tokens_that_were_taken_back_leave_no_trace(path: Path) -> None:
    session, fresh = Session(path), Session(path)
    for at in range(0, 30, 3):
        session.logits([9, 8, 7, 6, 5])
        session.rewind(at)
        tokens = [at + 1, at + 2, at + 3]
        np.testing.assert_array_equal(session.logits(tokens), fresh.logits(tokens))


@pytest.mark.parametrize("temperature", [0.0, 0.7])
def test_a_text_is_the_same_with_drafts(path: Path, temperature: float) -> None:
    sampling = SamplingOptions(temperature=temperature, seed=4)
    runner = TextRunner(path, TOKENIZER, eos_ids=())
    without, with_lookup, with_itself = (
        runner.generate(PROMPT, sampling=sampling, draft=draft, max_draft=4)
        for draft in (None, "lookup", Session(runner.session.program))
    )
    assert without.stats.num_draft_tokens == 0
    assert with_lookup.tokens == with_itself.tokens == without.tokens
    assert with_lookup.text == with_itself.text == without.text
    assert len(without.tokens) == CAPACITY - len(PROMPT)
    # A model that is its own draft is always right.
    stats = with_itself.stats
    assert stats.num_draft_tokens == stats.num_accepted_tokens > 0


@pytest.mark.parametrize("draft", [None, "lookup", "itself"])
def test_a_hook_finds_all_tokens_before_it_in_the_stream(path: Path, draft: str | None) -> None:
    runner = TextRunner(path, TOKENIZER, eos_ids=())
    given = Session(runner.session.program) if draft == "itself" else draft
    seen: list[list[int]] = []
    sampling = SamplingOptions(temperature=0.0, hook=lambda _: seen.append([*stream.tokens]))
    stream = runner.stream(PROMPT, max_new_tokens=20, sampling=sampling, draft=given, max_draft=4)
    for _ in stream:
        pass
    assert seen == [stream.tokens[:n] for n in range(20)]
    assert (stream.stats.num_accepted_tokens > 0) >= (draft == "itself")


def test_drafts_need_a_program_that_can_check_them(tmp_path: Path) -> None:
    runner = TextRunner(own_file(tmp_path, "Llama"), TOKENIZER, eos_ids=())
    with pytest.raises(InvalidArgument, match="export it with verify=16"):
        runner.stream(PROMPT, draft="lookup")
    with pytest.raises(InvalidArgument, match="draft: expected 'auto', 'lookup', a Session or"):
        runner.stream(PROMPT, draft="guess")
    assert runner.generate(PROMPT, max_new_tokens=5).stats.num_draft_tokens == 0
