"""Damaged copies of a file, for readers that have to refuse them or read them."""

from __future__ import annotations

import random
from collections.abc import Iterator


def damaged_copies(whole: bytes, count: int, seed: int = 0) -> Iterator[bytes]:
    """`count` copies: the first half cut off at every length in turn, the others with one to three
    bytes changed."""
    generator = random.Random(seed)
    for i in range(count):
        if i < count // 2:
            yield whole[: i % len(whole)]
            continue
        data = bytearray(whole)
        for _ in range(1 + i % 3):
            data[generator.randrange(len(data))] = generator.randrange(256)
        yield bytes(data)
