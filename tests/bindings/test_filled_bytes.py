"""_C.filled_bytes: a function writes the contents of a bytes object in place."""

from __future__ import annotations

import pytest

from executorch_py import _C


@pytest.mark.parametrize("size", [0, 1, 1000, 40 << 20])
def test_bytes_have_what_the_function_wrote(size: int) -> None:
    def fill(memory: memoryview) -> None:
        assert memory.nbytes == size and not memory.readonly
        memory[:] = (b"abc" * size)[:size]

    assert _C.filled_bytes(size, fill) == (b"abc" * size)[:size]


def test_an_error_of_the_function_is_raised() -> None:
    def fill(memory: memoryview) -> None:
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        _C.filled_bytes(10, fill)


def test_a_view_that_is_kept_keeps_its_memory() -> None:
    kept: list[memoryview] = []

    def fail(memory: memoryview) -> None:
        kept.append(memory[1:])
        raise ValueError("no bytes")

    with pytest.raises(ValueError, match="no bytes"):
        _C.filled_bytes(40 << 20, fail)
    kept[0][-2:] = b"ab"
    assert kept[0][-2:] == b"ab"


def test_a_negative_size_is_refused() -> None:
    with pytest.raises(ValueError, match="expected 0 or more, got -1"):
        _C.filled_bytes(-1, lambda memory: None)
