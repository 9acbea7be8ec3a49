"""Runners: the text of a session's tokens, stop strings, contexts that are used again."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from support.decoder_files import CAPACITY, own_file
from support.decoders import build
from support.trained_tokenizers import of_300_words, of_words, trained

from executorch_py.errors import InvalidArgument
from executorch_py.extension.llm.export import export_folder
from executorch_py.extension.llm.export.hf_decoder import Decoder, export_decoder
from executorch_py.extension.llm.export.metadata import constant_methods
from executorch_py.extension.llm.runner import (
    GenerationConfig,
    Stats,
    TextLLMRunner,
    TextRunner,
    TextStream,
)
from executorch_py.extension.llm.sampler import SamplingOptions
from executorch_py.extension.llm.session import Session
from executorch_py.extension.llm.tokenizer import Tokenizer

PROMPT = "a prompt of words"
DRAWN = SamplingOptions(temperature=1.5, seed=3)


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("runner")
    tokenizer = folder / "tokenizer.json"
    tokenizer.write_bytes(of_300_words())
    return own_file(folder, "Llama"), tokenizer


@pytest.fixture
def runner(paths: tuple[Path, Path]) -> Iterator[TextRunner]:
    yield TextRunner(paths[0], paths[1], eos_ids=())


def test_greedy_tokens_are_those_of_the_session(
    runner: TextRunner, paths: tuple[Path, Path]
) -> None:
    ids = runner.tokenizer.encode(PROMPT)
    stream = runner.stream(PROMPT, max_new_tokens=12)
    text = "".join(stream)
    assert stream.tokens == Session(paths[0]).generate(ids, max_new_tokens=12, stop=())
    assert text == stream.text == runner.tokenizer.decode(stream.tokens)
    assert stream.finish_reason == "length" and stream.stats.num_generated_tokens == 12


def test_a_seed_gives_one_text(runner: TextRunner) -> None:
    texts = [runner.generate(PROMPT, max_new_tokens=20, sampling=DRAWN).text for _ in range(2)]
    other = SamplingOptions(temperature=1.5, seed=4)
    assert texts[0] == texts[1]
    assert runner.generate(PROMPT, max_new_tokens=20, sampling=other).text != texts[0]


def test_a_stream_keeps_the_log_probabilities_that_are_asked_for(runner: TextRunner) -> None:
    options = SamplingOptions(seed=3, logprobs="model", n_best=4)
    stream = runner.generate(PROMPT, max_new_tokens=6, sampling=options)
    assert [drawn.token for drawn in stream.drawn] == stream.tokens
    assert all(drawn.logprob <= drawn.best[0][1] <= 0.0 for drawn in stream.drawn)
    assert all(len(drawn.best) == 4 for drawn in stream.drawn)
    assert stream.prompt == runner.tokenizer.encode(PROMPT)
    assert runner.generate(PROMPT, max_new_tokens=6).drawn == []


def test_a_prompt_that_begins_as_the_context_is_not_read_again(runner: TextRunner) -> None:
    first = runner.generate(PROMPT, max_new_tokens=4)
    ids = runner.tokenizer.encode(PROMPT) + first.tokens
    again = runner.generate([*ids, 9], max_new_tokens=4)
    assert first.stats.num_cached_tokens == 0
    assert again.stats.num_cached_tokens == len(ids) - 1  # the last token was drawn, not read
    fresh = TextRunner(Session(runner.session.program), runner.tokenizer, eos_ids=())
    assert again.tokens == fresh.generate([*ids, 9], max_new_tokens=4).tokens


def test_a_stop_string_across_tokens_ends_the_text_before_it(runner: TextRunner) -> None:
    whole = runner.generate(PROMPT, max_new_tokens=30, sampling=DRAWN).text
    stop = whole[7:13]
    stream = runner.generate(PROMPT, max_new_tokens=30, sampling=DRAWN, stop=[stop])
    assert stream.text == whole[: whole.index(stop)] and stream.finish_reason == "stop"


def test_an_eos_token_ends_the_text_and_is_no_part_of_it(runner: TextRunner) -> None:
    tokens = runner.generate(PROMPT, max_new_tokens=9, sampling=DRAWN).tokens
    runner.eos_ids = frozenset([tokens[5]])
    stream = runner.generate(PROMPT, max_new_tokens=9, sampling=DRAWN)
    first = tokens.index(tokens[5])
    assert stream.tokens == tokens[:first] and stream.finish_reason == "eos"
    ignored = runner.generate(PROMPT, max_new_tokens=9, sampling=DRAWN, ignore_eos=True)
    assert ignored.tokens == tokens and ignored.finish_reason == "length"


def test_another_thread_ends_the_text_within_a_token(runner: TextRunner) -> None:
    stream = runner.stream(PROMPT)
    next(stream)
    thread = threading.Thread(target=stream.stop)
    thread.start()
    thread.join()
    assert len(list(stream)) <= 2 and stream.finish_reason == "stopped"
    assert runner.generate(PROMPT, max_new_tokens=3).finish_reason == "length"


def test_pieces_can_be_awaited(runner: TextRunner) -> None:
    async def collected() -> str:
        return "".join([piece async for piece in runner.stream(PROMPT, max_new_tokens=6)])

    assert asyncio.run(collected()) == runner.generate(PROMPT, max_new_tokens=6).text


def test_a_full_context_ends_the_text(runner: TextRunner) -> None:
    stream = runner.generate(PROMPT)
    assert stream.finish_reason == "length"
    assert len(stream.tokens) + len(runner.tokenizer.encode(PROMPT)) == CAPACITY


def test_wrong_arguments_are_refused_before_a_token_is_read(runner: TextRunner) -> None:
    runner.generate(PROMPT, max_new_tokens=2)
    before = runner.session.tokens
    for call, message in [
        (lambda: runner.stream(""), "expected 1 token or more, got none"),
        (lambda: runner.stream("word " * 1000), "expected at most"),
        (lambda: runner.stream("a", max_new_tokens=-1), "expected 0 or more, got -1"),
        (lambda: runner.stream("a", sampling=SamplingOptions(temperature=-1.0)), "temperature"),
    ]:
        with pytest.raises(InvalidArgument, match=message):
            call()
    assert runner.session.tokens == before


def test_words_that_the_tokenizer_lacks_are_never_drawn(paths: tuple[Path, Path]) -> None:
    small = Tokenizer.from_bytes(of_words(270))
    options = SamplingOptions(temperature=5.0)
    stream = TextRunner(paths[0], small, eos_ids=()).generate([5], sampling=options)
    assert max(stream.tokens) < small.vocab_size <= 270


def test_a_program_carries_its_tokenizer(tmp_path: Path, paths: tuple[Path, Path]) -> None:
    folder = tmp_path / "model"
    build("Llama", {}).save_pretrained(folder)
    (folder / "tokenizer.json").write_bytes(of_300_words())
    said: list[str] = []
    program = export_folder(folder, capacity=32, prefill=8, group=None, report=said.append)
    program.save(tmp_path / "whole.pte")
    runner = TextRunner(tmp_path / "whole.pte")
    assert runner.tokenizer.prepared == Tokenizer.from_file(folder).prepared
    assert runner.generate(PROMPT, max_new_tokens=3).finish_reason is not None
    assert any(line.startswith("tokenizer: 300 tokens, ") for line in said)
    with pytest.raises(InvalidArgument, match="expected one in the program, got none"):
        TextRunner(paths[0])


def test_a_tokenizer_of_another_model_is_refused(paths: tuple[Path, Path]) -> None:
    other = Tokenizer.from_bytes(trained("BPE of bytes, GPT-4").to_str().encode())
    with pytest.raises(InvalidArgument, match=r"expected at most 300 ids, .* another model's"):
        TextRunner(paths[0], other)


def test_a_hook_that_raises_leaves_a_session_that_goes_on(runner: TextRunner) -> None:
    def broken(_logits: np.ndarray) -> None:
        raise KeyError("grammar")

    with pytest.raises(KeyError, match="grammar"):
        runner.generate(PROMPT, max_new_tokens=2, sampling=SamplingOptions(hook=broken))
    assert runner.generate(PROMPT, max_new_tokens=2).finish_reason == "length"


def test_a_hook_is_given_the_stream_of_its_text(runner: TextRunner) -> None:
    class Alternating:
        """Lets tokens with an even id be followed by odd ones, and the reverse."""

        def begin(self, stream: TextStream) -> None:
            self.stream = stream

        def __call__(self, logits: np.ndarray) -> None:
            last = [*self.stream.prompt, *self.stream.tokens][-1]
            logits[last % 2 :: 2] = -np.inf

    stream = runner.generate(PROMPT, max_new_tokens=6, sampling=SamplingOptions(hook=Alternating()))
    ids = [stream.prompt[-1], *stream.tokens]
    assert [i % 2 for i in ids] == [(ids[0] + n) % 2 for n in range(7)]


def test_a_hook_constrains_the_tokens(runner: TextRunner) -> None:
    def letters_only(logits: np.ndarray) -> None:
        allowed = [i for i in range(logits.size) if i >= 3 and i % 2]
        logits[np.setdiff1d(np.arange(logits.size), allowed)] = -np.inf

    options = SamplingOptions(hook=letters_only, seed=1)
    tokens = runner.generate(PROMPT, max_new_tokens=20, sampling=options).tokens
    assert all(token % 2 for token in tokens)


def test_upstream_s_runner_by_its_names(paths: tuple[Path, Path]) -> None:
    runner = TextLLMRunner(str(paths[0]), str(paths[1]))
    pieces: list[str] = []
    stats: list[Stats] = []
    config = GenerationConfig(max_new_tokens=5, temperature=0.0)
    runner.generate(PROMPT, config, pieces.append, stats.append)
    tokenizer = Tokenizer.from_file(paths[1])
    ids = tokenizer.encode(PROMPT, add_special_tokens=False)
    expected = Session(paths[0]).generate(ids, max_new_tokens=5)
    assert pieces[0] == PROMPT
    assert "".join(pieces[1:]) == tokenizer.decode([t for t in expected if t not in (1, 2)])
    assert '"prompt_tokens"' in stats[0].to_json_string()
    runner.reset()
    assert runner.get_vocab_size() == 300


def test_a_second_turn_has_all_tokens_of_the_first(paths: tuple[Path, Path]) -> None:
    runner = TextLLMRunner(str(paths[0]), str(paths[1]))
    tokenizer = Tokenizer.from_file(paths[1])
    turns: list[str] = []
    for prompt in (PROMPT, "more"):
        config = GenerationConfig(max_new_tokens=4, temperature=0.0, echo=False)
        runner.generate(prompt, config, turns.append)
    first = tokenizer.encode(PROMPT, add_special_tokens=False)
    whole = Session(paths[0])
    ids = first + whole.generate(first, max_new_tokens=4)
    ids += tokenizer.encode("more", add_special_tokens=False)
    expected = Session(paths[0]).generate(ids, max_new_tokens=4)
    assert "".join(turns).endswith(tokenizer.decode([t for t in expected if t not in (1, 2)]))
    runner.reset()
    runner.prefill(PROMPT)
    again: list[str] = []
    runner.generate("", GenerationConfig(max_new_tokens=4, temperature=0.0), again.append)
    assert "".join(again) in "".join(turns)


def test_a_program_that_does_not_say_what_ends_a_text_needs_the_ids(tmp_path: Path) -> None:
    model = build("Llama", {"eos_token_id": None})
    decoder = Decoder(model, CAPACITY)
    export_decoder(decoder, constant_methods(decoder)).save(tmp_path / "model.pte")
    tokenizer = Tokenizer.from_bytes(of_300_words())
    with pytest.raises(InvalidArgument, match=r"no constant method get_eos_ids.*\(--eos ID\)"):
        TextRunner(tmp_path / "model.pte", tokenizer)
    assert TextRunner(tmp_path / "model.pte", tokenizer, eos_ids=[7]).eos_ids == {7}
