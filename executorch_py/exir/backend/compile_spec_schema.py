"""CompileSpec: one (key, bytes) setting a partitioner hands to its backend and the file stores."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class CompileSpec:
    """One setting for a backend, which alone knows what its bytes mean."""

    key: str
    value: bytes
