"""A session as the decoder of the C library's loop (_C.Decoder)."""

from __future__ import annotations

import numpy as np

from executorch_py.errors import InvalidArgument
from executorch_py.extension.llm.session import Session


class SessionDecoder:
    """Reads with a session, whose tokens are the context."""

    def __init__(self, session: Session) -> None:
        facts = session.interface
        self._session = session
        self.capacity = facts.capacity
        self.longest = facts.longest
        self.most_rows = facts.most_rows
        self.vocabulary = facts.vocabulary

    def keep(self, ids: list[int], /) -> int:
        """Takes back tokens until the context is the beginning of these; returns its length.

        At least one token is left to be read, as its logits are wanted.
        """
        context = self._session.tokens
        same = 0
        while same < min(len(context), len(ids) - 1) and context[same] == ids[same]:
            same += 1
        try:
            self._session.rewind(same)
        except InvalidArgument:  # the caches do not keep these positions
            self._session.rewind(0)
            return 0
        return same

    def read(self, ids: list[int], rows: int, /) -> np.ndarray:
        """The logits f32 [rows, vocabulary] after the last tokens."""
        if rows == 1:
            return self._session.prefill(ids)
        return self._session.logits(ids)[-rows:]

    def rewind(self, position: int, /) -> None:
        """Takes back all tokens from a position on."""
        self._session.rewind(position)
