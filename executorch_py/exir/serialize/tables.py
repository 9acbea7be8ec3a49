"""The program format's tables, slot by slot, for the flatbuffer writer and reader.

One row per field in slot order; a test holds the rows against the dataclasses of exir/schema.py.
The meaning of each field is documented there. `absent` is the value of a field that the file leaves
out.
"""

from __future__ import annotations

from executorch_py.exir import schema as s
from executorch_py.exir.schema import CompileSpec
from executorch_py.exir.serialize.flatbuffer import (
    BOOL,
    F64,
    I32,
    I64,
    U32,
    U64,
    Blob,
    Field,
    Kind,
    Layouts,
    Numbers,
    Scalar,
    Table,
    Tables,
    Text,
    Union,
)

PROGRAM_IDENTIFIER = b"ET12"
DEFAULT_BLOB_ALIGNMENT = 16

KERNEL_TYPES = (
    s.Null,
    s.Int,
    s.Bool,
    s.Double,
    s.Tensor,
    s.String,
    s.IntList,
    s.DoubleList,
    s.BoolList,
    s.TensorList,
    s.OptionalTensorList,
)
INSTRUCTION_ARGUMENTS = (s.KernelCall, s.DelegateCall, s.MoveCall, s.JumpFalseCall, s.FreeCall)


def _enum(cls: type) -> Scalar:
    return Scalar("b", cls)


def _text(name: str) -> Field:
    return Field(name, Text(), str)


def _list(name: str, kind: Kind) -> Field:
    return Field(name, kind, list)


def program_layouts(
    constant_alignment: int = DEFAULT_BLOB_ALIGNMENT,
    delegate_alignment: int = DEFAULT_BLOB_ALIGNMENT,
) -> Layouts:
    """All tables reachable from Program, with the alignments of the bytes stored inside it."""
    return {
        s.Program: (
            Field("version", U32),
            _list("execution_plan", Tables(s.ExecutionPlan)),
            _list("constant_buffer", Tables(s.Buffer)),
            _list("backend_delegate_data", Tables(s.BackendDelegateInlineData)),
            _list("segments", Tables(s.DataSegment)),
            Field(
                "constant_segment",
                Table(s.SubsegmentOffsets),
                lambda: s.SubsegmentOffsets(0, []),
            ),
            Field("mutable_data_segments", Tables(s.SubsegmentOffsets)),
            Field("named_data", Tables(s.NamedData)),
        ),
        s.ExecutionPlan: (
            _text("name"),
            Field(
                "container_meta_type",
                Table(s.ContainerMetadata),
                lambda: s.ContainerMetadata("", ""),
            ),
            _list("values", Tables(s.EValue)),
            _list("inputs", Numbers("i")),
            _list("outputs", Numbers("i")),
            _list("chains", Tables(s.Chain)),
            _list("operators", Tables(s.Operator)),
            _list("delegates", Tables(s.BackendDelegate)),
            _list("non_const_buffer_sizes", Numbers("q")),
            Field("non_const_buffer_device", Tables(s.NonConstBufferDevice)),
        ),
        s.ContainerMetadata: (_text("encoded_inp_str"), _text("encoded_out_str")),
        s.NonConstBufferDevice: (
            Field("buffer_idx", I32),
            Field("device_type", _enum(s.DeviceType)),
            Field("device_index", Scalar("b")),
        ),
        s.Buffer: (Field("storage", Blob(constant_alignment), bytes),),
        s.BackendDelegateInlineData: (Field("data", Blob(delegate_alignment), bytes),),
        s.DataSegment: (Field("offset", U64), Field("size", U64)),
        s.SubsegmentOffsets: (Field("segment_index", U32), _list("offsets", Numbers("Q"))),
        s.NamedData: (_text("key"), Field("segment_index", U32)),
        **_value_layouts(),
        **_instruction_layouts(),
    }


def _value_layouts() -> Layouts:
    return {
        s.EValue: (Field("val", Union(KERNEL_TYPES)),),
        s.Null: (),
        s.Int: (Field("int_val", I64),),
        s.Bool: (Field("bool_val", BOOL),),
        s.Double: (Field("double_val", F64),),
        s.Tensor: (
            Field("scalar_type", _enum(s.ScalarType)),
            Field("storage_offset", I32),
            _list("sizes", Numbers("i")),
            _list("dim_order", Numbers("B")),
            Field("requires_grad", BOOL),
            Field("data_buffer_idx", U32),
            Field("allocation_info", Table(s.AllocationDetails)),
            Field("layout", Scalar("b")),
            Field("shape_dynamism", _enum(s.TensorShapeDynamism)),
            Field("extra_tensor_info", Table(s.ExtraTensorInfo)),
        ),
        s.AllocationDetails: (
            Field("memory_id", U32),
            Field("memory_offset_low", U32),
            Field("memory_offset_high", U32),
        ),
        s.ExtraTensorInfo: (
            Field("mutable_data_segments_idx", U64),
            Field("fully_qualified_name", Text()),
            Field("location", _enum(s.TensorDataLocation)),
            Field("device_type", _enum(s.DeviceType)),
            Field("device_index", Scalar("b")),
        ),
        s.String: (_text("string_val"),),
        s.IntList: (_list("items", Numbers("q")),),
        s.DoubleList: (_list("items", Numbers("d")),),
        s.BoolList: (_list("items", Numbers("?")),),
        s.TensorList: (_list("items", Numbers("i")),),
        s.OptionalTensorList: (_list("items", Numbers("i")),),
    }


def _instruction_layouts() -> Layouts:
    return {
        s.Chain: (
            _list("inputs", Numbers("i")),
            _list("outputs", Numbers("i")),
            _list("instructions", Tables(s.Instruction)),
            Field("stacktrace", Tables(s.FrameList)),
        ),
        s.Instruction: (Field("instr_args", Union(INSTRUCTION_ARGUMENTS)),),
        s.KernelCall: (Field("op_index", I32), _list("args", Numbers("i"))),
        s.DelegateCall: (Field("delegate_index", I32), _list("args", Numbers("i"))),
        s.MoveCall: (Field("move_from", I32), Field("move_to", I32)),
        s.JumpFalseCall: (
            Field("cond_value_index", I32),
            Field("destination_instruction", I32),
        ),
        s.FreeCall: (Field("value_index", I32),),
        s.FrameList: (_list("items", Tables(s.Frame)),),
        s.Frame: (_text("filename"), Field("lineno", I32), _text("name"), _text("context")),
        s.Operator: (_text("name"), _text("overload")),
        s.BackendDelegate: (
            _text("id"),
            Field(
                "processed",
                Table(s.BackendDelegateDataReference),
                lambda: s.BackendDelegateDataReference(s.DataLocation.INLINE, 0),
            ),
            _list("compile_specs", Tables(CompileSpec)),
        ),
        s.BackendDelegateDataReference: (
            Field("location", _enum(s.DataLocation)),
            Field("index", U32),
        ),
        CompileSpec: (_text("key"), Field("value", Blob(), bytes)),
    }
