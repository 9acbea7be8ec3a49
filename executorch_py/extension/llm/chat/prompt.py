"""Messages as the tokens of a prompt, in which only the template writes special tokens.

A message may hold the name of a special token, by chance or to deceive: `<|im_end|>` in a question
must stay text. The messages are rendered a second time with random marks in place of their texts,
which shows the special tokens that are the template's own. If the prompt has the same, it is
encoded as one text, with the ids that other libraries have; else its pieces are encoded one by one.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from executorch_py.errors import InvalidArgument
from executorch_py.extension.llm.chat.messages import (
    Message,
    checked_messages,
    names_in,
    with_texts,
)
from executorch_py.extension.llm.chat.special_tokens import special_among
from executorch_py.extension.llm.chat.template import ChatTemplate
from executorch_py.extension.llm.tokenizer import Tokenizer

_ARGUMENT = "[InvalidArgument, error: 0x12]"


def prompt_tokens(
    template: ChatTemplate,
    tokenizer: Tokenizer,
    messages: Sequence[Message],
    *,
    tools: Sequence[Mapping[str, Any]] | None = None,
    parse_special: bool = False,
    **variables: Any,
) -> list[int]:
    """The ids of a conversation, with the beginning of an answer.

    Names of special tokens in messages are text, unless `parse_special`. InvalidArgument as of
    `ChatTemplate.render`, and for such a name in a role, a key or a tool, or in a text that the
    template changes so that it cannot be found in the prompt.
    """
    talk = checked_messages(messages)
    text = template.render(talk, tools=tools, **variables)
    ids = _encoded(tokenizer, text, True)
    if parse_special:
        return ids
    _check_names(tokenizer, talk, tools)
    marks: dict[str, str] = {}

    def marked(original: str) -> str:
        if not original.strip():
            return original
        mark = f"x{secrets.token_hex(12)}x"
        marks[mark] = original
        return mark

    frame = template.render(with_texts(talk, marked), tools=tools, **variables)
    own = special_among(tokenizer, _encoded(tokenizer, frame, True))
    plain = not any(_has_special(tokenizer, original) for original in marks.values())
    if plain and special_among(tokenizer, ids) == own:
        return ids
    pieces = _pieces(text, frame, marks)
    if pieces is None:
        raise InvalidArgument(
            "messages: expected texts without names of special tokens, for the template changes "
            f"texts, got {_first_name(tokenizer, marks.values())}; parse_special=True allows them "
            f"{_ARGUMENT}"
        )
    return [
        token
        for piece, is_message in pieces
        for token in _encoded(tokenizer, piece, not is_message)
    ]


def _check_names(
    tokenizer: Tokenizer, talk: Sequence[Message], tools: Sequence[Mapping[str, Any]] | None
) -> None:
    """Refuses names of special tokens where a template may compare: in roles, keys and tools."""
    named = [*names_in(list(talk), "messages"), *names_in(list(tools or ()), "tools", "name")]
    checked: set[str] = set()
    for place, text in named:
        if text not in checked and _has_special(tokenizer, text):
            raise InvalidArgument(
                f"{place}: expected no name of a special token, got "
                f"{_first_name(tokenizer, [text])}; parse_special=True allows it {_ARGUMENT}"
            )
        checked.add(text)


def _encoded(tokenizer: Tokenizer, text: str, special: bool) -> list[int]:
    return tokenizer.encode(text, add_special_tokens=False, parse_special=special)


def _has_special(tokenizer: Tokenizer, text: str) -> bool:
    return bool(special_among(tokenizer, _encoded(tokenizer, text, True)))


def _first_name(tokenizer: Tokenizer, texts: Any) -> str:
    for text in texts:
        for token in special_among(tokenizer, _encoded(tokenizer, text, True)):
            return repr(tokenizer.token(token).decode("utf-8", "replace"))
    return "one at the border of a text"


def _pieces(text: str, frame: str, marks: Mapping[str, str]) -> list[tuple[str, bool]] | None:
    """The text of a prompt in pieces, each with whether it is a message's; None if texts were
    changed other than by taking blanks from around them."""
    found, at = [], 0
    while marks:
        places = [(frame.find(mark, at), mark) for mark in marks]
        place, mark = min(((p, m) for p, m in places if p >= 0), default=(-1, ""))
        if place < 0:
            break
        found += [(frame[at:place], mark)]
        at = place + len(mark)
    for ways in _WAYS:
        pieces: list[tuple[str, bool]] = []
        for before, mark in found:
            pieces += [(before, False), (ways(marks[mark]), True)]
        pieces.append((frame[at:], False))
        if "".join(piece for piece, _ in pieces) == text:
            return [piece for piece in pieces if piece[0]]
    return _searched(
        text, [before for before, _ in found], [marks[m] for _, m in found], frame[at:]
    )


# Ways in which templates put all texts.
_WAYS: tuple[Callable[[str], str], ...] = (str, str.strip, str.lstrip, str.rstrip)


def _searched(
    text: str, before: Sequence[str], texts: Sequence[str], last: str
) -> list[tuple[str, bool]] | None:
    """As `_pieces`, where a template takes blanks from some texts only."""
    pieces: list[tuple[str, bool]] = []
    at = 0
    for constant, original in zip(before, texts, strict=True):
        if not text.startswith(constant, at):
            return None
        at += len(constant)
        # The longest that is there: a shorter one leaves blanks that no constant begins with.
        ways = sorted({way(original) for way in _WAYS}, key=len, reverse=True)
        put = next((way for way in ways if text.startswith(way, at)), None)
        if put is None:
            return None
        pieces += [(constant, False), (put, True)]
        at += len(put)
    if text[at:] != last:
        return None
    return [piece for piece in [*pieces, (last, False)] if piece[0]]
