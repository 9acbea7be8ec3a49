"""Text from a prompt, token by token: a session, its tokenizer and a sampler together."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from os import PathLike

import numpy as np

from executorch_py.errors import InvalidArgument
from executorch_py.extension.llm.runner.stats import Stats, now_ms
from executorch_py.extension.llm.runner.stop_text import StopText
from executorch_py.extension.llm.sampler import Sampler, SamplingOptions
from executorch_py.extension.llm.session import Session
from executorch_py.extension.llm.tokenizer import TOKENIZER_KEY, Tokenizer

GREEDY = SamplingOptions(temperature=0.0)
_ARGUMENT = "[InvalidArgument, error: 0x12]"


class TextStream:
    """The text that a runner generates, piece by piece: iterate over it, or `await` each piece.

    `tokens`, `text`, `stats` and `finish_reason` grow with it: the reason is None until the end,
    then "eos", "stop" (a stop string), "length", or "stopped" (by `stop()`). Nothing runs between
    two pieces.
    """

    def __init__(
        self, runner: TextRunner, ids: list[int], limit: int, sampler: Sampler, stops: StopText
    ) -> None:
        self.tokens: list[int] = []
        self.text = ""
        self.finish_reason: str | None = None
        self.stats = Stats(num_prompt_tokens=len(ids))
        self._n_words = runner.tokenizer.vocab_size
        self._asked_to_stop = threading.Event()
        self._pieces = self._run(runner, ids, limit, sampler, stops)

    def stop(self) -> None:
        """Ends the text at the next token, or after the piece of the prompt that is being read.

        May be called from any thread.
        """
        self._asked_to_stop.set()

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        return next(self._pieces)

    async def __aiter__(self) -> AsyncIterator[str]:
        while True:
            piece = await asyncio.to_thread(next, self._pieces, None)
            if piece is None:
                return
            yield piece

    def _run(
        self, runner: TextRunner, ids: list[int], limit: int, sampler: Sampler, stops: StopText
    ) -> Iterator[str]:
        self.stats.inference_start_ms = now_ms()
        logits = self._read_prompt(runner.session, ids)
        self.stats.prompt_eval_end_ms = now_ms()
        pieces = runner.tokenizer.pieces()
        sampler.add(ids, generated=False)
        while logits is not None:
            if len(self.tokens) == limit:  # of no tokens
                self.finish_reason = "length"
                break
            token = self._draw(sampler, logits, runner.session.position)
            if token in runner.eos_ids:
                self.finish_reason = "eos"
                break
            sampler.add([token], generated=True)
            self.tokens.append(token)
            piece = stops.push(pieces.push(token))
            self.text += piece
            if piece:
                yield piece
            if stops.found is not None:
                self.finish_reason = "stop"
                break
            if self._asked_to_stop.is_set():
                break
            # The last token is read with the next prompt, if that goes on behind it.
            full = runner.session.position == runner.session.capacity
            if len(self.tokens) == limit or full:
                self.finish_reason = "length"
                break
            logits = runner.session.step(token)
        self.finish_reason = self.finish_reason or "stopped"
        rest = "" if stops.found is not None else stops.push(pieces.end()) + stops.end()
        self.stats.inference_end_ms = now_ms()
        self.text += rest
        if rest:
            yield rest

    def _read_prompt(self, session: Session, ids: list[int]) -> np.ndarray | None:
        """The logits after the prompt; None if `stop()` came first. A beginning that is in the
        context already is not read again."""
        kept = _go_back(session, ids)
        self.stats.num_cached_tokens = kept
        longest = session.interface.longest
        logits = None
        for at in range(kept, len(ids), longest):
            if self._asked_to_stop.is_set():
                return None
            logits = session.prefill(ids[at : at + longest])
        return logits

    def _draw(self, sampler: Sampler, logits: np.ndarray, position: int) -> int:
        began = now_ms()
        token = sampler.draw(logits[: self._n_words], position).token
        ended = now_ms()
        self.stats.aggregate_sampling_time_ms += ended - began
        self.stats.num_generated_tokens += 1
        if self.stats.num_generated_tokens == 1:
            self.stats.first_token_ms = ended
        return token


class TextRunner:
    """Generates text with a program and its tokenizer, by default the one that it carries.

    `eos_ids` end a text; by default they are the program's. One thread generates at a time.
    """

    def __init__(
        self,
        program: Session | str | PathLike[str] | bytes,
        tokenizer: Tokenizer | str | PathLike[str] | None = None,
        *,
        eos_ids: Sequence[int] | None = None,
    ) -> None:
        self.session = program if isinstance(program, Session) else Session(program)
        if tokenizer is None:
            tokenizer = _tokenizer_of(self.session)
        elif not isinstance(tokenizer, Tokenizer):
            tokenizer = Tokenizer.from_file(tokenizer)
        self.tokenizer = tokenizer
        if self.tokenizer.vocab_size > self.session.vocabulary:
            raise InvalidArgument(
                f"tokenizer: expected at most {self.session.vocabulary} ids, as many as the "
                f"program has words, got {self.tokenizer.vocab_size}: it is another model's "
                f"{_ARGUMENT}"
            )
        known = self.session.interface.eos_ids if eos_ids is None else eos_ids
        self.eos_ids = frozenset(known)

    def stream(
        self,
        prompt: str | Sequence[int],
        *,
        max_new_tokens: int | None = None,
        sampling: SamplingOptions = GREEDY,
        stop: Sequence[str] = (),
        add_special_tokens: bool = True,
        parse_special: bool = False,
    ) -> TextStream:
        """The text after a prompt, of at most `max_new_tokens` tokens (None: until the context is
        full), up to the first of the strings `stop`.

        The prompt is the whole context: tokens that the last call left in it and that this prompt
        begins with are not read again. Arguments are checked here, before a token is read.
        """
        ids = (
            self.tokenizer.encode(
                prompt, add_special_tokens=add_special_tokens, parse_special=parse_special
            )
            if isinstance(prompt, str)
            else list(prompt)
        )
        if not ids:
            raise InvalidArgument(f"prompt: expected 1 token or more, got none {_ARGUMENT}")
        room = self.session.capacity - len(ids)
        if room < 0:
            raise InvalidArgument(
                f"prompt: expected at most {self.session.capacity} tokens, the size of the "
                f"context, got {len(ids)} {_ARGUMENT}"
            )
        if max_new_tokens is not None and max_new_tokens < 0:
            raise InvalidArgument(
                f"max_new_tokens: expected 0 or more, got {max_new_tokens} {_ARGUMENT}"
            )
        limit = room if max_new_tokens is None else max_new_tokens
        # A model may have more words than its tokenizer: those without a text are never drawn.
        sampler = Sampler(self.tokenizer.vocab_size, sampling)
        return TextStream(self, ids, limit, sampler, StopText(stop))

    def read(self, ids: Sequence[int]) -> None:
        """Makes these tokens the context. A beginning that is in it already is not read again."""
        kept = _go_back(self.session, list(ids))
        self.session.prefill(ids[kept:])

    def generate(self, prompt: str | Sequence[int], **options: object) -> TextStream:
        """As `stream`, which has come to its end."""
        stream = self.stream(prompt, **options)  # type: ignore[arg-type]
        for _ in stream:
            pass
        return stream


def _tokenizer_of(session: Session) -> Tokenizer:
    program = session.program
    if TOKENIZER_KEY not in program.named_data:
        raise InvalidArgument(
            "tokenizer: expected one in the program, got none: pass `tokenizer`, or export the "
            f"model from a folder that has its file {_ARGUMENT}"
        )
    return Tokenizer(program.named_bytes(TOKENIZER_KEY))


def _go_back(session: Session, ids: list[int]) -> int:
    """Takes back tokens until the context is the beginning of a prompt; returns its length.

    At least one token is left to be read, as its logits are wanted.
    """
    context = session.tokens
    same = 0
    while same < min(len(context), len(ids) - 1) and context[same] == ids[same]:
        same += 1
    try:
        session.rewind(same)
    except InvalidArgument:  # the caches do not keep these positions
        session.rewind(0)
        return 0
    return same
