"""The positions that ring caches still keep, from which follows how far a session may go back."""

from __future__ import annotations

from executorch_py.extension.llm.session.interface import Ring


class KeptPositions:
    """For each ring the oldest position from which on all keys are kept.

    A call that writes positions up to `end` replaces the keys of those before end - slots, but for
    sinks, also of a ring that has been longer in the past: keys of positions that were taken back
    are not kept.
    """

    def __init__(self, rings: tuple[Ring, ...]) -> None:
        self._rings = rings
        self.oldest = [0] * len(rings)

    def write(self, end: int) -> None:
        """Keys of positions before `end` have been written, or may have been."""
        pairs = zip(self.oldest, self._rings, strict=True)
        self.oldest = [
            oldest if end - ring.slots <= ring.sinks else max(oldest, end - ring.slots)
            for oldest, ring in pairs
        ]

    def clear(self) -> None:
        """The context is empty: all positions will be written anew."""
        self.oldest = [0] * len(self._rings)

    def least_position(self) -> int:
        """The smallest position beside 0 from which all windows before it are kept."""
        pairs = zip(self.oldest, self._rings, strict=True)
        needs = [old + ring.window - 1 for old, ring in pairs if old > 0 and ring.window > 1]
        return max(needs, default=0)
