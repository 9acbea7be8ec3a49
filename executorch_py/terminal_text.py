"""Names from files as text for terminals, warnings and errors.

A name of a program file may hold anything. Characters that are not printable are escaped as in
repr(): controls, marks of direction, separators of lines, bytes that are not UTF-8. Printable
Unicode stays. The middle of a long name is replaced by its length.
csrc/bindings/py_text.h is the counterpart for messages of the extension.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

_LONGEST, _HEAD, _TAIL = 120, 60, 30
_FIRST = 6  # names of a list that may be long
_LAYOUT = "\n\t"  # allowed in a whole message


def _escape(character: str) -> str:
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:  # a byte that is not UTF-8
        code -= 0xDC00
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def _printable(text: str, kept: str = "") -> str:
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in kept else _escape(c) for c in text)


def shortened(name: str) -> str:
    """A name without the middle of a long one; repr() or name_text() must follow."""
    if len(name) <= _LONGEST:
        return name
    return f"{name[:_HEAD]}… ({len(name)} characters) …{name[-_TAIL:]}"


def name_text(name: str) -> str:
    """A name, escaped and shortened."""
    return _printable(shortened(name))


def quoted(name: str) -> str:
    """A name as repr() shows it, shortened."""
    return repr(shortened(name))


def quoted_list(names: Iterable[str]) -> str:
    """Names as repr() shows their list, each shortened."""
    return f"[{', '.join(map(quoted, names))}]"


def first_names(names: Sequence[str]) -> str:
    """The first names of a list that may be long."""
    return f"{quoted_list(names[:_FIRST])}{' and more' if len(names) > _FIRST else ''}"


def message_text(message: str) -> str:
    """A message of one or more lines, escaped; not shortened."""
    return _printable(message, kept=_LAYOUT)
