"""Speed of a decoder's program on this machine: to open it, to read a prompt, to add tokens."""

from __future__ import annotations

import resource
import statistics
import time
from dataclasses import dataclass
from os import PathLike

import numpy as np

from executorch_py.errors import InvalidArgument
from executorch_py.extension.llm.session.session import Session
from executorch_py.runtime.runtime import Runtime


@dataclass(frozen=True)
class Speed:
    """Medians of rounds that each read a prompt from position 0 and then single tokens."""

    open_seconds: float  # from the path to a session
    first_seconds: float  # the first prompt, which also reads the file's pages
    prefill_tokens_per_s: float
    decode_tokens_per_s: float
    most_bytes: int  # of resident memory of this process so far


def measure(
    path: str | PathLike[str],
    *,
    prompt: int = 128,
    steps: int = 64,
    rounds: int = 5,
    n_threads: int | None = None,
) -> Speed:
    """Times a program with random tokens; InvalidArgument if the context is too short for them."""
    for name, value in (("prompt", prompt), ("steps", steps), ("rounds", rounds)):
        if value < 1:
            raise InvalidArgument(f"{name}: expected 1 or more, got {value}")
    begin = time.perf_counter()
    program = Runtime.get().load_program(path, n_threads=n_threads)
    session = Session(program)
    open_seconds = time.perf_counter() - begin
    if prompt + steps > session.capacity:
        raise InvalidArgument(
            f"expected prompt and steps within the context of {session.capacity} tokens, got "
            f"{prompt} and {steps}"
        )
    ids = np.random.default_rng(0).integers(0, session.vocabulary, prompt + steps)
    begin = time.perf_counter()
    session.prefill(ids[:prompt])
    first_seconds = time.perf_counter() - begin
    prefills, decodes = [], []
    for _ in range(rounds):
        session.rewind(0)
        begin = time.perf_counter()
        session.prefill(ids[:prompt])
        middle = time.perf_counter()
        for token in ids[prompt:]:
            session.step(token)
        prefills.append(middle - begin)
        decodes.append(time.perf_counter() - middle)
    return Speed(
        open_seconds=open_seconds,
        first_seconds=first_seconds,
        prefill_tokens_per_s=prompt / statistics.median(prefills),
        decode_tokens_per_s=steps / statistics.median(decodes),
        most_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    )
