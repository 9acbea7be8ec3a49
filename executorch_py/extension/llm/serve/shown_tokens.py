"""Tokens with their log-probabilities, in the shapes of OpenAI's two endpoints and llama-server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from executorch_py.extension.llm.sampler import Drawn
from executorch_py.extension.llm.tokenizer import Tokenizer

_LEAST = -9999.0  # stands for the logarithm of 0, which JSON has no number for


class ShownTokens:
    """The texts of drawn tokens and of those that were nearly as probable."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer

    def chat(self, drawn: Sequence[Drawn]) -> dict[str, Any]:
        """`logprobs` of a chat's choice."""
        return {"content": [self._shape(one, has_id=False) for one in drawn], "refusal": None}

    def llama(self, drawn: Sequence[Drawn]) -> list[dict[str, Any]]:
        """`completion_probabilities` of llama-server."""
        return [self._shape(one, has_id=True) for one in drawn]

    def completion(self, drawn: Sequence[Drawn], offset: int) -> dict[str, Any]:
        """`logprobs` of a completion's choice, whose text begins at the character `offset`."""
        texts = [self._text(one.token) for one in drawn]
        offsets = []
        for one in drawn:
            offsets.append(offset)
            offset += len(self._tokenizer.token(one.token).decode("utf-8", "replace"))
        return {
            "tokens": texts,
            "token_logprobs": [_finite(one.logprob) for one in drawn],
            "top_logprobs": [
                {self._text(token): _finite(value) for token, value in one.best} for one in drawn
            ],
            "text_offset": offsets,
        }

    def _shape(self, drawn: Drawn, has_id: bool) -> dict[str, Any]:
        best = [self._token(token, value, has_id) for token, value in drawn.best]
        return {**self._token(drawn.token, drawn.logprob, has_id), "top_logprobs": best}

    def _token(self, token: int, logprob: float, has_id: bool) -> dict[str, Any]:
        head = {"id": token} if has_id else {}
        return {
            **head,
            "token": self._text(token),
            "bytes": list(self._tokenizer.token(token)),
            "logprob": _finite(logprob),
        }

    def _text(self, token: int) -> str:
        """The letters of a token; bytes, as OpenAI writes them, if they are no whole letters."""
        data = self._tokenizer.token(token)
        try:
            return data.decode()
        except UnicodeDecodeError:
            return "bytes:" + "".join(f"\\x{byte:02x}" for byte in data)


def text_or_bytes(token: bytes) -> str | list[int]:
    """The text of a token, or its bytes if they are no whole letters."""
    try:
        return token.decode()
    except UnicodeDecodeError:
        return list(token)


def _finite(logprob: float) -> float:
    return max(logprob, _LEAST)
