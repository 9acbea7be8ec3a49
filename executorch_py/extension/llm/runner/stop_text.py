"""Stop strings in a text that comes in pieces: they may begin in one piece and end in another."""

from __future__ import annotations

from collections.abc import Sequence


class StopText:
    """Holds back the end of a text while it may be the beginning of a stop string."""

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = [stop for stop in stops if stop]
        self._held = ""
        self.found: str | None = None

    def push(self, piece: str) -> str:
        """The text that no stop string can begin in any more; `found` is set when one is there.

        The one that begins first, of several, ends the text before its first letter.
        """
        text = self._held + piece
        places = [(text.find(stop), stop) for stop in self._stops if stop in text]
        if places:
            place, self.found = min(places)
            self._held = ""
            return text[:place]
        keep = max((_overlap(text, stop) for stop in self._stops), default=0)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep]

    def end(self) -> str:
        """The text that was held back, when the text ends without a stop string."""
        text, self._held = self._held, ""
        return text


def _overlap(text: str, stop: str) -> int:
    """The letters at the end of a text that are the beginning of a stop string."""
    for n in range(min(len(text), len(stop) - 1), 0, -1):
        if text.endswith(stop[:n]):
            return n
    return 0
