"""Sessions: bits of a fresh session after going back, restoring and wrapping; refused calls."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from support.decoder_files import (
    CAPACITY,
    OWN,
    file_with_positions,
    file_with_start,
    file_with_two_methods,
    file_without_caches,
    own_file,
)

from executorch_py.errors import InvalidArgument, InvalidProgram, InvalidState
from executorch_py.extension.llm.session import Session
from executorch_py.runtime import Program, Runtime

IDS = [5, 17, 42, 3, 9, 11, 12, 44]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    folder = tmp_path_factory.mktemp("decoders")
    made: dict[str, Path] = {}

    def file(name: str) -> Path:
        return made.setdefault(name, made.get(name) or own_file(folder, name))

    return file


def program_of(path: Path) -> Program:
    return Runtime.get().load_program(path)


def prompt(n: int) -> list[int]:
    return np.random.default_rng(4).integers(3, 50, n).tolist()


@pytest.mark.parametrize("name", OWN)
def test_a_prompt_longer_than_a_call_has_the_bits_of_single_tokens(
    files: Callable[[str], Path], name: str
) -> None:
    whole = Session(program_of(files(name)))
    single = Session(whole.program)
    ids = prompt(40)
    logits = whole.prefill(ids)
    assert np.array_equal(logits, [single.step(token) for token in ids][-1])
    assert whole.position == 40 and whole.tokens == ids and logits.shape == (300,)


@pytest.mark.parametrize("name", OWN)
def test_whatever_was_read_before_logits_are_those_of_a_fresh_session(
    files: Callable[[str], Path], tmp_path: Path, name: str
) -> None:
    program, choose = program_of(files(name)), random.Random(5)
    session, reached, refused = Session(program), 0, 0
    for _ in range(60):
        kind = choose.choice(["read", "read", "back", "file"])
        room = CAPACITY - session.position
        if kind == "read" and room:
            ids = [choose.randrange(3, 300) for _ in range(choose.randint(1, min(room, 14)))]
            logits = session.prefill(ids)
            fresh = Session(program)
            assert np.array_equal(logits, fresh.prefill(session.tokens))
            reached = max(reached, session.position)
        elif kind == "back":
            before = session.tokens
            try:
                session.rewind(choose.randint(0, session.position))
            except InvalidArgument:
                refused += 1
                assert session.tokens == before
        elif kind == "file":
            session.save(tmp_path / "state")
            other = Session(program)
            other.prefill(IDS)  # is forgotten
            other.restore(tmp_path / "state")
            session = other
    assert reached > 40 and (refused > 0) == (name != "Llama")


def test_generate_appends_the_first_most_probable_token(files: Callable[[str], Path]) -> None:
    session, steps = Session(files("Llama")), Session(files("Llama"))
    new = session.generate(IDS, 6, stop=())
    logits, wanted = steps.prefill(IDS), []
    for _ in range(6):
        wanted.append(int(logits.argmax()))
        logits = steps.step(wanted[-1])
    assert new == wanted and session.tokens == [*IDS, *wanted]
    # The last token has not been read yet: the next call reads it first.
    assert np.array_equal(session.prefill([7]), steps.step(7))
    assert session.generate(max_new_tokens=2, stop=()) == steps.generate(max_new_tokens=2, stop=())


def test_generate_ends_with_a_stop_token_or_a_full_context(files: Callable[[str], Path]) -> None:
    session = Session(files("Llama"))
    new = session.generate(IDS, stop=())
    assert session.position == CAPACITY and len(new) == CAPACITY - len(IDS)
    session.rewind(0)
    assert session.generate(IDS, stop={new[2]}) == new[: new.index(new[2]) + 1]
    assert session.generate(max_new_tokens=0) == []


def test_sessions_share_the_program_and_nothing_else(files: Callable[[str], Path]) -> None:
    first = Session(program_of(files("Llama")))
    second = Session(first.program)
    a, b = first.program._program.buffer(), second.program._program.buffer()
    assert a.__array_interface__["data"] == b.__array_interface__["data"]
    wanted = first.prefill(IDS)
    second.prefill(IDS[::-1])
    first.rewind(len(IDS) - 1)
    assert np.array_equal(first.step(IDS[-1]), wanted)
    first.close()
    second.step(3)
    with pytest.raises(InvalidState, match="closed"):
        first.step(3)


def test_threads_may_each_have_a_session(files: Callable[[str], Path]) -> None:
    program = program_of(files("Llama"))
    wanted = Session(program).generate(IDS, 30, stop=())
    found: list[list[int]] = []
    threads = [
        threading.Thread(target=lambda: found.append(Session(program).generate(IDS, 30, stop=())))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [wanted] * 4


def test_a_second_thread_in_a_session_is_refused(files: Callable[[str], Path]) -> None:
    session = Session(files("Llama"))
    entered, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with session._use():
            entered.set()
            leave.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    entered.wait(60)
    for call in (lambda: session.step(3), lambda: session.rewind(0), session.close):
        with pytest.raises(InvalidState, match="make a session for each thread"):
            call()
    leave.set()
    thread.join()
    session.step(3)


# What: the call, words of the refusal.
REFUSED: dict[str, tuple[Callable[[Session], object], str]] = {
    "an id above the vocabulary": (
        lambda s: s.prefill([3, 300]),
        r"tokens\[1\]: expected an id from 0 to 299, got 300",
    ),
    "an id below 0": (lambda s: s.step(-1), r"tokens\[0\]: expected an id from 0 to 299, got -1"),
    "no tokens": (lambda s: s.prefill([]), "tokens: expected 1 or more, got none"),
    "fractions": (lambda s: s.prefill([0.5]), "expected a list of whole numbers, got float64"),
    "booleans": (lambda s: s.prefill([True]), "expected a list of whole numbers, got bool"),
    "two rows": (lambda s: s.prefill(np.ones((2, 3), np.int64)), r"got int64 of shape \[2, 3\]"),
    "text": (lambda s: s.prefill("abc"), "expected a list of whole numbers, got <U3"),
    "a prompt beyond the context": (
        lambda s: s.prefill(prompt(43)),
        "tokens: expected at most 40, for the context has 48 positions and 8 are in use, got 43",
    ),
    "more new tokens than there is room for": (
        lambda s: s.generate([3], 40),
        "max_new_tokens: expected 0 to 39, which the context of 48 positions has room for, got 40",
    ),
    "fewer than no new tokens": (lambda s: s.generate([3], -1), "max_new_tokens: expected 0 to 39"),
    "a position beyond": (lambda s: s.rewind(9), "rewind: expected a position from 0 to 8, got 9"),
    "a position before 0": (lambda s: s.rewind(-1), "expected a position from 0 to 8, got -1"),
}


@pytest.mark.parametrize(("call", "words"), REFUSED.values(), ids=REFUSED)
def test_refused_calls_change_nothing(
    files: Callable[[str], Path], call: Callable[[Session], object], words: str
) -> None:
    session, other = Session(files("Llama")), Session(files("Llama"))
    session.prefill(IDS)
    other.prefill(IDS)
    with pytest.raises(InvalidArgument, match=words):
        call(session)
    assert session.position == len(IDS)
    assert np.array_equal(session.step(9), other.step(9))


def test_generating_needs_a_token_to_go_on_from(files: Callable[[str], Path]) -> None:
    session = Session(files("Llama"))
    with pytest.raises(InvalidArgument, match="expected 1 or more at the beginning and after rew"):
        session.generate(max_new_tokens=3)
    session.prefill(IDS)
    session.rewind(4)
    with pytest.raises(InvalidArgument, match="expected 1 or more at the beginning and after rew"):
        session.generate(max_new_tokens=3)


def test_going_back_beyond_what_a_ring_keeps_is_refused_with_the_least_position(
    files: Callable[[str], Path],
) -> None:
    # The window is 6 and a call has up to 9 tokens, so that the rings have 14 positions.
    session = Session(files("Mistral, windows"))
    session.prefill(prompt(14))
    session.rewind(2)
    session.prefill(prompt(26))  # position 28: keys from position 14 on are kept
    with pytest.raises(InvalidArgument, match=r"rewind: expected 0, or 19 to 28, .* got 18"):
        session.rewind(18)
    session.rewind(19)
    # The keys of 20 … 27 took the places of those of 6 … 13, which do not come back.
    with pytest.raises(InvalidArgument, match=r"rewind: expected 0, or 19 to 19, .* got 18"):
        session.rewind(18)
    session.rewind(0)
    session.prefill(prompt(14))
    session.rewind(1)


@pytest.mark.parametrize("one_token", [False, True], ids=["ranges", "single tokens"])
@pytest.mark.parametrize("all_logits", [False, True], ids=["last logits", "all logits"])
def test_programs_with_a_start_position_and_caches_without_names(
    tmp_path: Path, all_logits: bool, one_token: bool
) -> None:
    path = file_with_start(tmp_path / "a.pte", all_logits=all_logits, one_token=one_token)
    session = Session(path)
    single = Session(session.program)
    logits = session.prefill(IDS)
    assert np.array_equal(logits, [single.step(token) for token in IDS][-1])
    session.save(tmp_path / "state")
    wanted = session.generate(max_new_tokens=9)
    with pytest.raises(InvalidArgument, match="rewind: expected 0, got 3: the program does not"):
        session.rewind(3)
    session.rewind(0)
    session.generate(IDS[::-1], 12, stop=())
    session.restore(tmp_path / "state")
    assert session.generate(max_new_tokens=9) == wanted
    session.rewind(0)
    assert np.array_equal(session.prefill(IDS), logits)
    assert session.interface.eos_ids == {49}


def test_programs_with_methods_for_prompts_and_for_single_tokens(tmp_path: Path) -> None:
    one = Session(file_with_start(tmp_path / "one.pte", all_logits=False, one_token=False))
    session = Session(file_with_two_methods(tmp_path / "two.pte"))
    assert (session.interface.method, session.interface.step_method) == ("prefill", "decode")
    assert session.generate(IDS, 20, stop=()) == one.generate(IDS, 20, stop=())
    session.save(tmp_path / "state")
    other = Session(session.program)
    other.restore(tmp_path / "state")
    assert np.array_equal(other.prefill(IDS), one.prefill(IDS))
    alone = Session(session.program, method="prefill")
    one.rewind(0)
    assert alone.generate(IDS, 20, stop=()) == one.generate(IDS, 20, stop=())
    with pytest.raises(InvalidProgram, match="expected a method 'forward' of a decoder, got"):
        Session(session.program, method="forward")


def test_programs_with_a_position_for_each_token(tmp_path: Path) -> None:
    path, model = file_with_positions(tmp_path / "b.pte")
    session = Session(path)
    wanted = model.generate(
        torch.tensor([IDS]), max_new_tokens=10, do_sample=False, eos_token_id=None
    )
    assert session.generate(IDS, 10, stop=()) == wanted[0, len(IDS) :].tolist()
    assert session.capacity == CAPACITY and session.vocabulary == 300


def test_programs_without_caches_read_all_tokens_again(tmp_path: Path) -> None:
    session = Session(file_without_caches(tmp_path / "c.pte"))
    new = session.generate(IDS, 6)
    session.rewind(10)
    session.save(tmp_path / "state")
    assert session.generate(new[2:3], 3) == new[3:]
    session.restore(tmp_path / "state")
    assert session.tokens == [*IDS, *new[:2]]
    assert np.array_equal(
        session.prefill(new[2:3]), Session(session.program).prefill(IDS + new[:3])
    )
    with pytest.raises(InvalidArgument, match="the context has 48 positions and 11 are in use"):
        session.prefill(prompt(38))


@pytest.mark.parametrize(
    ("shapes", "words"),
    [
        ([(1, 5), (1,)], "expected 1 or a range of lengths, got the fixed length 5"),
        ([(2, 1), (1,)], r"tokens: expected int64 \[1, length\]"),
        ([(1, 1), (1,), (1,)], r"expected forward\(tokens\) or forward\(tokens, positions\)"),
        ([(1, 1), (1,)], "expected a constant method 'get_max_context_len' or 'get_max_seq_len'"),
    ],
)
def test_programs_that_are_no_decoders_are_refused(
    tmp_path: Path, shapes: list[tuple[int, ...]], words: str
) -> None:
    from executorch_py.exir import to_edge

    class Sum(torch.nn.Module):
        def forward(self, tokens: torch.Tensor, *rest: torch.Tensor) -> torch.Tensor:
            return (tokens * sum(r.sum() for r in rest)).float()

    inputs = tuple(torch.zeros(shape, dtype=torch.int64) for shape in shapes)
    path = tmp_path / "sum.pte"
    to_edge(torch.export.export(Sum(), inputs)).to_executorch().save(path)
    with pytest.raises(InvalidProgram, match=words):
        Session(path)


def test_sessions_need_no_torch(files: Callable[[str], Path]) -> None:
    code = (
        "import sys\nfrom executorch_py.extension.llm.session import Session\n"
        f"print(Session(sys.argv[1]).generate({IDS}, 5), 'torch' in sys.modules)"
    )
    path = str(files("Llama"))
    out = subprocess.run(
        [sys.executable, "-c", code, path], capture_output=True, text=True, check=True
    )
    assert out.stdout.strip() == f"{Session(path).generate(IDS, 5)} False"
