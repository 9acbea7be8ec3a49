"""Times and counts of a generation, with upstream's names."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass


def now_ms() -> float:
    """Milliseconds of a clock that never goes back, that of the C library."""
    return time.monotonic() * 1e3


@dataclass
class Stats:
    """Times in milliseconds of one clock, 0 before they are known, and numbers of tokens."""

    model_load_start_ms: float = 0.0
    model_load_end_ms: float = 0.0
    inference_start_ms: float = 0.0
    prompt_eval_end_ms: float = 0.0
    first_token_ms: float = 0.0
    inference_end_ms: float = 0.0
    aggregate_sampling_time_ms: float = 0.0
    num_prompt_tokens: int = 0
    num_cached_tokens: int = 0
    """Tokens of the prompt that were in the context already."""
    num_generated_tokens: int = 0
    num_draft_tokens: int = 0
    num_accepted_tokens: int = 0
    """Tokens of drafts that were taken."""

    @classmethod
    def of(cls, counted: Mapping[str, int]) -> Stats:
        """The numbers and times of the C library (et_llm_stats), by name."""
        return cls(
            inference_start_ms=counted["begin_ns"] * 1e-6,
            prompt_eval_end_ms=counted["prompt_end_ns"] * 1e-6,
            first_token_ms=counted["first_token_ns"] * 1e-6,
            inference_end_ms=counted["end_ns"] * 1e-6,
            aggregate_sampling_time_ms=counted["sampling_ns"] * 1e-6,
            num_prompt_tokens=counted["n_prompt"],
            num_cached_tokens=counted["n_cached"],
            num_generated_tokens=counted["n_generated"],
            num_draft_tokens=counted["n_drafted"],
            num_accepted_tokens=counted["n_accepted"],
        )

    @property
    def prefill_tokens_per_second(self) -> float:
        """Tokens of the prompt that were read, for each second; 0 if none was."""
        n_read = self.num_prompt_tokens - self.num_cached_tokens
        return _rate(n_read, self.prompt_eval_end_ms - self.inference_start_ms)

    @property
    def decode_tokens_per_second(self) -> float:
        """Tokens after the first one, for each second; 0 if there is none."""
        spent = self.inference_end_ms - self.first_token_ms
        return _rate(self.num_generated_tokens - 1, spent)

    def to_json_string(self) -> str:
        """The times and counts in JSON, with upstream's names beside those of the fields."""
        return json.dumps(
            asdict(self)
            | {
                "prompt_tokens": self.num_prompt_tokens,
                "generated_tokens": self.num_generated_tokens,
                "prefill_token_per_sec": self.prefill_tokens_per_second,
                "decode_token_per_sec": self.decode_tokens_per_second,
                "SCALING_FACTOR_UNITS_PER_SECOND": 1000,
            }
        )

    def reset(self) -> None:
        """Sets all but the load times to 0."""
        for name, value in asdict(Stats()).items():
            if not name.startswith("model_load"):
                setattr(self, name, value)


def _rate(count: int, milliseconds: float) -> float:
    return count / milliseconds * 1e3 if count > 0 and milliseconds > 0 else 0.0
