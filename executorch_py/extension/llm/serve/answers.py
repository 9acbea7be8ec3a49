"""The JSON of answers: the shapes of OpenAI's API and of llama-server, from a stream's figures."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from executorch_py.extension.llm.runner import TextStream
from executorch_py.extension.llm.sampler import Drawn
from executorch_py.extension.llm.serve.shown_tokens import ShownTokens

_FINISH = {"eos": "stop", "stop": "stop", "length": "length"}
_STOP_TYPES = {"eos": "eos", "stop": "word", "length": "limit"}


@dataclass
class Usage:
    """Tokens of one or more prompts and their texts."""

    prompt: int = 0
    completion: int = 0
    cached: int = 0

    def add(self, stream: TextStream) -> None:
        self.prompt += stream.stats.num_prompt_tokens
        self.completion += len(stream.tokens)
        self.cached += stream.stats.num_cached_tokens

    def shape(self) -> dict[str, Any]:
        return {
            "prompt_tokens": self.prompt,
            "completion_tokens": self.completion,
            "total_tokens": self.prompt + self.completion,
            "prompt_tokens_details": {"cached_tokens": self.cached},
        }


@dataclass(frozen=True)
class OpenAiShape:
    """Answers of one request to /v1/completions or, with `is_chat`, to /v1/chat/completions."""

    model: str
    is_chat: bool
    shown: ShownTokens | None = None
    """None: without log-probabilities."""
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    created: int = field(default_factory=lambda: int(time.time()))

    def _head(self, is_chunk: bool) -> dict[str, Any]:
        kind = "text_completion"
        if self.is_chat:
            kind = "chat.completion.chunk" if is_chunk else "chat.completion"
        return {
            "id": f"{'chatcmpl' if self.is_chat else 'cmpl'}-{self.id}",
            "object": kind,
            "created": self.created,
            "model": self.model,
        }

    def whole(self, streams: Iterable[TextStream], usage: Usage) -> dict[str, Any]:
        """The answer with the texts of streams that have ended."""
        choices = [self._choice(i, stream) for i, stream in enumerate(streams)]
        return {**self._head(is_chunk=False), "choices": choices, "usage": usage.shape()}

    def _choice(self, index: int, stream: TextStream) -> dict[str, Any]:
        choice: dict[str, Any] = {"index": index}
        if self.is_chat:
            choice["message"] = {"role": "assistant", "content": stream.text, "refusal": None}
        else:
            choice["text"] = stream.text
        logprobs = self._logprobs(stream.drawn, 0)
        return {**choice, "logprobs": logprobs, "finish_reason": finish_reason(stream)}

    def _logprobs(self, drawn: Sequence[Drawn], offset: int) -> dict[str, Any] | None:
        if self.shown is None:
            return None
        return self.shown.chat(drawn) if self.is_chat else self.shown.completion(drawn, offset)

    def first(self) -> dict[str, Any]:
        """The chunk that opens a chat's answer."""
        return self._chunk(0, {"role": "assistant", "content": ""}, None, None)

    def piece(self, index: int, text: str, drawn: Sequence[Drawn], offset: int) -> dict[str, Any]:
        """The chunk of a piece of text at the character `offset`, with the tokens drawn for it."""
        content = {"content": text} if self.is_chat else text
        return self._chunk(index, content, self._logprobs(drawn, offset), None)

    def last(self, index: int, stream: TextStream, drawn: Sequence[Drawn]) -> dict[str, Any]:
        """The chunk that says why a text ended, with the tokens that no piece had."""
        content = {} if self.is_chat else ""
        logprobs = self._logprobs(drawn, len(stream.text)) if drawn else None
        return self._chunk(index, content, logprobs, finish_reason(stream))

    def _chunk(
        self, index: int, content: Any, logprobs: dict[str, Any] | None, reason: str | None
    ) -> dict[str, Any]:
        name = "delta" if self.is_chat else "text"
        choice = {"index": index, name: content, "logprobs": logprobs, "finish_reason": reason}
        return {**self._head(is_chunk=True), "choices": [choice]}

    def usage_chunk(self, usage: Usage) -> dict[str, Any]:
        """The chunk without a choice that ends a stream with `include_usage`."""
        return {**self._head(is_chunk=True), "choices": [], "usage": usage.shape()}


def finish_reason(stream: TextStream) -> str:
    """OpenAI's word for the reason why a stream ended."""
    return _FINISH[stream.finish_reason or "length"]


def llama_piece(text: str) -> dict[str, Any]:
    """The event of a piece of text in llama-server's own shape."""
    return {"content": text, "stop": False}


def llama_whole(
    model: str, stream: TextStream, content: str, has_tokens: bool, shown: ShownTokens | None
) -> dict[str, Any]:
    """The answer of /completion, which is the last event of a streamed one as well."""
    more = {} if shown is None else {"completion_probabilities": shown.llama(stream.drawn)}
    return {
        **more,
        "content": content,
        "tokens": stream.tokens if has_tokens else [],
        "stop": True,
        "stop_type": _STOP_TYPES[stream.finish_reason or "length"],
        "model": model,
        "tokens_predicted": len(stream.tokens),
        "tokens_evaluated": stream.stats.num_prompt_tokens,
        "tokens_cached": stream.stats.num_cached_tokens,
        "truncated": False,
        "timings": _timings(stream),
    }


def _timings(stream: TextStream) -> dict[str, Any]:
    stats = stream.stats
    n_read = stats.num_prompt_tokens - stats.num_cached_tokens
    prompt_ms = stats.prompt_eval_end_ms - stats.inference_start_ms
    predicted_ms = stats.inference_end_ms - stats.prompt_eval_end_ms
    n_predicted = stats.num_generated_tokens
    return {
        "cache_n": stats.num_cached_tokens,
        "prompt_n": n_read,
        "prompt_ms": prompt_ms,
        "prompt_per_token_ms": prompt_ms / n_read if n_read else 0.0,
        "prompt_per_second": stats.prefill_tokens_per_second,
        "predicted_n": n_predicted,
        "predicted_ms": predicted_ms,
        "predicted_per_token_ms": predicted_ms / n_predicted if n_predicted else 0.0,
        "predicted_per_second": n_predicted / predicted_ms * 1e3 if predicted_ms > 0 else 0.0,
    }
