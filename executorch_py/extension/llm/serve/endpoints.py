"""The endpoints: from the fields of a request to the JSON of an answer, or to events one by one.

Knows nothing of sockets: a client says whether it still waits.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import closing
from typing import Any
from urllib.parse import quote

from executorch_py.extension.llm.chat import ChatTemplate
from executorch_py.extension.llm.runner import TextRunner
from executorch_py.extension.llm.serve.answers import (
    OpenAiShape,
    llama_piece,
    llama_whole,
)
from executorch_py.extension.llm.serve.generation import (
    Client,
    Prompt,
    chat_prompt,
    generating,
    pieces,
    text_prompt,
)
from executorch_py.extension.llm.serve.generation_fields import (
    IGNORED,
    Generation,
    chat_logprobs,
    completion_logprobs,
    llama_logprobs,
    read_generation,
)
from executorch_py.extension.llm.serve.json_body import Fields
from executorch_py.extension.llm.serve.request_error import RequestError
from executorch_py.extension.llm.serve.request_fields import (
    ids_of,
    read_chat,
    read_prompt,
    read_prompts,
)
from executorch_py.extension.llm.serve.session_pool import SessionPool
from executorch_py.extension.llm.serve.shown_tokens import ShownTokens, text_or_bytes

OPEN = None  # the first event: nothing to send, but the answer has begun
DONE = "[DONE]"  # the last event of OpenAI's streams
Event = dict[str, Any] | str | None
Events = Generator[Event, None, None]
Answer = dict[str, Any] | Events


class Endpoints:
    """All paths that are answered, over a pool of sessions.

    `get` and `post` have the endpoints by path; those of `post` take the object of the body.
    """

    def __init__(
        self,
        runner: TextRunner,
        pool: SessionPool,
        model: str,
        template: ChatTemplate | None = None,
    ) -> None:
        self._runner = runner  # for its tokenizer and the facts of its program
        self._pool = pool
        self._template = template
        self._model = model
        self._created = int(time.time())
        self.get: dict[str, Callable[[], dict[str, Any]]] = {
            "/health": lambda: {"status": "ok"},
            "/props": self._props,
            "/v1/models": lambda: {"object": "list", "data": [self._model_facts()]},
            f"/v1/models/{quote(model)}": self._model_facts,
        }
        self.post: dict[str, Callable[[Fields, Client], Answer]] = {
            "/completion": self._llama_completion,
            "/detokenize": self._detokenize,
            "/tokenize": self._tokenize,
            "/v1/chat/completions": self._chat,
            "/v1/completions": self._completions,
        }

    # ---- facts

    def _model_facts(self) -> dict[str, Any]:
        session = self._runner.session
        return {
            "id": self._model,
            "object": "model",
            "created": self._created,
            "owned_by": "executorch_py",
            "meta": {"n_ctx": session.capacity, "n_vocab": session.vocabulary},
        }

    def _props(self) -> dict[str, Any]:
        return {
            "default_generation_settings": {"n_ctx": self._runner.session.capacity},
            "total_slots": self._pool.size,
            "model_path": self._model,
            "chat_template": "" if self._template is None else self._template.text,
        }

    # ---- tokens

    def _tokenize(self, fields: Fields, _client: Client) -> dict[str, Any]:
        tokenizer = self._runner.tokenizer
        text = fields.needed_text("content")
        special = fields.flag("add_special")
        parse = fields.flag("parse_special", default=True)
        with_pieces = fields.flag("with_pieces")
        fields.finish(IGNORED)
        ids = tokenizer.encode(text, add_special_tokens=special, parse_special=parse)
        if not with_pieces:
            return {"tokens": ids}
        return {"tokens": [{"id": i, "piece": text_or_bytes(tokenizer.token(i))} for i in ids]}

    def _detokenize(self, fields: Fields, _client: Client) -> dict[str, Any]:
        tokenizer = self._runner.tokenizer
        ids = ids_of(fields.get("tokens"), fields.path("tokens"))
        fields.finish(IGNORED)
        for i, token in enumerate(ids):
            if token >= tokenizer.vocab_size:
                place = f"tokens[{i}]"
                raise RequestError(
                    400,
                    f"{place}: expected an id from 0 to {tokenizer.vocab_size - 1}, got {token}",
                    param=place,
                )
        return {"content": tokenizer.decode(ids, skip_special_tokens=False)}

    # ---- texts

    def _completions(self, fields: Fields, client: Client) -> Answer:
        options = read_generation(fields, completion_logprobs(fields))
        texts = read_prompts(fields)
        fields.finish(IGNORED)
        prompts = [text_prompt(self._runner, text, options) for text in texts]
        return self._open_ai(self._shape(options, is_chat=False), prompts, options, client)

    def _chat(self, fields: Fields, client: Client) -> Answer:
        options = read_generation(fields, chat_logprobs(fields))
        chat = read_chat(fields)
        fields.finish(IGNORED)
        prompt = chat_prompt(self._runner, self._template, chat, options)
        return self._open_ai(self._shape(options, is_chat=True), [prompt], options, client)

    def _shape(self, options: Generation, is_chat: bool) -> OpenAiShape:
        return OpenAiShape(self._model, is_chat, self._shown(options))

    def _shown(self, options: Generation) -> ShownTokens | None:
        has_logprobs = options.sampling.logprobs != "none"
        return ShownTokens(self._runner.tokenizer) if has_logprobs else None

    def _open_ai(
        self, shape: OpenAiShape, prompts: list[Prompt], options: Generation, client: Client
    ) -> Answer:
        if options.stream:
            return self._open_ai_events(shape, prompts, options, client)
        streams = []
        for prompt in prompts:
            with generating(self._pool, prompt, options, client) as stream:
                for _ in pieces(stream, client):
                    pass
            streams.append(stream)
        return shape.whole(streams, client.usage)

    def _open_ai_events(
        self, shape: OpenAiShape, prompts: list[Prompt], options: Generation, client: Client
    ) -> Events:
        for i, prompt in enumerate(prompts):
            with generating(self._pool, prompt, options, client) as stream:
                if i == 0:
                    yield shape.first() if shape.is_chat else OPEN
                with closing(pieces(stream, client)) as texts:
                    shown = offset = 0
                    for text in texts:
                        yield shape.piece(i, text, stream.drawn[shown:], offset)
                        shown, offset = len(stream.drawn), offset + len(text)
            yield shape.last(i, stream, stream.drawn[shown:])
        if options.include_usage:
            yield shape.usage_chunk(client.usage)
        yield DONE

    def _llama_completion(self, fields: Fields, client: Client) -> Answer:
        options = read_generation(fields, llama_logprobs(fields))
        text = read_prompt(fields)
        has_tokens = fields.flag("return_tokens")
        fields.finish(IGNORED)
        prompt = text_prompt(self._runner, text, options)
        if options.stream:
            return self._llama_events(prompt, options, client, has_tokens)
        with generating(self._pool, prompt, options, client) as stream:
            for _ in pieces(stream, client):
                pass
        return llama_whole(self._model, stream, stream.text, has_tokens, self._shown(options))

    def _llama_events(
        self, prompt: Prompt, options: Generation, client: Client, has_tokens: bool
    ) -> Events:
        with generating(self._pool, prompt, options, client) as stream:
            yield OPEN
            for text in pieces(stream, client):
                yield llama_piece(text)
        yield llama_whole(self._model, stream, "", has_tokens, self._shown(options))
