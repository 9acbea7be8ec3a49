"""Sessions of one program, lent to one request each, in the order in which the requests came.

Knows neither HTTP nor text: a request brings the ids of its prompt.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from executorch_py.extension.llm.runner import TextRunner
from executorch_py.extension.llm.serve.request_error import ClientGone, RequestError

POLL_SECONDS = 0.05  # between two looks at whether a waiting client is still there


class SessionPool:
    """Runners with a session each, and the requests that wait for one.

    `max_waiting` requests wait when all sessions are in use; the next one is refused.
    """

    def __init__(self, runners: Sequence[TextRunner], max_waiting: int) -> None:
        self.size = len(runners)
        self._max_waiting = max_waiting
        self._idle = list(runners)  # the least recently used one first
        self._waiting: deque[object] = deque()
        self._changed = threading.Condition()

    @property
    def n_idle(self) -> int:
        """Sessions that no request uses."""
        return len(self._idle)

    @contextmanager
    def lease(self, ids: Sequence[int], is_gone: Callable[[], bool]) -> Iterator[TextRunner]:
        """The runner for a prompt, for the time of a `with` block.

        RequestError 503 if too many requests wait already; ClientGone if `is_gone()` becomes true
        while this one does.
        """
        runner = self._take(ids, is_gone)
        try:
            yield runner
        finally:
            with self._changed:
                self._idle.append(runner)
                self._changed.notify_all()

    def _take(self, ids: Sequence[int], is_gone: Callable[[], bool]) -> TextRunner:
        with self._changed:
            free = len(self._idle) - len(self._waiting)
            if free <= 0 and len(self._waiting) >= self._max_waiting:
                error = RequestError(
                    503,
                    f"expected a session to be free or fewer than {self._max_waiting} requests to "
                    f"wait, got {self.size} sessions in use and {len(self._waiting)} requests "
                    "waiting; try again later",
                    code="server_busy",
                )
                error.headers["Retry-After"] = "1"
                raise error
            ticket = object()
            self._waiting.append(ticket)
            try:
                while self._waiting[0] is not ticket or not self._idle:
                    if is_gone():
                        raise ClientGone("the client left while its request waited")
                    self._changed.wait(POLL_SECONDS)
                return self._idle.pop(_best(self._idle, ids))
            finally:
                self._waiting.remove(ticket)
                self._changed.notify_all()


def _best(runners: Sequence[TextRunner], ids: Sequence[int]) -> int:
    """The place of the runner whose context has most of a prompt's beginning, if that is half of
    the prompt or more; else of the least recently used one, so that other conversations stay."""
    shared = [_shared(runner.session.tokens, ids) for runner in runners]
    most = max(shared)
    return shared.index(most) if 2 * most >= len(ids) else 0


def _shared(first: Sequence[int], second: Sequence[int]) -> int:
    """Length of the common beginning."""
    n = 0
    for a, b in zip(first, second, strict=False):
        if a != b:
            break
        n += 1
    return n
