"""Stop strings that begin in one piece of a text and end in another."""

from __future__ import annotations

import random

from executorch_py.extension.llm.runner.stop_text import StopText


def given(stops: list[str], pieces: list[str]) -> tuple[str, str | None]:
    text = StopText(stops)
    out = ""
    for piece in pieces:
        out += text.push(piece)
        if text.found is not None:
            return out, text.found
    return out + text.end(), None


def test_a_text_ends_before_the_first_stop_string_however_it_is_cut() -> None:
    draw = random.Random(5)
    for _ in range(2000):
        text = "".join(draw.choices("ab", k=30))
        stops = ["".join(draw.choices("ab", k=draw.randint(3, 6))) for _ in range(2)]
        pieces, at = [], 0
        while at < len(text):
            n = draw.randint(1, 4)
            pieces.append(text[at : at + n])
            at += n
        out, found = given(stops, pieces)
        ends = [text.find(s) + len(s) for s in stops if s in text]
        if not ends:
            assert (out, found) == (text, None)
        else:
            assert found in stops and (out + found) == text[: len(out) + len(found)]
            assert not any(stop in out for stop in stops)


def test_text_that_cannot_become_a_stop_string_is_not_held_back() -> None:
    text = StopText(["</end>"])
    assert text.push("a <") == "a "
    assert text.push("b") == "<b"
    assert text.push("</en") == ""
    assert text.end() == "</en"
