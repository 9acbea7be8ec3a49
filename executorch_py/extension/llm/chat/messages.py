"""Messages of a conversation, checked: a list of {role, content}, as files of JSON have them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from executorch_py.errors import InvalidArgument

Message = Mapping[str, Any]
_ARGUMENT = "[InvalidArgument, error: 0x12]"
_KEPT = {"role", "type", "name", "id", "tool_call_id"}  # names, not texts


def checked_messages(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """The messages as dictionaries; InvalidArgument with the place of a wrong one.

    A role is a text. A content is a text, a list of parts (dictionaries with a type), or None in a
    message that calls tools.
    """
    if isinstance(messages, str | bytes | Mapping) or not isinstance(messages, Sequence):
        raise _wrong("messages", "a list of {role, content}", messages)
    if not messages:
        raise InvalidArgument(f"messages: expected 1 or more, got none {_ARGUMENT}")
    found = []
    for i, message in enumerate(messages):
        place = f"messages[{i}]"
        if not isinstance(message, Mapping) or not all(isinstance(key, str) for key in message):
            raise _wrong(place, "a dictionary with role and content", message)
        if not isinstance(message.get("role"), str):
            raise _wrong(f"{place}['role']", "a text such as 'user'", message.get("role"))
        _check_content(place, message)
        found.append(dict(message))
    return found


def _check_content(place: str, message: Message) -> None:
    content = message.get("content")
    if isinstance(content, str) or (content is None and message.get("tool_calls")):
        return
    if not isinstance(content, list) or not content:
        raise _wrong(f"{place}['content']", "a text or a list of parts", content)
    for j, part in enumerate(content):
        if not isinstance(part, Mapping) or not isinstance(part.get("type"), str):
            raise _wrong(f"{place}['content'][{j}]", "a dictionary with a type", part)


def _wrong(place: str, expected: str, value: Any) -> InvalidArgument:
    got = "none" if value is None else f"{type(value).__name__}"
    return InvalidArgument(f"{place}: expected {expected}, got {got} {_ARGUMENT}")


def with_texts(messages: Sequence[Message], change: Callable[[str], str]) -> list[dict[str, Any]]:
    """The messages with each text in them changed; roles, types and names stay."""
    return [{key: _changed(key, value, change) for key, value in m.items()} for m in messages]


def names_in(value: Any, place: str, key: str = "") -> Iterator[tuple[str, str]]:
    """The names in messages, which `with_texts` does not change, each with its place: keys, roles,
    types. With a `key` of "name", all texts are names."""
    if isinstance(value, str):
        if key in _KEPT:
            yield place, value
    elif isinstance(value, Mapping):
        for inner, item in value.items():
            yield place, str(inner)
            yield from names_in(item, f"{place}[{inner!r}]", key if key == "name" else inner)
    elif isinstance(value, list | tuple):
        for i, item in enumerate(value):
            yield from names_in(item, f"{place}[{i}]", key)


def _changed(key: str, value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return value if key in _KEPT else change(value)
    if isinstance(value, Mapping):
        return {inner: _changed(inner, item, change) for inner, item in value.items()}
    if isinstance(value, list | tuple):
        return [_changed(key, item, change) for item in value]
    return value
