"""Fields that say how a text is generated, with the names of OpenAI's API and of llama-server.

A field that would change the text, and that this server does not have, is refused unless its value
changes nothing. Fields that only describe the caller are ignored.
"""

from __future__ import annotations

import math
import secrets
from dataclasses import dataclass
from typing import Any

from executorch_py.extension.llm.sampler import SamplingOptions
from executorch_py.extension.llm.serve.json_body import Fields, kind_of, number_of, text_of
from executorch_py.extension.llm.serve.request_error import bad_field
from executorch_py.terminal_text import quoted

MOST_STOPS = 64
MOST_BIASES = 2**16
MOST_LOGPROBS = 20
_MOST_TOKENS = 2**31 - 1
_MOST_SEED = 2**64 - 1
_LEAST_P = 1e-6  # of one token: 0, which OpenAI allows, is no sum of probabilities
_TOKEN_LIMITS = ("max_completion_tokens", "max_tokens", "n_predict")

# Fields that say who asks and why, which tokens do not depend on.
IGNORED = frozenset(
    {
        "metadata",
        "model",  # there is one
        "parallel_tool_calls",
        "prediction",
        "prompt_cache_key",
        "prompt_cache_retention",
        "safety_identifier",
        "service_tier",
        "store",
        "timings_per_token",
        "user",
    }
)
# Fields of other servers, and their values that ask for nothing.
NEUTRAL: dict[str, tuple[Any, ...]] = {
    "audio": (),
    "best_of": (1,),
    "dry_multiplier": (0,),
    "dynatemp_range": (0,),
    "echo": (False,),
    "function_call": ("none", "auto"),
    "functions": ([],),
    "grammar": ("",),
    "id_slot": (-1,),
    "image_data": ([],),
    "json_schema": ({},),
    "lora": ([],),
    "min_keep": (0,),
    "mirostat": (0,),
    "modalities": (["text"],),
    "n": (1,),
    "n_indent": (0,),
    "n_keep": (0,),
    "post_sampling_probs": (False,),
    "reasoning_effort": ("none",),
    "repeat_last_n": (-1,),
    "response_fields": ([],),
    "response_format": ({"type": "text"},),
    "return_progress": (False,),
    "samplers": (),
    "suffix": ("",),
    "t_max_predict_ms": (0,),
    "tool_choice": ("none", "auto"),
    "tools": ([],),
    "verbosity": ("medium",),
    "web_search_options": (),
    "xtc_probability": (0,),
}


@dataclass(frozen=True)
class Generation:
    """How to generate: the options of a request, checked as far as no tokenizer is needed.

    Log-probabilities, if `sampling` asks for them, are those of the model.
    """

    max_new_tokens: int | None
    """None: until the context is full."""
    sampling: SamplingOptions
    stop: tuple[str, ...]
    stream: bool
    include_usage: bool
    use_cache: bool
    """False: read the prompt anew, though a session's context may begin with it."""
    ignore_eos: bool
    """True: go on after a token that ends a text."""


def read_generation(fields: Fields, n_best: int | None) -> Generation:
    """The options of a request, with `n_best` most probable tokens beside each one, or None.

    RequestError 400 names a field that is wrong or not supported.
    """
    for name, values in NEUTRAL.items():
        _check_neutral(name, fields, values)
    stream = fields.flag("stream")
    include_usage = False
    inner = fields.inner("stream_options")
    if inner is not None:
        include_usage = inner.flag("include_usage")
        inner.finish(ignored=("include_obfuscation",))
    return Generation(
        max_new_tokens=_most_tokens(fields),
        sampling=_sampling(fields, n_best),
        stop=_stops(fields),
        stream=stream,
        include_usage=include_usage,
        use_cache=fields.flag("cache_prompt", default=True),
        ignore_eos=fields.flag("ignore_eos"),
    )


def _check_neutral(name: str, fields: Fields, values: tuple[Any, ...]) -> None:
    value = fields.get(name)
    if value is None or any(type(value) is type(v) and value == v for v in values):
        return
    if isinstance(value, float) and value in values:
        return
    known = " or ".join(repr(v) if not isinstance(v, bool) else str(v).lower() for v in values)
    expected = f"{known}, as other values are not supported" if known else "none: not supported"
    raise bad_field(fields.path(name), expected, _shown(value), code="unsupported_value")


def _shown(value: Any) -> str:
    """A short value itself, the type of others."""
    if isinstance(value, str):
        return quoted(value)
    return str(value) if isinstance(value, float) else _shown_whole(value)


