"""The JSON of a request: parsed without surprises, and read field by field with checked types.

Each error names the place, such as messages[0].content. Knows no field's meaning.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection
from typing import Any

from executorch_py.extension.llm.serve.request_error import RequestError, bad_field
from executorch_py.terminal_text import quoted

_NAMES = {dict: "object", str: "string", type(None): "null"}


def read_object(body: bytes) -> dict[str, Any]:
    """The object of a body; RequestError 400 if it is not UTF-8, not JSON, or another value."""
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise RequestError(
            400, f"body: expected UTF-8, got the byte 0x{body[error.start]:02x} at {error.start}"
        ) from None
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except RecursionError:
        raise RequestError(
            400, "body: expected JSON of a few levels, got one that is nested too deeply"
        ) from None
    except ValueError as error:
        raise RequestError(400, f"body: expected JSON, got an error in it: {error}") from None
    if not isinstance(value, dict):
        raise RequestError(400, f"body: expected an object, got {kind_of(value)}")
    return value


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def kind_of(value: Any) -> str:
    """The name of a value's type, for messages."""
    return _NAMES.get(type(value), type(value).__name__)


def text_of(value: Any, path: str) -> str:
    """A string that UTF-8 can write: JSON can escape halves of a surrogate pair."""
    if not isinstance(value, str):
        raise bad_field(path, "a string", kind_of(value))
    try:
        value.encode()
    except UnicodeEncodeError as error:
        half = f"\\u{ord(value[error.start]):04x}"
        raise bad_field(path, "whole characters", f"half a surrogate pair, {half}") from None
    return value


def whole_of(value: Any, path: str, least: int, most: int) -> int:
    """A whole number of a range; 3.0 is one."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise bad_field(path, "a whole number", kind_of(value))
    if not least <= value <= most:
        raise bad_field(path, f"a number from {least} to {most}", _short(value))
    return value


def number_of(value: Any, path: str) -> float:
    """A finite number."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise bad_field(path, "a number", kind_of(value))
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise bad_field(path, "a finite number", "one that is too large")
    return number


def _short(value: int) -> str:
    return str(value) if abs(value) < 10**20 else "a longer one"


class Fields:
    """The fields of an object. A field that is null counts as absent.

    `finish` refuses names that nobody asked for, so that no option is ignored in silence.
    """

    def __init__(self, values: dict[str, Any], path: str = "") -> None:
        self._values = values
        self._prefix = f"{path}." if path else ""
        self._asked: set[str] = set()

    def path(self, name: str) -> str:
        """The place of a field for messages."""
        return f"{self._prefix}{name}"

    def get(self, name: str) -> Any:
        """The value of a field as it stands, None if it is absent."""
        self._asked.add(name)
        return self._values.get(name)

    def text(self, name: str) -> str | None:
        value = self.get(name)
        return None if value is None else text_of(value, self.path(name))

    def needed_text(self, name: str) -> str:
        """A string that may not be absent."""
        return text_of(self.get(name), self.path(name))

    def flag(self, name: str, default: bool = False) -> bool:
        value = self.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise bad_field(self.path(name), "true or false", kind_of(value))
        return value

    def whole(self, name: str, least: int, most: int) -> int | None:
        value = self.get(name)
        return None if value is None else whole_of(value, self.path(name), least, most)

    def number(self, name: str, default: float) -> float:
        value = self.get(name)
        return default if value is None else number_of(value, self.path(name))

    def items(self, name: str, most: int) -> list[Any] | None:
        """A list of at most `most` values."""
        value = self.get(name)
        if value is None:
            return None
        if not isinstance(value, list):
            raise bad_field(self.path(name), "a list", kind_of(value))
        if len(value) > most:
            raise bad_field(self.path(name), f"at most {most} values", str(len(value)))
        return value

    def inner(self, name: str) -> Fields | None:
        """The fields of an object in this one."""
        value = self.get(name)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise bad_field(self.path(name), "an object", kind_of(value))
        return Fields(value, self.path(name))

    def finish(self, ignored: Collection[str] = ()) -> None:
        """RequestError 400 if there is a field that nobody asked for and that is not `ignored`."""
        for name, value in self._values.items():
            if name not in self._asked and name not in ignored and value is not None:
                raise RequestError(
                    400,
                    f"{quoted(self.path(name))}: expected a field that this endpoint has, got an "
                    "unknown one; leave it out",
                    param=self.path(name)[:100],
                    code="unknown_field",
                )
