"""Charsmaps of SentencePiece for tests: a double-array trie of keys, and their replacements.

A unit of the trie is 32 bits: label 0…7, "has a leaf" 8, "offset is a multiple of 256" 9, offset
10…30; a leaf has bit 31 and the place of its replacement. The children of a unit are at
(place ^ offset) ^ label, its leaf at place ^ offset. The replacements are one text with a NUL
behind each.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from itertools import count


class _Trie:
    def __init__(self) -> None:
        self.units: dict[int, int] = {0: 0}
        self.bases: set[int] = set()
        self.start = 1  # bases below are not tried

    def place(self, labels: list[int], parent: int) -> int:
        """A new base whose children are free, at a distance from the parent that can be written.

        Units check labels only, so that no two of them may have one base.
        """
        for base in count(self.start):
            offset = parent ^ base
            writable = offset < 1 << 21 or offset % 256 == 0
            taken = base in self.bases or any(base ^ label in self.units for label in labels)
            if writable and not taken:
                self.bases.add(base)
                if base - self.start > 100:
                    self.start = base - 50
                return base
        raise AssertionError

    def add(self, at: int, keys: list[tuple[bytes, int]], depth: int) -> None:
        groups: dict[int, list[tuple[bytes, int]]] = {}
        leaf = None
        for key, value in keys:
            if len(key) == depth:
                leaf = value
            else:
                groups.setdefault(key[depth], []).append((key, value))
        labels = [*groups, *([] if leaf is None else [0])]
        base = self.place(labels, at)
        offset = at ^ base
        self.units[at] |= offset << 10 if offset < 1 << 21 else offset << 2 | 1 << 9
        if leaf is not None:
            self.units[at] |= 1 << 8
            self.units[base] = leaf | 1 << 31
        for label in groups:
            self.units[base ^ label] = label
        for label, group in groups.items():
            self.add(base ^ label, group, depth + 1)


def make_charsmap(replacements: Mapping[str, str]) -> bytes:
    """The bytes of a charsmap that replaces the keys."""
    strings = b""
    keys = []
    for key, value in replacements.items():
        keys.append((key.encode(), len(strings)))
        strings += value.encode() + b"\0"
    trie = _Trie()
    trie.add(0, keys, 0)
    size = (max(trie.units) | 255) + 1
    # An unused unit has a label that no byte reaches: children of base b are at b ^ label.
    units = [trie.units.get(i, 1 << 31) for i in range(size)]
    return struct.pack(f"<I{size}I", 4 * size, *units) + strings
