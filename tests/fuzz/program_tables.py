"""Programs as tables and segments, read and written with nothing moved or checked on the way."""

from __future__ import annotations

import struct
from dataclasses import replace

from fuzz.replayer import GOLDEN

from executorch_py.backends.reference.payload import NO_VALUE, Node, Opcode, Payload
from executorch_py.exir import schema as s
from executorch_py.exir.backend.compile_spec_schema import CompileSpec
from executorch_py.exir.serialize.flatbuffer import Reader, Writer
from executorch_py.exir.serialize.header import ExtendedHeader
from executorch_py.exir.serialize.tables import PROGRAM_IDENTIFIER, program_layouts

PROGRAMS = {path.stem: path for path in GOLDEN if path.suffix == ".pte"}
LAYOUTS = program_layouts()


def read(data: bytes) -> tuple[s.Program, bytes]:
    header = ExtendedHeader.from_file(data)
    size = header.program_size if header else len(data)
    program = Reader(LAYOUTS, data[:size]).root(s.Program, PROGRAM_IDENTIFIER)
    return program, data[header.segment_base_offset :] if header else b""


def write(program: s.Program, segments: bytes) -> bytes:
    writer = Writer(LAYOUTS, PROGRAM_IDENTIFIER, ExtendedHeader.LENGTH)
    chunks = writer.finish(program)
    size = sum(len(chunk) for chunk in chunks)
    base = -(-size // 128) * 128
    writer.head[8:40] = ExtendedHeader(size, base, len(segments)).to_bytes()
    return b"".join(bytes(chunk) for chunk in chunks) + bytes(base - size) + segments


def rare() -> tuple[s.Program, bytes]:
    """add_mul with all features that no golden file has: lists of numbers, an absent list entry, a
    tensor set free, named data, and a delegate whose payload lies inside the tables.
    """
    program, segments = read(PROGRAMS["add_mul"].read_bytes())
    plan = program.execution_plan[0]
    chain = plan.chains[0]
    lists = (s.BoolList([True, False]), s.DoubleList([0.5]), s.OptionalTensorList([-1, 0]))
    last = (s.FreeCall(1), s.DelegateCall(0, [plan.inputs[0], plan.outputs[0]]))
    place = s.BackendDelegateDataReference(s.DataLocation.INLINE, 0)
    plan = replace(
        plan,
        values=[*plan.values, *map(s.EValue, lists)],
        chains=[replace(chain, instructions=[*chain.instructions, *map(s.Instruction, last)])],
        delegates=[s.BackendDelegate("ReferenceBackend", place, [CompileSpec("key", b"value")])],
        non_const_buffer_device=[s.NonConstBufferDevice(1)],
    )
    payload = Payload(1, 1, 0, [Node(Opcode.RELU, 0, NO_VALUE, 1)]).to_bytes()
    program = replace(
        program,
        execution_plan=[plan],
        backend_delegate_data=[s.BackendDelegateInlineData(payload)],
        named_data=[s.NamedData("key", 0)],
    )
    return program, segments


def subject(name: str) -> tuple[s.Program, bytes]:
    return rare() if name == "rare" else read(PROGRAMS[name].read_bytes())


def encoded(program: s.Program, segments: bytes) -> bytes | None:
    """Bytes of a program; None for values that tables cannot contain, as an instruction as a
    value."""
    try:
        return write(program, segments)
    except (ValueError, struct.error):
        return None
