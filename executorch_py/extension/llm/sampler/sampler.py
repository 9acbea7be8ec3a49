"""The choice of the next token from logits, by the C library that devices use."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from executorch_py import _C

_KINDS = ("standard", "upstream")  # et_sampler_kind
_LOGPROBS = ("none", "model", "drawn")  # et_logprobs


@dataclass(frozen=True)
class SamplingOptions:
    """How tokens are drawn. The defaults draw from the model's own distribution.

    The order of the steps is that of transformers: bias, repetition penalty, frequency and presence
    penalties, `hook`, temperature, top-k, top-p, min-p, typical. Equal seeds give equal tokens on
    each machine. `sampler="upstream"` gives the draws of ExecuTorch's sampler.
    """

    temperature: float = 1.0
    """0 takes the first of the greatest logits."""
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    typical_p: float = 1.0
    repetition_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    bias: Mapping[int, float] = field(default_factory=dict)
    """Added to logits, by id; -inf excludes a token."""
    seed: int = 0
    sampler: str = "standard"
    logprobs: str = "none"
    """"model" for those of the logits as they come, "drawn" for those after all steps."""
    n_best: int = 0
    """Most probable tokens that are returned beside the drawn one."""
    hook: Callable[[np.ndarray], object] | None = None
    """Changes a copy of the logits in place, such as a grammar's. If it has a method `begin`, a
    runner calls `begin(stream)` first, with the TextStream whose tokens it will see."""


@dataclass(frozen=True)
class Drawn:
    """A token, its log-probability if asked for, and the most probable ones with theirs."""

    token: int
    logprob: float
    best: list[tuple[int, float]]


class Sampler:
    """Draws tokens of a vocabulary, and counts those of the text for its penalties."""

    def __init__(self, vocab_size: int, options: SamplingOptions | None = None) -> None:
        self.options = options or SamplingOptions()
        self.opened = _C.new_sampler(vocab_size, _by_name(self.options), self.options.hook)

    def draw(self, logits: np.ndarray, position: int) -> Drawn:
        """The token of a position: equal positions draw equal random numbers."""
        return Drawn(*self.opened.draw(np.ascontiguousarray(logits, np.float32), position))

    def add(self, tokens: Sequence[int], *, generated: bool) -> None:
        """Counts tokens of the prompt, or of the generated part."""
        for token in tokens:
            self.opened.add(token, generated)

    def clear(self) -> None:
        """Takes back all tokens."""
        self.opened.clear()


def _by_name(options: SamplingOptions) -> dict[str, Any]:
    named = {
        name: getattr(options, name)
        for name in [
            "temperature",
            "top_k",
            "top_p",
            "min_p",
            "typical_p",
            "repetition_penalty",
            "frequency_penalty",
            "presence_penalty",
            "seed",
            "n_best",
        ]
    }
    named["bias"] = dict(options.bias)
    named["kind"] = _index("sampler", options.sampler, _KINDS)
    named["logprobs"] = _index("logprobs", options.logprobs, _LOGPROBS)
    return named


def _index(key: str, value: str, known: tuple[str, ...]) -> int:
    if value not in known:
        raise ValueError(f"{key}: expected one of {', '.join(known)}, got {value!r}")
    return known.index(value)
