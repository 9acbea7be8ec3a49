"""How to call the program of a decoder, found from its inputs and constant methods.

Three kinds of programs have a method that returns logits: those with a start position as second
input (this project's and upstream's export_llm), those with a position for each token (of
optimum-executorch), and those without caches, which read all tokens in each call. The method is
`forward`, or there are two over the same caches: `prefill` and, for single tokens, `decode`. Knows
no session.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from executorch_py.errors import InvalidProgram
from executorch_py.runtime.program import Program
from executorch_py.terminal_text import quoted_list

_FORWARD, _PREFILL, _DECODE = "forward", "prefill", "decode"
_VERIFY = "verify"  # as prefill, with the logits of each token
_KEPT = ("get_cache_kind", "get_cache_windows", "get_cache_slots")
_SINKS = "get_cache_sinks"  # only of programs that have some
_CODE = "[InvalidProgram, error: 0x23]"


class Positions(Enum):
    """The second input of a program."""

    START = "the position of the first token"
    EACH = "a position for each token"
    NONE = "none: no caches"


@dataclass(frozen=True)
class Ring:
    """A cache that keeps fewer positions than the context: the first `sinks`, and of the others the
    newest `slots`.

    A query needs the keys of `window` positions, its own included, and the sinks.
    """

    window: int
    slots: int
    sinks: int = 0


@dataclass(frozen=True)
class Interface:
    """Facts of a decoder's program."""

    method: str
    step_method: str  # for single tokens: the same, or another one over the same caches
    positions: Positions
    capacity: int  # tokens that a context can have
    longest: int  # tokens of one call
    vocabulary: int
    token_type: np.dtype[Any]
    rings: tuple[Ring, ...] | None  # None: the file does not say what its caches keep
    eos_ids: frozenset[int]
    bos_ids: tuple[int, ...]
    all_logits: bool  # a call returns those after each of its tokens, else after the last one
    verify_method: str | None  # returns the logits after each of up to `most_rows` tokens
    most_rows: int
    logits_type: str  # the name of their dtype

    def inputs(self, tokens: list[int], start: int) -> list[np.ndarray]:
        """Inputs of a call with the tokens from position `start` on."""
        ids = np.array([tokens], self.token_type)
        if self.positions is Positions.NONE:
            return [ids]
        if self.positions is Positions.START:
            return [ids, np.array([start], np.int64)]
        return [ids, np.arange(start, start + len(tokens), dtype=np.int64)]


def interface_of(program: Program, method: str | None = None) -> Interface:
    """The interface of a method; of `forward`, or `prefill` and `decode`, if none is named.

    InvalidProgram if it is no decoder's, or the program does not say how long its context is.
    """
    methods = _methods(program, method)
    sizes = [_sizes(program, name) for name in methods]
    if sizes[0][0] != 1 and not sizes[0][1]:
        raise InvalidProgram(
            f"tokens: expected 1 or a range of lengths, got the fixed length {sizes[0][0]} {_CODE}"
        )
    facts = program.metadata(methods[0])
    constants = _constants(program)
    positions = Positions.NONE
    if len(facts.input_kinds) == 2:
        many = facts.input_tensor_meta(1).nbytes() > np.dtype(np.int64).itemsize
        positions = Positions.EACH if many else Positions.START
    longest = sizes[0][0]
    context = constants.get("get_max_context_len") or constants.get("get_max_seq_len")
    if positions is Positions.NONE:
        context = [longest]
    if not context:
        raise InvalidProgram(
            "expected a constant method 'get_max_context_len' or 'get_max_seq_len', which says how "
            f"long the context can be, got neither {_CODE}"
        )
    capacity = int(context[0])
    logits = facts.output_tensor_meta(0)
    size = constants.get("get_vocab_size") or [logits.sizes()[-1]]
    eos = constants.get("get_eos_ids") or constants.get("get_eos_id") or []
    rings = () if positions is Positions.NONE else _rings(constants, capacity)
    verify = methods[0] if len(logits.sizes()) == 3 else _VERIFY
    # Tokens of a draft must be taken back, so the program says which positions its caches keep.
    can_verify = rings is not None and verify in program.method_names
    rows = _sizes(program, verify)[0] if can_verify else 1
    return Interface(
        method=methods[0],
        step_method=methods[-1],
        positions=positions,
        capacity=capacity,
        longest=min(longest, capacity),
        vocabulary=int(size[0]),
        token_type=np.dtype(facts.input_tensor_meta(0).dtype_name),
        rings=rings,
        eos_ids=frozenset(int(value) for value in eos if value is not None),
        bos_ids=tuple(
            int(value) for value in constants.get("get_bos_id") or [] if value is not None
        ),
        all_logits=len(logits.sizes()) == 3,
        verify_method=verify if can_verify else None,
        most_rows=min(rows, longest, capacity),
        logits_type=logits.dtype_name,
    )


def _methods(program: Program, method: str | None) -> tuple[str, ...]:
    names = program.method_names
    if method is None and _FORWARD not in names and {_PREFILL, _DECODE} <= names:
        return _PREFILL, _DECODE
    wanted = _FORWARD if method is None else method
    if wanted not in names:
        found = quoted_list(sorted(names)[:6])
        raise InvalidProgram(f"expected a method {wanted!r} of a decoder, got {found} {_CODE}")
    return (wanted,)


def _sizes(program: Program, method: str) -> tuple[int, bool]:
    """Most tokens of a call, and whether a call may have fewer; of a method that is a decoder's."""
    signature, facts = program.method_signature(method), program.metadata(method)
    kinds = (*facts.input_kinds, *facts.output_kinds[:1])
    if len(facts.input_kinds) not in (1, 2) or any(k != "Tensor" for k in kinds) or len(kinds) < 2:
        raise InvalidProgram(
            f"expected {method}(tokens) or {method}(tokens, positions) -> logits, got {signature} "
            f"{_CODE}"
        )
    tokens, logits = facts.input_tensor_meta(0), facts.output_tensor_meta(0)
    sizes = tokens.sizes()
    if len(sizes) != 2 or sizes[0] != 1 or tokens.dtype_name not in ("int64", "int32"):
        raise InvalidProgram(f"tokens: expected int64 [1, length], got {signature} {_CODE}")
    if len(logits.sizes()) not in (2, 3):
        raise InvalidProgram(
            f"logits: expected [1, vocabulary] or [1, length, vocabulary], got {signature} {_CODE}"
        )
    return sizes[1], tokens.is_dynamic


def _constants(program: Program) -> dict[str, list[Any]]:
    """Results of the constant methods by name."""
    names = ("get_max_context_len", "get_max_seq_len", "get_vocab_size", "get_eos_id")
    known = {*names, "get_eos_ids", *_KEPT, _SINKS} & program.method_names
    return {name: program.load_method(name).execute([]) for name in known}


def _rings(constants: dict[str, list[Any]], capacity: int) -> tuple[Ring, ...] | None:
    """The different caches that keep fewer positions than the context."""
    if not all(name in constants for name in _KEPT):
        return None
    windows, slots = constants["get_cache_windows"], constants["get_cache_slots"]
    sinks = constants.get(_SINKS) or [0] * len(windows)
    for name, numbers in (("get_cache_slots", slots), (_SINKS, sinks)):
        if len(windows) != len(numbers):
            raise InvalidProgram(
                f"{name}: expected {len(windows)} numbers as of get_cache_windows, got "
                f"{len(numbers)} {_CODE}"
            )
    layers = {tuple(map(int, layer)) for layer in zip(windows, slots, sinks, strict=True)}
    return tuple(Ring(*layer) for layer in sorted(layers) if layer[1] < capacity)
