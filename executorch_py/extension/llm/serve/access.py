"""The clients that are answered: none driven by a web page of another origin, none without key."""

from __future__ import annotations

import hmac
import ipaddress
from email.message import Message
from urllib.parse import urlsplit

from executorch_py.errors import InvalidArgument
from executorch_py.extension.llm.serve.request_error import RequestError
from executorch_py.terminal_text import quoted

_PUBLIC = ("/health",)  # answered without a key


class Access:
    """The checks of a request's headers.

    A page that a browser shows may send requests to this machine, as its own origin (refused by
    `Origin`) or under a name that its owner lets point here (refused by `Host`, if the server is
    bound to a loopback address, whose names are known).
    """

    def __init__(self, host: str, address: str, api_key: str | None) -> None:
        self._names = {"localhost", host.lower()} if is_loopback(address) else None
        self._key = None if api_key is None else api_key.encode()

    def check(self, headers: Message, path: str) -> None:
        """RequestError 401 or 403 if a request is not to be answered."""
        host = headers.get("Host")
        self._check_host(host)
        origin = headers.get("Origin")
        if origin is not None and (host is None or _netloc(origin) != host.lower()):
            raise RequestError(
                403,
                f"Origin: expected none or this server's, got {quoted(origin)}: web pages of other "
                "origins are not answered",
                code="origin",
            )
        if self._key is not None and path not in _PUBLIC:
            self._check_key(headers.get("Authorization") or "")

    def _check_host(self, host: str | None) -> None:
        if self._names is None or host is None:
            return
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            name = ""
        if name not in self._names and not is_loopback(name):
            raise RequestError(
                403,
                f"Host: expected localhost or the address that the server is bound to, got "
                f"{quoted(host)}",
                code="host",
            )

    def _check_key(self, authorization: str) -> None:
        kind, _, key = authorization.partition(" ")
        sent = key.strip().encode("latin-1", "replace")  # the bytes, which the parser took so
        if kind.lower() != "bearer" or not hmac.compare_digest(sent, self._key or b""):
            got = "another one" if authorization else "none"
            error = RequestError(
                401,
                f"Authorization: expected 'Bearer KEY' with the server's key, got {got}",
                code="invalid_api_key",
            )
            error.headers["WWW-Authenticate"] = "Bearer"
            raise error


def check_key(api_key: str | None) -> None:
    """InvalidArgument for a key that every client has."""
    if api_key == "":
        raise InvalidArgument(
            "api_key: expected 1 character or more, got none [InvalidArgument, error: 0x12]"
        )


def _netloc(origin: str) -> str:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


def is_loopback(address: str) -> bool:
    """Whether an address is one of this machine alone; names other than addresses are not."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False
