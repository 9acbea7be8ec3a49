"""Checks of settings by kind: one sentence with the name, what was expected, and what was given.

Relies on nothing; settings of every stage of an export are checked here when they are made.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import numbers
import operator
from collections.abc import Callable, Collection, Iterable
from typing import Any, TypeVar

_C = TypeVar("_C", bound=type)


def expect_bool(name: str, value: Any) -> None:
    """Refuse what is neither True nor False; 1 and 0, and those of NumPy, count."""
    if not (isinstance(value, bool) or type(value).__name__ == "bool" or value in (0, 1)):
        raise TypeError(f"{name}: expected True or False, got {value!r}")


def is_whole_number(value: Any) -> bool:
    """Whether a value is an int of Python or NumPy; bools are none."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def is_number(value: Any) -> bool:
    """Whether a value is a real number of Python or NumPy; bools are none."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def expect_power_of_two(name: str, value: Any) -> None:
    """Refuse what is no power of two."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name}: expected a power of two, got {value!r}") from None
    if number < 1 or number & (number - 1):
        raise ValueError(f"{name}: expected a power of two, got {value}")


def _is_iterable(value: Any) -> bool:
    """Whether a loop can run over a value: by its iterator, or by its items from number 0 on."""
    try:
        iter(value)
    except TypeError:
        return False
    return True


def expect_list_of_callables(name: str, value: Any, kind: str) -> None:
    """Refuse what is no list of operators, passes or other functions."""
    if isinstance(value, str) or not _is_iterable(value):
        raise TypeError(f"{name}: expected a list of {kind}, got {value!r}")
    for item in value if isinstance(value, Collection) else ():
        if not callable(item):
            raise TypeError(f"{name}: expected {kind} in the list, got {item!r}")


def expect_known(what: str, given: str, known: Iterable[str]) -> None:
    """Refuse a name that is not known; the nearest known ones come first."""
    names = list(known)
    if given not in names:
        near = difflib.get_close_matches(given, names, n=1, cutoff=0.5)
        listed = ", ".join([*near, *(name for name in names if name not in near)])
        raise TypeError(f"{what}: expected one of {listed}; got {given!r}")


def expect_unlike(what: str, given: str, known: Iterable[str]) -> None:
    """Refuse a misspelled name where unknown ones are otherwise ignored, as upstream does."""
    near = difflib.get_close_matches(given, known, n=1, cutoff=0.75)
    if near:
        raise TypeError(f"{what}: expected {near[0]!r}, got {given!r}")


def names_its_settings(cls: _C) -> _C:
    """A dataclass whose unknown keywords are an error that lists the known ones."""
    init: Callable[..., None] = cls.__init__  # type: ignore[misc]
    names = [field.name for field in dataclasses.fields(cls)]

    @functools.wraps(init)
    def checked(self: Any, *args: Any, **kwargs: Any) -> None:
        for name in kwargs:
            expect_known(cls.__name__, name, names)
        init(self, *args, **kwargs)

    cls.__init__ = checked  # type: ignore[misc]
    return cls


def expect_flags(settings: Any) -> None:
    """Check every field of a dataclass that is declared as bool."""
    for field in dataclasses.fields(settings):
        if field.type in ("bool", bool):
            expect_bool(field.name, getattr(settings, field.name))


__all__ = [
    "expect_bool",
    "expect_flags",
    "expect_known",
    "expect_list_of_callables",
    "expect_power_of_two",
    "expect_unlike",
    "is_number",
    "is_whole_number",
    "names_its_settings",
]