def _shown_whole(value: Any) -> str:
    is_short = isinstance(value, int) and abs(value) < 10**20
    return str(value).lower() if is_short else kind_of(value)


def _most_tokens(fields: Fields) -> int | None:
    found = None
    for name in _TOKEN_LIMITS:
        value = fields.whole(name, -1 if name == "n_predict" else 0, _MOST_TOKENS)
        if found is None and value is not None and value >= 0:
            found = value
    return found


def _sampling(fields: Fields, n_best: int | None) -> SamplingOptions:
    seed = fields.whole("seed", -1, _MOST_SEED)
    top_k = fields.whole("top_k", -1, _MOST_TOKENS)
    return SamplingOptions(
        temperature=_bounded(fields, "temperature", 1.0),
        top_k=max(0, top_k or 0),
        top_p=max(_LEAST_P, _bounded(fields, "top_p", 1.0, most=1.0)),
        min_p=_bounded(fields, "min_p", 0.0, most=1.0),
        typical_p=max(_LEAST_P, _bounded(fields, "typical_p", 1.0, most=1.0)),
        repetition_penalty=_bounded(fields, "repeat_penalty", 1.0),
        frequency_penalty=fields.number("frequency_penalty", 0.0),
        presence_penalty=fields.number("presence_penalty", 0.0),
        bias=_biases(fields),
        seed=secrets.randbits(63) if seed is None or seed < 0 else seed,
        logprobs="none" if n_best is None else "model",
        n_best=n_best or 0,
    )


def completion_logprobs(fields: Fields) -> int | None:
    """The most probable tokens that a completion shows beside each; None: no log-probabilities."""
    return fields.whole("logprobs", 0, MOST_LOGPROBS)


def chat_logprobs(fields: Fields) -> int | None:
    """The same number by a chat's fields."""
    is_wanted = fields.flag("logprobs")
    n_best = fields.whole("top_logprobs", 0, MOST_LOGPROBS)
    if n_best and not is_wanted:
        raise bad_field(fields.path("logprobs"), "true beside top_logprobs", "false")
    return n_best or 0 if is_wanted else None


def llama_logprobs(fields: Fields) -> int | None:
    """The same number by the field of llama-server, for which 0 is none."""
    return fields.whole("n_probs", 0, MOST_LOGPROBS) or None


def _bounded(fields: Fields, name: str, default: float, most: float = math.inf) -> float:
    """A number from 0 to `most`."""
    value = fields.number(name, default)
    if not 0.0 <= value <= most:
        expected = "0 or more" if most == math.inf else f"a number from 0 to {most:g}"
        raise bad_field(fields.path(name), expected, f"{value:g}")
    return value


def _biases(fields: Fields) -> dict[int, float]:
    """Biases by id: {"id": bias} of OpenAI, or [[id, bias], …] of llama-server with false for
    tokens that may not be drawn."""
    value = fields.get("logit_bias")
    path = fields.path("logit_bias")
    if value is None:
        return {}
    if isinstance(value, dict):
        pairs = list(value.items())
    elif isinstance(value, list):
        pairs = []
        for i, pair in enumerate(value):
            if not isinstance(pair, list) or len(pair) != 2:
                raise bad_field(f"{path}[{i}]", "a pair [id, bias]", kind_of(pair))
            pairs.append(tuple(pair))
    else:
        raise bad_field(path, "an object of biases by id", kind_of(value))
    if len(pairs) > MOST_BIASES:
        raise bad_field(path, f"at most {MOST_BIASES} biases", str(len(pairs)))
    return {_token(token, path): _bias(bias, path) for token, bias in pairs}


def _token(value: Any, path: str) -> int:
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 12:
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**11:
        return value
    raise bad_field(path, "ids of tokens", _shown(value))


def _bias(value: Any, path: str) -> float:
    return -math.inf if value is False else number_of(value, path)


def _stops(fields: Fields) -> tuple[str, ...]:
    value = fields.get("stop")
    path = fields.path("stop")
    if value is None:
        return ()
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, list):
        raise bad_field(path, "a string or a list of strings", kind_of(value))
    if len(value) > MOST_STOPS:
        raise bad_field(path, f"at most {MOST_STOPS} strings", str(len(value)))
    return tuple(text_of(stop, f"{path}[{i}]") for i, stop in enumerate(value) if stop != "")
