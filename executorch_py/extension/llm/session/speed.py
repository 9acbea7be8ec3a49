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


@dataclass(frozen=True)
class Round:
    """Seconds of a round that opens a file."""

    first: float  # from the path to the logits after the prompt
    prefill: float  # the prompt again, in an empty context
    decode: float  # single tokens behind it


def check_counts(**counts: int) -> None:
    """InvalidArgument for a count of 0."""
    for name, value in counts.items():
        if value < 1:
            raise InvalidArgument(f"{name}: expected 1 or more, got {value}")


def _check_room(session: Session, prompt: int, steps: int) -> None:
    if prompt + steps > session.capacity:
        raise InvalidArgument(
            f"expected prompt and steps within the context of {session.capacity} tokens, got "
            f"{prompt} and {steps}"
        )


def random_ids(path: str | PathLike[str], prompt: int, steps: int) -> list[int]:
    """Ids of a program's vocabulary; InvalidArgument if the context is too short for them."""
    session = Session(path)
    _check_room(session, prompt, steps)
    return _ids(session, prompt + steps)


def _ids(session: Session, n: int) -> list[int]:
    found: list[int] = np.random.default_rng(0).integers(0, session.vocabulary, n).tolist()
    return found


def timed_round(path: str | PathLike[str], ids: list[int], prompt: int, n_threads: int) -> Round:
    """Opens a program, reads a prompt, reads it again and then the other ids one by one."""
    begin = time.perf_counter()
    session = Session(Runtime.get().load_program(path, n_threads=n_threads))
    session.prefill(ids[:prompt])
    first = time.perf_counter() - begin
    return Round(first, *_read(session, ids, prompt))


def _read(session: Session, ids: list[int], prompt: int) -> tuple[float, float]:
    """Seconds to read a prompt in an empty context, and to read the other ids one by one."""
    session.rewind(0)
    begin = time.perf_counter()
    session.prefill(ids[:prompt])
    middle = time.perf_counter()
    for token in ids[prompt:]:
        session.step(token)
    return middle - begin, time.perf_counter() - middle


def measure(
    path: str | PathLike[str],
    *,
    prompt: int = 128,
    steps: int = 64,
    rounds: int = 5,
    n_threads: int | None = None,
) -> Speed:
    """Times a program with random tokens; InvalidArgument if the context is too short for them."""
    check_counts(prompt=prompt, steps=steps, rounds=rounds)
    begin = time.perf_counter()
    program = Runtime.get().load_program(path, n_threads=n_threads)
    session = Session(program)
    open_seconds = time.perf_counter() - begin
    _check_room(session, prompt, steps)
    ids = _ids(session, prompt + steps)
    begin = time.perf_counter()
    session.prefill(ids[:prompt])
    first_seconds = time.perf_counter() - begin
    prefills, decodes = [], []
    for _ in range(rounds):
        prefill, decode = _read(session, ids, prompt)
        prefills.append(prefill)
        decodes.append(decode)
    return Speed(
        open_seconds=open_seconds,
        first_seconds=first_seconds,
        prefill_tokens_per_s=prompt / statistics.median(prefills),
        decode_tokens_per_s=steps / statistics.median(decodes),
        most_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    )
