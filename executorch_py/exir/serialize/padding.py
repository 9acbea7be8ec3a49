"""Padding: zeros between the parts of a file."""

from executorch_py.exir.serialize.header import align_up


def padding_required(offset: int, alignment: int) -> int:
    """Bytes from `offset` to the next multiple of `alignment`."""
    return align_up(offset, alignment) - offset


def aligned_size(input_size: int, alignment: int) -> int:
    """The size rounded up to a multiple of `alignment`."""
    return align_up(input_size, alignment)


def pad_to(data: bytes, length: int) -> bytes:
    """The data followed by zeros, `length` bytes in all."""
    if len(data) > length:
        raise ValueError(f"{len(data)} bytes cannot be padded to {length}")
    return data.ljust(length, b"\0")
