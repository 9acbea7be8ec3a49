"""The flatbuffer writer and reader: tables match dataclasses, values survive, damage is refused."""

from __future__ import annotations

import dataclasses
import math
import random

import pytest

from executorch_py.exir import schema as s
from executorch_py.exir.backend.compile_spec_schema import CompileSpec
from executorch_py.exir.serialize.flatbuffer import FlatbufferError, Reader, Writer
from executorch_py.exir.serialize.tables import PROGRAM_IDENTIFIER, program_layouts

VALUES = [
    s.Null(),
    s.Int(0),
    s.Int(-(2**63)),
    s.Int(2**63 - 1),
    s.Bool(False),
    s.Bool(True),
    s.Double(-0.0),
    s.Double(math.inf),
    s.Double(-math.inf),
    s.Double(1e-300),
    s.String(""),
    s.String("größe ✓"),
    s.IntList([0, 1, 2]),
    s.IntList([]),
    s.DoubleList([0.5, -math.inf]),
    s.BoolList([True, False, True]),
    s.TensorList([20]),
    s.OptionalTensorList([-1, 20]),
    s.Tensor(s.ScalarType.FLOAT, 0, [], [], True, 0, 7, None, s.TensorShapeDynamism.STATIC),
    s.Tensor(
        s.ScalarType.BYTE,
        0,
        [2, 0, 3],
        [0, 2, 1],
        False,
        0,
        0,
        s.AllocationDetails(2, 16, 1),
        s.TensorShapeDynamism.DYNAMIC_BOUND,
        s.ExtraTensorInfo(0, "a.b", s.TensorDataLocation.EXTERNAL),
    ),
]
INSTRUCTIONS = [
    s.KernelCall(0, [0, 1]),
    s.DelegateCall(0, [2]),
    s.MoveCall(1, 2),
    s.JumpFalseCall(4, 0),
    s.FreeCall(3),
]


def program_with_everything() -> s.Program:
    """A program in which every table of the format occurs."""
    chain = s.Chain(
        [],
        [],
        [s.Instruction(args) for args in INSTRUCTIONS],
        [s.FrameList([s.Frame("m.py", 3, "forward", "x + 1")]) for _ in INSTRUCTIONS],
    )
    place = s.BackendDelegateDataReference(s.DataLocation.INLINE, 0)
    plan = s.ExecutionPlan(
        name="forward",
        container_meta_type=s.ContainerMetadata("in", "out"),
        values=[s.EValue(value) for value in VALUES],
        inputs=[1],
        outputs=[2, 3],
        chains=[chain],
        operators=[s.Operator("aten::add", "out"), s.Operator("aten::copy_", "")],
        delegates=[s.BackendDelegate("Some", place, [CompileSpec("k", b"\x01\x02")])],
        non_const_buffer_sizes=[0, 2**40],
        non_const_buffer_device=[s.NonConstBufferDevice(1, s.DeviceType.CUDA, 1)],
    )
    return s.Program(
        version=0,
        execution_plan=[plan],
        constant_buffer=[s.Buffer(b"abc")],
        backend_delegate_data=[s.BackendDelegateInlineData(b"payload" * 1000)],
        segments=[s.DataSegment(128, 2**33)],
        constant_segment=s.SubsegmentOffsets(0, [0, 16]),
        mutable_data_segments=[s.SubsegmentOffsets(1, [0])],
        named_data=[s.NamedData("key", 2)],
    )


def encode(program: s.Program) -> bytes:
    chunks = Writer(program_layouts(), PROGRAM_IDENTIFIER).finish(program)
    return b"".join(bytes(chunk) for chunk in chunks)


def decode(data: bytes) -> s.Program:
    program: s.Program = Reader(program_layouts(), data).root(s.Program, PROGRAM_IDENTIFIER)
    return program


def test_rows_are_the_fields_of_the_dataclasses_in_slot_order() -> None:
    slot_order = {s.Tensor: 5}  # data_buffer_idx comes before layout in the file
    for cls, rows in program_layouts().items():
        names = [row.name for row in rows]
        fields = [field.name for field in dataclasses.fields(cls)]
        assert sorted(names) == sorted(fields), cls
        if cls in slot_order:
            assert names[slot_order[cls]] == "data_buffer_idx"
        else:
            assert names == fields, cls


def test_every_table_survives_a_round_trip() -> None:
    program = program_with_everything()
    found = decode(encode(program))
    assert found == program
    assert math.copysign(1, found.execution_plan[0].values[6].val.double_val) == -1  # type: ignore[union-attr]


def test_nan_is_stored_as_nan() -> None:
    plan = dataclasses.replace(
        program_with_everything().execution_plan[0], values=[s.EValue(s.Double(math.nan))]
    )
    program = dataclasses.replace(program_with_everything(), execution_plan=[plan])
    value = decode(encode(program)).execution_plan[0].values[0].val
    assert isinstance(value, s.Double) and math.isnan(value.double_val)


def test_encoding_is_deterministic() -> None:
    assert encode(program_with_everything()) == encode(program_with_everything())


def test_values_outside_their_field_are_refused_by_name() -> None:
    plan = dataclasses.replace(program_with_everything().execution_plan[0], inputs=[2**31])
    program = dataclasses.replace(program_with_everything(), execution_plan=[plan])
    with pytest.raises(FlatbufferError, match=r"ExecutionPlan\.inputs"):
        encode(program)


def test_every_truncation_is_refused() -> None:
    data = encode(program_with_everything())
    for size in range(len(data) - 1):
        with pytest.raises(ValueError):
            decode(data[:size])


def test_flipped_bits_are_refused_or_read_but_never_crash() -> None:
    data, rng = bytearray(encode(program_with_everything())), random.Random(1)
    read = 0
    for _ in range(3000):
        position, bit = rng.randrange(len(data)), 1 << rng.randrange(8)
        data[position] ^= bit
        try:
            decode(bytes(data))
            read += 1
        except ValueError:
            pass
        data[position] ^= bit
    assert read > 0


def test_a_table_that_contains_itself_is_refused() -> None:
    data = bytearray(encode(program_with_everything()))
    with pytest.raises(FlatbufferError):
        for position in range(8, len(data) - 4, 4):
            changed = bytearray(data)
            changed[position : position + 4] = (2**32 - 4).to_bytes(4, "little")
            decode(bytes(changed))


def test_wrong_identifier_is_refused() -> None:
    data = encode(program_with_everything())
    with pytest.raises(FlatbufferError, match="identifier"):
        decode(data[:4] + b"ET99" + data[8:])
