"""Writer and reader of the reference delegate's payload, which README.md beside this file defines.

Knows neither torch nor graphs.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from enum import IntEnum

MAGIC = b"ETRF"
VERSION = 1
NO_VALUE = 0xFFFFFFFF


class Opcode(IntEnum):
    """Operations of the payload."""

    ADD = 1
    SUB = 2
    MUL = 3
    RELU = 4


@dataclass(frozen=True)
class Node:
    """One operation, out = opcode(in0, in1); in1 is NO_VALUE for one operand."""

    opcode: Opcode
    in0: int
    in1: int
    out: int


@dataclass
class Payload:
    """A list of element-wise operations over numbered values.

    Ids count inputs, then outputs, then temporaries, then constants (id, key in named data).
    """

    n_inputs: int
    n_outputs: int
    n_temps: int = 0
    nodes: list[Node] = field(default_factory=list)
    constants: list[tuple[int, str]] = field(default_factory=list)

    def to_bytes(self) -> bytes:
        counts = (VERSION, self.n_inputs, self.n_outputs, self.n_temps, len(self.nodes))
        data = MAGIC + struct.pack("<5I", *counts)
        for node in self.nodes:
            data += struct.pack("<4I", node.opcode, node.in0, node.in1, node.out)
        data += struct.pack("<I", len(self.constants))
        for value, key in self.constants:
            text = key.encode()
            data += struct.pack("<2I", value, len(text)) + text + bytes(-len(text) % 4)
        return data

    @classmethod
    def from_bytes(cls, data: bytes) -> Payload:
        """Read a payload; raises ValueError for malformed bytes."""
        if len(data) < 28 or data[:4] != MAGIC:
            raise ValueError(
                f"reference payload: expected {MAGIC!r} at its start, got {data[:4]!r}"
            )
        version, n_inputs, n_outputs, n_temps, n_nodes = struct.unpack_from("<5I", data, 4)
        if version != VERSION:
            raise ValueError(f"reference payload: expected version {VERSION}, got {version}")
        try:
            made, position = cls(n_inputs, n_outputs, n_temps), 24
            for _ in range(n_nodes):
                code, *values = struct.unpack_from("<4I", data, position)
                made.nodes.append(Node(Opcode(code), *values))
                position += 16
            (n_constants,) = struct.unpack_from("<I", data, position)
            position += 4
            for _ in range(n_constants):
                value, length = struct.unpack_from("<2I", data, position)
                text = struct.unpack_from(f"{length}s", data, position + 8)[0]
                made.constants.append((value, text.decode()))
                position += 8 + length + -length % 4
        except struct.error as error:
            raise ValueError(f"reference payload of {len(data)} bytes is truncated") from error
        if position != len(data):
            raise ValueError(f"reference payload: expected {position} bytes, got {len(data)}")
        return made
