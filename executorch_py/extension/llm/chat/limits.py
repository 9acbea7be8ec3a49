"""Limits of what a chat template may take: steps, characters and processor time.

A template comes with a model's file and may be hostile. Sizes are known before memory is taken.
Knows no Jinja.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from typing import Any

MOST_STEPS = 500_000  # loops' rounds, calls, filters and operators
MOST_SIZE = 1 << 22  # characters of a value; more if the messages are longer
MOST_MADE = 1 << 27  # characters of all values together
MOST_SECONDS = 5.0  # of the thread's processor time
_MOST_WIDTH = 10_000  # of center(), indent() and their like
_MOST_DEPTH = 100
_MOST_BITS = 4096  # of a whole number
_ELEMENT = 8  # characters that an element of a list counts for
_LONG_NUMBER = re.compile(r"\d{5}|\*|\{[^{}]*\{")  # in a format: a width that is long or computed

_WIDE = {"batch", "center", "expandtabs", "indent", "ljust", "rjust", "round", "slice", "truncate"}
_WIDE |= {"zfill"}


class LimitReached(Exception):
    """A template that takes more than it may; the text says what of."""


class TrackedText(str):
    """A text that notes when a template looks into it, instead of putting it out as it is."""

    __slots__ = ()

    def look(self, how: str) -> None:
        """Notes that something other than this text may depend on it."""


class Budget:
    """Counts what one rendering takes; LimitReached beyond the limits.

    `given` are the values that the template gets: they never change, so that each is measured once.
    """

    def __init__(self, given: Mapping[str, Any]) -> None:
        self._known: dict[int, int] = {}
        self._most = 1 << 62
        inputs = sum(self._know(value) for value in given.values())
        self._most = max(MOST_SIZE, 4 * inputs)
        self._most_made = max(MOST_MADE, 64 * inputs)
        self._steps, self._made = 0, 0
        self._until = time.thread_time() + MOST_SECONDS

    def _know(self, value: Any) -> int:
        size = self.measure(value)
        if isinstance(value, list | tuple | dict):
            for item in value.values() if isinstance(value, dict) else value:
                self._know(item)
            self._known[id(value)] = size
        return size

    def step(self, size: int = 0) -> None:
        """Counts one step, and the characters that it makes."""
        self._steps += 1
        self._made += size
        if self._steps > MOST_STEPS:
            raise LimitReached(f"{MOST_STEPS:,} steps")
        if self._made > self._most_made:
            raise LimitReached(f"{self._most_made:,} characters in all")
        if time.thread_time() > self._until:
            raise LimitReached(f"{MOST_SECONDS:g} seconds")

    def expect(self, size: int) -> None:
        """Refuses a value of this size before it is made."""
        if size > self._most:
            raise LimitReached(f"{self._most:,} characters of a value")

    def made(self, value: Any) -> Any:
        """Counts a value that was made; returns it."""
        self.step(self.measure(value))
        return value

    def counted(self, items: Iterable[Any]) -> Iterator[Any]:
        """The items, each a step."""
        for item in items:
            self.step()
            yield item

    def measure(self, value: Any, found: Callable[[TrackedText], None] | None = None) -> int:
        """Characters of a value's text, about. A value that is in it twice counts twice.

        `found` is called with each tracked text in it.
        """
        size, todo = 0, [(value, 0)]
        while todo:
            item, depth = todo.pop()
            if isinstance(item, str):
                size += str.__len__(item)
                if found is not None and isinstance(item, TrackedText):
                    found(item)
            elif found is None and id(item) in self._known:
                size += self._known[id(item)]
            elif isinstance(item, int):
                size += 1 + item.bit_length() // 3
            else:
                inner = _contents(item)
                size += 2 * _ELEMENT + _ELEMENT * len(inner)
                self.expect(size)
                if depth > _MOST_DEPTH:
                    raise LimitReached(f"{_MOST_DEPTH} lists in one another")
                todo += [(each, depth + 1) for each in inner]
            self.expect(size)
        return size

    # ---- operations that make much of little

    def check_call(self, name: str, values: tuple[Any, ...], named: Mapping[str, Any]) -> None:
        """Refuses a call of a filter or a text's method that would make too much."""
        arguments = [*values[1:], *named.values()]
        if name in _WIDE and any(isinstance(x, int) and abs(x) > _MOST_WIDTH for x in arguments):
            raise LimitReached(f"{name}() with {_MOST_WIDTH:,} places")
        if name in ("indent", "expandtabs") and values:
            text = str(values[0])
            steps = [x if isinstance(x, int) else len(x) for x in arguments if _sized(x)]
            lines = text.count("\n") + text.count("\t") + 1
            self.expect(len(text) + lines * max([8, *steps]))
        elif name == "replace" and len(arguments) >= 2:
            text, old, new = str(values[0]), str(arguments[0]), str(arguments[1])
            self.expect(len(text) + text.count(old) * len(new))
        elif name == "format" and values:
            self.check_format(str(values[0]), arguments)

    def check_format(self, pattern: str, arguments: Any) -> None:
        """Refuses a format that would make too much of its arguments."""
        if _LONG_NUMBER.search(pattern):
            raise LimitReached(f"a format with {_MOST_WIDTH:,} places, or with computed ones")
        uses = pattern.count("%") + pattern.count("{")
        self.expect(len(pattern) + uses * (_MOST_WIDTH + self.measure(arguments)))

    def check_operator(self, operator: str, left: Any, right: Any) -> None:
        """Refuses an operation whose result would be too large."""
        if operator == "%" and isinstance(left, str):
            self.check_format(left, right)
        elif operator == "**" and isinstance(left, int) and isinstance(right, int):
            if left.bit_length() * max(0, right) > _MOST_BITS:
                raise LimitReached(f"a number of {_MOST_BITS:,} bits")
        elif operator == "*" and isinstance(left, int) and isinstance(right, int):
            if left.bit_length() + right.bit_length() > _MOST_BITS:
                raise LimitReached(f"a number of {_MOST_BITS:,} bits")
        elif operator == "*":
            for many, value in ((left, right), (right, left)):
                if isinstance(many, int) and not isinstance(value, int | float):
                    self.expect(max(0, many) * self.measure(value))
        elif operator == "+":
            self.expect(self.measure(left) + self.measure(right))


def _sized(value: Any) -> bool:
    return isinstance(value, int | str)


def _contents(item: Any) -> list[Any]:
    """Values in a container of a template; none in anything else."""
    if isinstance(item, dict):
        return [*item, *item.values()]
    if isinstance(item, list | tuple | set | frozenset | KeysView | ValuesView | ItemsView):
        return list(item)
    held = getattr(type(item), "held", None)  # the namespaces of templates
    return list(held(item)) if callable(held) else []
