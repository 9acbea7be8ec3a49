"""Errors that a client sees: an HTTP status and the JSON object in which OpenAI's clients look."""

from __future__ import annotations

import re
from typing import Any

_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    500: "server_error",
    503: "unavailable_error",
}
_ERROR_CODE = re.compile(r" \[\w+, error: 0x[0-9a-fA-F]+\]$")


class RequestError(Exception):
    """A request that is not answered, with its reason.

    `param` names the field at fault, and `code` the kind of error for programs.
    """

    def __init__(
        self, status: int, message: str, *, param: str | None = None, code: str | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.param = param
        self.code = code
        self.headers: dict[str, str] = {}

    def body(self) -> dict[str, Any]:
        """The object `{"error": {"message", "type", "param", "code"}}`."""
        return {
            "error": {
                "message": self.message,
                "type": _TYPES.get(self.status, "invalid_request_error"),
                "param": self.param,
                "code": self.code,
            }
        }


class ClientGone(Exception):
    """The client closed its connection, or reads too slowly: nobody waits for the answer."""


def bad_field(path: str, expected: str, got: str, code: str | None = None) -> RequestError:
    """The error 400 of a field that has another value than the one expected."""
    return RequestError(400, f"{path}: expected {expected}, got {got}", param=path, code=code)


def refused_value(error: Exception) -> RequestError:
    """The error 400 of a value that a layer below refuses, in its words."""
    message = _ERROR_CODE.sub("", str(error))
    name = re.match(r"(\w+): ", message)
    return RequestError(400, message, param=name[1] if name else None, code="invalid_value")
