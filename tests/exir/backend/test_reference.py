"""The reference delegate's payload has the format of its README; other bytes are refused."""

from __future__ import annotations

import struct

import pytest

from executorch_py.backends.reference.payload import NO_VALUE, Node, Opcode, Payload

PAYLOAD = Payload(
    2,
    1,
    1,
    [Node(Opcode.MUL, 0, 1, 3), Node(Opcode.RELU, 3, NO_VALUE, 2)],
    [(4, "abcde")],
)


def test_the_bytes_are_those_of_the_readme() -> None:
    wanted = b"ETRF" + struct.pack("<5I", 1, 2, 1, 1, 2)
    wanted += struct.pack("<4I", 3, 0, 1, 3) + struct.pack("<4I", 4, 3, 0xFFFFFFFF, 2)
    wanted += struct.pack("<3I", 1, 4, 5) + b"abcde\0\0\0"
    assert PAYLOAD.to_bytes() == wanted


def test_payloads_survive_a_round_trip() -> None:
    assert Payload.from_bytes(PAYLOAD.to_bytes()) == PAYLOAD


def test_every_truncation_and_every_extra_byte_is_refused() -> None:
    data = PAYLOAD.to_bytes()
    for damaged in [data[:size] for size in range(len(data))] + [data + b"\0"]:
        with pytest.raises(ValueError, match="reference payload"):
            Payload.from_bytes(damaged)


def test_other_versions_are_refused() -> None:
    data = bytearray(PAYLOAD.to_bytes())
    data[4] = 2
    with pytest.raises(ValueError, match="expected version 1, got 2"):
        Payload.from_bytes(bytes(data))
