"""Text from a prompt, piece by piece: a session, its tokenizer and a sampler together.

The loop is that of the C library (csrc/llm/generation).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from os import PathLike
from typing import Any

from executorch_py import _C
from executorch_py.errors import InvalidArgument
from executorch_py.extension.llm.chat import ChatTemplate, prompt_tokens
from executorch_py.extension.llm.runner.session_decoder import SessionDecoder
from executorch_py.extension.llm.runner.stats import Stats
from executorch_py.extension.llm.sampler import Drawn, Sampler, SamplingOptions
from executorch_py.extension.llm.session import Session
from executorch_py.extension.llm.tokenizer import TOKENIZER_KEY, Tokenizer

GREEDY = SamplingOptions(temperature=0.0)
_ARGUMENT = "[InvalidArgument, error: 0x12]"
_REASONS = (None, "eos", "stop", "length", "stopped")  # et_llm_finish
_LOOKUP = (2, 8)  # tokens that must agree, and that are compared


class TextStream:
    """The text that a runner generates, piece by piece: iterate over it, or `await` each piece.

    `tokens`, `text`, `stats` and `finish_reason` grow with it: the reason is None until the end,
    then "eos", "stop" (a stop string), "length", or "stopped" (by `stop()`). Nothing runs between
    two pieces. `prompt` has the ids of the prompt. With `logprobs` of SamplingOptions, `drawn` has
    the draws of `tokens`.
    """

    def __init__(
        self, generation: _C.Generation, prompt: list[int], *, keeps_draws: bool = False
    ) -> None:
        self.prompt = prompt
        self.tokens: list[int] = []
        self.drawn: list[Drawn] = []
        self.text = ""
        self.finish_reason: str | None = None
        self._generation = generation
        self._keeps_draws = keeps_draws
        self.load_times = (0.0, 0.0)

    @property
    def stats(self) -> Stats:
        """Numbers and times so far."""
        stats = Stats.of(self._generation.stats())
        stats.model_load_start_ms, stats.model_load_end_ms = self.load_times
        return stats

    def stop(self) -> None:
        """Ends the text at the next token, or after the piece of the prompt that is being read.

        May be called from any thread.
        """
        self._generation.stop()

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        while self.finish_reason is None:
            found = self._generation.next()
            if found is None:  # after a failure
                break
            piece, token, finish, logprob, best = found
            if token >= 0:
                self.tokens.append(token)
                if self._keeps_draws:
                    self.drawn.append(Drawn(token, logprob, best))
            self.finish_reason = _REASONS[finish]
            self.text += piece
            if piece:
                return piece
        raise StopIteration

    async def __aiter__(self) -> AsyncIterator[str]:
        while True:
            piece = await asyncio.to_thread(next, self, None)
            if piece is None:
                return
            yield piece


class TextRunner:
    """Generates text with a program and its tokenizer, by default the one that it carries.

    `eos_ids` end a text; by default they are the program's, which must have some. One thread
    generates at a time.
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
        if eos_ids is None and not known:
            raise InvalidArgument(
                "eos_ids: expected the ids of tokens that end a text, as the program has no "
                "constant method get_eos_ids, got none: pass `eos_ids` (--eos ID), () if there are "
                f"none {_ARGUMENT}"
            )
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
        ignore_eos: bool = False,
        draft: str | Session | None = "auto",
        max_draft: int = 8,
    ) -> TextStream:
        """The text after a prompt, of at most `max_new_tokens` tokens (None: until the context is
        full), up to the first of the strings `stop` or, without `ignore_eos`, to a token of
        `eos_ids`. Special tokens add no text.

        The prompt is the whole context: tokens that the last call left in it and that this prompt
        begins with are not read again. Arguments are checked here, before a token is read.

        A draft guesses up to `max_draft` tokens, which the program then reads at once: the text is
        the same, and comes sooner where guesses are right. "lookup" takes what followed the last
        tokens where they stood before; a session of a smaller model of the same vocabulary draws
        them. Either needs a program with logits of several tokens (`llm export --verify`); "auto"
        is a lookup with such a program, else None.
        """
        ids = (
            self.tokenizer.encode(
                prompt, add_special_tokens=add_special_tokens, parse_special=parse_special
            )
            if isinstance(prompt, str)
            else list(prompt)
        )
        if max_new_tokens is not None and max_new_tokens < 0:
            raise InvalidArgument(
                f"max_new_tokens: expected 0 or more, got {max_new_tokens} {_ARGUMENT}"
            )
        # A model may have more words than its tokenizer: those without a text are never drawn.
        sampler = Sampler(self.tokenizer.vocab_size, sampling)
        generation = _C.new_generation(
            SessionDecoder(self.session),
            self.tokenizer.opened,
            sampler.opened,
            ids,
            -1 if max_new_tokens is None else max_new_tokens,
            () if ignore_eos else sorted(self.eos_ids),
            stop,
            self._drafter(draft),
            max_draft,
        )
        stream = TextStream(generation, ids, keeps_draws=sampling.logprobs != "none")
        begin = getattr(sampling.hook, "begin", None)
        if begin is not None:
            begin(stream)
        return stream

    def _drafter(self, draft: str | Session | None) -> SessionDecoder | tuple[int, int] | None:
        rows = self.session.interface.most_rows
        if draft is None or (draft == "auto" and rows == 1):
            return None
        if isinstance(draft, str) and draft not in ("auto", "lookup"):
            raise InvalidArgument(
                f"draft: expected 'auto', 'lookup', a Session or None, got {draft!r} {_ARGUMENT}"
            )
        if rows == 1:
            raise InvalidArgument(
                "draft: expected a program with logits of several tokens, got one with those of "
                "the last token only; export it with verify=16 (llm export --verify 16) "
                f"{_ARGUMENT}"
            )
        return SessionDecoder(draft) if isinstance(draft, Session) else _LOOKUP

    def chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        template: ChatTemplate | None = None,
        tools: Sequence[Mapping[str, Any]] | None = None,
        variables: Mapping[str, Any] | None = None,
        parse_special: bool = False,
        **options: Any,
    ) -> TextStream:
        """The answer to messages, each {role, content}, by the program's chat template or another.

        `options` are those of `stream`, `variables` are the template's own. Names of special tokens
        in messages are text, unless `parse_special`. Turns that are in the context already are not
        read again. InvalidArgument as of `ChatTemplate.render` and `stream`.
        """
        ids = prompt_tokens(
            template or ChatTemplate.of(self.session),
            self.tokenizer,
            messages,
            tools=tools,
            parse_special=parse_special,
            **(variables or {}),
        )
        return self.stream(ids, **options)

    def read(self, ids: Sequence[int]) -> None:
        """Makes these tokens the context. A beginning that is in it already is not read again."""
        kept = SessionDecoder(self.session).keep(list(ids))
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
