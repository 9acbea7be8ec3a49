"""The loop of the C library over a decoder written here: drafts, stop strings, failures.

The decoder's logits are a function of its context, so that a token that was read at a wrong
position, or not taken back, changes all that follow.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.trained_tokenizers import of_300_words

from executorch_py import _C
from executorch_py.errors import InvalidArgument, InvalidState
from executorch_py.extension.llm.chat.special_tokens import is_special
from executorch_py.extension.llm.sampler import Sampler, SamplingOptions
from executorch_py.extension.llm.tokenizer import Tokenizer

TOKENIZER = Tokenizer.from_bytes(of_300_words())
WORDS = TOKENIZER.vocab_size
REASONS = ("", "eos", "stop", "length", "stopped")
ALL = 1000


class Model:
    """Logits that depend on the last tokens, and on the whole context a little."""

    def __init__(self, *, memory: int = 2, rows: int = 16, capacity: int = 200) -> None:
        self.capacity, self.longest, self.most_rows = capacity, 32, rows
        self.vocabulary = WORDS
        self.context: list[int] = []
        self.reads: list[int] = []
        self.memory = memory

    def keep(self, ids: list[int], /) -> int:
        same = 0
        while same < min(len(self.context), len(ids) - 1) and self.context[same] == ids[same]:
            same += 1
        del self.context[same:]
        return same

    def read(self, ids: list[int], rows: int, /) -> np.ndarray:
        assert 0 < len(ids) <= self.longest and len(self.context) + len(ids) <= self.capacity
        assert rows == 1 or rows == len(ids) <= self.most_rows
        self.reads.append(len(ids))
        found = []
        for token in ids:
            self.context.append(token)
            found.append(self.logits())
        return np.array(found[-rows:], np.float32)

    def logits(self) -> np.ndarray:
        draw = np.random.default_rng(self.context[-self.memory :])
        return draw.standard_normal(WORDS).astype(np.float32) * 4

    def rewind(self, position: int, /) -> None:
        assert 0 < position <= len(self.context)
        del self.context[position:]


class Said(Model):
    """A model that says given tokens."""

    def __init__(self, tokens: list[int], **sizes: int) -> None:
        super().__init__(**sizes)
        self.said, self.n_prompt = tokens, 1

    def logits(self) -> np.ndarray:
        found = np.zeros(WORDS, np.float32)
        found[self.said[(len(self.context) - self.n_prompt) % len(self.said)]] = 9
        return found


def generation(
    model: Any,
    prompt: Any,
    *,
    limit: int = -1,
    sampling: SamplingOptions | None = None,
    eos: tuple[int, ...] = (),
    stop: tuple[str, ...] = (),
    draft: Any = None,
    max_draft: int = 8,
) -> _C.Generation:
    sampler = Sampler(WORDS, sampling or SamplingOptions(temperature=0.0))
    return _C.new_generation(
        model, TOKENIZER.opened, sampler.opened, prompt, limit, eos, stop, draft, max_draft
    )


def whole(text: _C.Generation) -> tuple[str, list[int], str]:
    said, tokens = "", []
    while (piece := text.next()) is not None:
        said += piece[0]
        tokens += [piece[1]] if piece[1] >= 0 else []
        reason = REASONS[piece[2]]
    return said, tokens, reason


# ---- drafts


@pytest.mark.parametrize("seed", range(20))
def test_a_text_is_the_same_with_drafts_of_a_lookup(seed: int) -> None:
    sampling = SamplingOptions(temperature=0.5, seed=seed, repetition_penalty=1.1)
    prompt = random.Random(seed).choices(range(WORDS), k=20) * 2
    expected = whole(generation(Model(), prompt, sampling=sampling))
    model = Model()
    text = generation(model, prompt, sampling=sampling, draft=(1, 4), max_draft=7)
    assert whole(text) == expected
    # Tokens of wrong drafts are taken back: the context is that of the text.
    assert [*prompt, *expected[1]][: len(model.context)] == model.context
    assert len(model.context) >= len(prompt) + len(expected[1]) - 1


@pytest.mark.parametrize("seed", range(10))
def test_a_text_is_the_same_with_drafts_of_a_model(seed: int) -> None:
    sampling = SamplingOptions(temperature=0.8, seed=seed, top_k=20)
    prompt = [3, 4, 5]
    expected = whole(generation(Model(memory=3), prompt, sampling=sampling, limit=60))
    for small in (Model(memory=3), Model(memory=2), Model(capacity=30)):
        model = Model(memory=3)
        text = generation(model, prompt, sampling=sampling, limit=60, draft=small)
        assert whole(text) == expected


def test_right_drafts_save_reads() -> None:
    cycle = [5, 6, 7, 8, 9] * 40
    model = Said(cycle)
    text = generation(model, [4], limit=150, draft=(1, 8), max_draft=8)
    assert whole(text)[1] == cycle[:150]
    stats = text.stats()
    assert stats["n_accepted"] > 0 and stats["n_reads"] + stats["n_accepted"] == 149


def test_a_hook_sees_each_token_once_in_order_with_drafts() -> None:
    seen: list[int] = []
    sampling = SamplingOptions(
        temperature=0.0, hook=lambda logits: seen.append(int(logits.argmax()))
    )
    cycle = [5, 6, 7, 8] * 20
    text = generation(Said(cycle), [4], limit=40, sampling=sampling, draft=(1, 8))
    assert whole(text)[1] == cycle[:40] == seen


def test_a_stop_within_a_draft_leaves_the_context_of_the_text() -> None:
    cycle = [5, 6, 7, 8] * 20
    model = Said(cycle)
    text = generation(model, [4], draft=(1, 8))
    taken = [text.next() for _ in range(30)]
    text.stop()
    last = text.next()
    assert last is not None and REASONS[last[2]] == "stopped"
    assert [4, *cycle][: len(model.context)] == model.context
    assert len(model.context) - 1 in (len(taken), len(taken) + 1)


# ---- ends of a text


def test_stop_strings_end_a_text_however_tokens_cut_them() -> None:
    letters = [TOKENIZER.encode(x, add_special_tokens=False)[0] for x in "ab"]
    draw = random.Random(5)
    for _ in range(300):
        tokens = draw.choices(letters, k=30)
        text = TOKENIZER.decode(tokens)
        stops = tuple("".join(draw.choices("ab", k=draw.randint(3, 6))) for _ in range(2))
        said, _, reason = whole(generation(Said(tokens), [9], limit=30, stop=stops))
        places = [text.find(stop) for stop in stops if stop in text]
        assert said == (text[: min(places)] if places else text)
        assert reason == ("stop" if places else "length")


def test_text_that_cannot_become_a_stop_string_is_not_held_back() -> None:
    tokens = [TOKENIZER.encode(x, add_special_tokens=False)[0] for x in "aba"]
    text = generation(Said(tokens), [9], limit=3, stop=("abb", ""))
    assert [piece[0] for piece in iter(text.next, None)] == ["", "", "aba"]


def test_an_eos_token_and_a_limit_of_no_tokens_end_a_text_without_a_piece() -> None:
    assert whole(generation(Said([5, 6]), [4], eos=(6,)))[1:] == ([5], "eos")
    assert whole(generation(Said([5]), [4], limit=0)) == ("", [], "length")
    assert whole(generation(Said([5]), [4] * 200)) == ("", [], "length")


def test_special_tokens_add_no_text() -> None:
    special = next(i for i in range(WORDS) if is_special(TOKENIZER, i))
    tokens = [*TOKENIZER.encode("one two", add_special_tokens=False), special, 20, 21]
    said, taken, _ = whole(generation(Said(tokens), [4], limit=len(tokens)))
    assert taken == tokens and said == TOKENIZER.decode(tokens)


def test_a_stop_before_the_first_piece_reads_at_most_a_block() -> None:
    model = Model()
    text = generation(model, [4] * 100)
    text.stop()
    assert whole(text)[1:] == ([], "stopped")
    assert model.reads == []


def test_a_stop_from_another_thread_ends_a_prompt_within_a_block() -> None:
    class Slow(Model):
        def read(self, ids: list[int], rows: int, /) -> np.ndarray:
            found = super().read(ids, rows)
            thread = threading.Thread(target=text.stop)
            thread.start()
            thread.join()
            return found

    model = Slow()
    text = generation(model, [4] * 100)
    assert whole(text)[1:] == ([], "stopped")
    assert model.reads == [32]


# ---- failures


def raises(error: Exception) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        raise error

    return call


@pytest.mark.parametrize("name", ["keep", "read", "rewind"])
def test_an_exception_of_the_decoder_comes_through_and_ends_the_text(name: str) -> None:
    model = Said([5, 6, 5, 6, 5, 6, 7, 7, 8])
    text = generation(model, [4], draft=(1, 8))
    if name == "rewind":
        text.next()
    setattr(model, name, raises(KeyError("no more")))
    with pytest.raises(KeyError, match="no more"):
        whole(text)
    assert text.next() is None


def test_a_text_within_its_own_callback_is_refused() -> None:
    class Again(Model):
        def read(self, ids: list[int], rows: int, /) -> np.ndarray:
            text.next()
            raise AssertionError

    text = generation(Again(), [4])
    with pytest.raises(InvalidState, match="one call of a text at a time"):
        text.next()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"prompt": []}, "prompt: expected 1 token or more, got none"),
        ({"prompt": [0] * 201}, "prompt: expected at most 200 tokens, .* got 201"),
        ({"prompt": [1, WORDS]}, rf"prompt\[1\]: expected an id below {WORDS}, got {WORDS}"),
        ({"prompt": ["a"]}, r"prompt\[0\]: expected the id of a token, got 'a'"),
        ({"prompt": [-1]}, r"prompt\[0\]: expected the id of a token, got -1"),
        ({"stop": ("a\0b",)}, r"stop\[0\]: expected a text without NUL"),
        ({"stop": (3,)}, r"stop\[0\]: expected a text without NUL, got 3"),
        ({"max_draft": 33}, "max_draft: expected at most 32 tokens, got 33"),
    ],
)
def test_wrong_arguments_are_refused_in_words(change: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidArgument, match=words):
        generation(**({"model": Model(), "prompt": [4]} | change))


def test_ids_may_be_integers_of_numpy() -> None:
    prompt = np.array([4, 5, 6], np.int64)
    assert whole(generation(Model(), prompt, limit=5)) == whole(
        generation(Model(), [4, 5, 6], limit=5)
    )


def test_logits_of_another_shape_are_refused() -> None:
    model = Model()
    model.read = lambda ids, rows: np.zeros((rows, 7), np.float32)  # type: ignore[method-assign]
    with pytest.raises(TypeError, match="read: expected an array of f32"):
        generation(model, [4]).next()
