"""A text that is generated for a client: in a session of the pool, for as long as the client waits.

Knows neither HTTP nor the shapes of answers.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from executorch_py.errors import ExecutorchError, InvalidArgument
from executorch_py.extension.llm.chat import ChatTemplate
from executorch_py.extension.llm.runner import TextRunner, TextStream
from executorch_py.extension.llm.sampler import Sampler
from executorch_py.extension.llm.serve.answers import Usage
from executorch_py.extension.llm.serve.generation_fields import Generation
from executorch_py.extension.llm.serve.request_error import (
    ClientGone,
    RequestError,
    bad_field,
    refused_value,
)
from executorch_py.extension.llm.serve.request_fields import Chat
from executorch_py.extension.llm.serve.session_pool import POLL_SECONDS, SessionPool

_MOST_BYTES = 256  # of a token, more than any vocabulary has


@dataclass
class Client:
    """The one who waits for an answer, and the tokens that it took so far."""

    is_gone: Callable[[], bool]
    usage: Usage = field(default_factory=Usage)


@dataclass(frozen=True)
class Prompt:
    """The ids of a prompt, and how a runner begins to generate after it."""

    ids: list[int]
    begin: Callable[[TextRunner], TextStream]


def text_prompt(runner: TextRunner, text: str | list[int], options: Generation) -> Prompt:
    """The prompt of a text, in which names of special tokens are these tokens, or of ids.

    RequestError 400 if there is no room for it, or an option is refused by the sampler.
    """
    if isinstance(text, str):
        _check_bytes(runner, len(text.encode()))
        text = runner.tokenizer.encode(text, parse_special=True)
    return ids_prompt(runner, text, options)


def ids_prompt(runner: TextRunner, ids: list[int], options: Generation) -> Prompt:
    """The prompt of ids that are complete."""
    check_prompt(runner, ids, options)

    def begin(runner: TextRunner) -> TextStream:
        return runner.stream(
            ids,
            max_new_tokens=options.max_new_tokens,
            sampling=options.sampling,
            stop=options.stop,
            ignore_eos=options.ignore_eos,
        )

    return Prompt(ids, begin)


def chat_prompt(
    runner: TextRunner, template: ChatTemplate | None, chat: Chat, options: Generation
) -> Prompt:
    """The prompt of a chat, by a template.

    RequestError 400 if there is none or it refuses the messages, or as `text_prompt`.
    """
    if template is None:
        raise RequestError(
            400, "messages: expected a program with a chat template, got one without"
        )
    _check_bytes(runner, sum(len(message["content"].encode()) for message in chat.messages))
    try:
        asked = runner.chat(chat.messages, template=template, variables=chat.variables)
    except InvalidArgument as error:
        raise refused_value(error) from None
    return ids_prompt(runner, asked.prompt, options)


def check_prompt(runner: TextRunner, ids: Sequence[int], options: Generation) -> None:
    """RequestError 400 if a run with these ids and options would be refused."""
    session = runner.session
    if not ids:
        raise RequestError(
            400, "prompt: expected 1 token or more, got none", param="prompt", code="invalid_value"
        )
    if len(ids) > session.capacity:
        raise RequestError(
            400,
            f"prompt: expected at most {session.capacity} tokens, the size of the context, got "
            f"{len(ids)}; send less text",
            param="prompt",
            code="context_length_exceeded",
        )
    for token in ids:
        if not 0 <= token < session.vocabulary:
            raise RequestError(
                400,
                f"prompt: expected ids from 0 to {session.vocabulary - 1}, got {token}",
                param="prompt",
                code="invalid_value",
            )
    n_words = runner.tokenizer.vocab_size
    for token in options.sampling.bias:
        if token >= n_words:
            raise bad_field("logit_bias", f"ids below {n_words}", str(token))
    try:
        Sampler(n_words, options.sampling)
    except ValueError as error:
        raise refused_value(error) from None


def _check_bytes(runner: TextRunner, n_bytes: int) -> None:
    """Refuses a text that is far too long for the context before its tokens are sought, which would
    keep other requests waiting."""
    most = runner.session.capacity * _MOST_BYTES
    if n_bytes > most:
        raise RequestError(
            400,
            f"prompt: expected at most {most} bytes, for the context has "
            f"{runner.session.capacity} tokens, got {n_bytes}; send less text",
            param="prompt",
            code="context_length_exceeded",
        )


@contextmanager
def generating(
    pool: SessionPool, prompt: Prompt, options: Generation, client: Client
) -> Iterator[TextStream]:
    """The stream of a prompt in a session of its own. It has ended when the block is left, and the
    client's usage has its tokens.

    The stream stops when the client leaves, within a token or a call with the prompt's.
    """
    with pool.lease(prompt.ids, client.is_gone) as runner:
        if not options.use_cache:
            runner.session.rewind(0)
        try:
            stream = prompt.begin(runner)
        except InvalidArgument as error:
            raise refused_value(error) from None
        try:
            with _watched(stream, client.is_gone):
                yield stream
        except ExecutorchError:
            with suppress(ExecutorchError):  # a run that failed leaves nothing to go on from
                runner.session.rewind(0)
            raise
        finally:
            stream.stop()
            with suppress(ExecutorchError):
                for _ in stream:
                    pass
            client.usage.add(stream)


@contextmanager
def _watched(stream: TextStream, is_gone: Callable[[], bool]) -> Iterator[None]:
    """Stops a stream from a thread when `is_gone()`: the one that generates may be in a call."""
    done = threading.Event()

    def watch() -> None:
        while not done.wait(POLL_SECONDS):
            if is_gone():
                stream.stop()
                return

    thread = threading.Thread(target=watch, name="client watch", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def pieces(stream: TextStream, client: Client) -> Generator[str, None, None]:
    """The pieces of a stream; ClientGone as soon as nobody waits for them."""
    for piece in stream:
        if client.is_gone():
            raise ClientGone("the client left")
        yield piece
    if stream.finish_reason == "stopped":
        raise ClientGone("the client left")
