"""Sockets of clients: reads with a deadline for all of a request, and whether a client has left."""

from __future__ import annotations

import io
import math
import select
import socket
import time

LINGER_SECONDS = 2.0
_PIECE = 2**16


class DeadlineReader(io.RawIOBase):
    """The bytes that a client sends. After `deadline`, on the clock `time.monotonic`, a read raises
    TimeoutError: a client that sends a byte now and then keeps no thread busy for ever."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self.deadline = math.inf

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("the client sends its request too slowly")
        self._connection.settimeout(left if left < math.inf else None)
        try:
            return self._connection.recv_into(buffer)  # type: ignore[arg-type]
        except ConnectionError:  # a reset is an end, too
            return 0


def has_left(connection: socket.socket) -> bool:
    """Whether the other side has closed a connection. Bytes that wait to be read stay there."""
    try:
        poll = select.poll()
        poll.register(connection, select.POLLIN)
        if not poll.poll(0):
            return False
        return connection.recv(1, socket.MSG_PEEK) == b""
    except (OSError, ValueError):  # reset, or closed on this side
        return True


def linger(connection: socket.socket) -> None:
    """Ends the sending side, and reads for a moment what the client still sends: closing at once
    would make the client's system discard the answer before it is read."""
    end = time.monotonic() + LINGER_SECONDS
    try:
        connection.shutdown(socket.SHUT_WR)
        while (left := end - time.monotonic()) > 0:
            connection.settimeout(left)
            if not connection.recv(_PIECE):
                return
    except OSError:
        return
