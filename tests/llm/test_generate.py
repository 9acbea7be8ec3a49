"""et_llm_generate: a callback that fails ends the text, and leaves the context of the text."""

from __future__ import annotations

import pytest
from support.llm_driver import generate
from support.trained_tokenizers import of_300_words

from executorch_py.extension.llm.tokenizer import Tokenizer

PREPARED = Tokenizer.from_bytes(of_300_words()).prepared
ACCESS_FAILED = 0x22


def test_the_text_of_a_callback_that_never_fails_has_all_tokens() -> None:
    status, pieces, context = generate(PREPARED, 0)
    assert (status, context) == (0, 60) and pieces > 30


@pytest.mark.parametrize("stop_at", [1, 2, 9, 20, 31])
def test_a_failure_of_the_callback_is_returned_and_ends_the_text(stop_at: int) -> None:
    status, pieces, context = generate(PREPARED, stop_at)
    assert (status, pieces) == (ACCESS_FAILED, stop_at)
    # The prompt and all tokens but the last; no token of a draft that was not reached.
    assert context == stop_at
