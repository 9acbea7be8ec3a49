"""Perplexity: how well a decoder predicts a text. Compares weights and caches of few bits.

The text is cut into windows, each read from an empty context. The first half of a window is
context only, as in llama.cpp's llama-perplexity, so that figures of both can be compared.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from executorch_py.errors import InvalidArgument
from executorch_py.extension.llm.session.session import Session

_CODE = "[InvalidArgument, error: 0x12]"


@dataclass(frozen=True)
class Perplexity:
    """exp of the mean of -log p(token | the tokens before it in the window)."""

    value: float
    error: float  # standard error of `value`
    n_tokens: int  # that were predicted

    def __str__(self) -> str:
        return f"{self.value:.4f} ± {self.error:.4f} over {self.n_tokens:,} tokens"


def perplexity(
    session: Session,
    tokens: Sequence[int] | np.ndarray,
    *,
    window: int = 512,
    context: int | None = None,
    first: int | None = None,
) -> Perplexity:
    """The perplexity of a text of token ids; the session's context is empty before and after.

    Each `window` tokens are read from position 0; those from `context` on (None: the second half)
    are predicted. A shorter rest of the text is not used. `first` replaces the first token of each
    window: the id that begins a text, for models that were trained with one.
    """
    start = window // 2 if context is None else context
    if not 2 <= window <= session.capacity:
        raise InvalidArgument(
            f"window: expected 2 to {session.capacity}, the context's length, got {window} {_CODE}"
        )
    if not 1 <= start < window:
        raise InvalidArgument(f"context: expected 1 to {window - 1}, got {start} {_CODE}")
    ids = np.asarray(tokens).reshape(-1)
    n_windows = len(ids) // window
    if n_windows == 0:
        raise InvalidArgument(
            f"tokens: expected {window} or more, one window, got {len(ids)} {_CODE}"
        )
    losses = []
    for piece in ids[: n_windows * window].reshape(n_windows, window):
        given = piece if first is None else np.concatenate([[first], piece[1:]])
        session.rewind(0)
        if start > 1:
            session.prefill(given[: start - 1])
        logits = session.logits(given[start - 1 : -1])
        losses.append(_losses(logits, piece[start:]))
    session.rewind(0)
    every = np.concatenate(losses)
    value = math.exp(every.mean())
    error = value * float(every.std(ddof=1)) / math.sqrt(len(every)) if len(every) > 1 else math.nan
    return Perplexity(value, error, len(every))


def _losses(logits: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """-log softmax(logits)[target] f64 of each row."""
    wide = logits.astype(np.float64)
    largest = wide.max(axis=-1)
    total = np.log(np.exp(wide - largest[:, None]).sum(axis=-1)) + largest
    found: np.ndarray = total - wide[np.arange(len(targets)), targets]
    return found
