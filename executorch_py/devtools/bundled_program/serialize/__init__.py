"""Bundled programs to bytes and back.

The file is a flatbuffer that holds the whole .pte, aligned so that it can be used in place.
"""

from __future__ import annotations

from executorch_py.devtools.bundled_program.core import BundledProgram
from executorch_py.devtools.bundled_program.schema import bundled_program_schema as tables
from executorch_py.exir.schema import ScalarType
from executorch_py.exir.serialize.cord import Cord
from executorch_py.exir.serialize.flatbuffer import (
    BOOL,
    F64,
    I64,
    U32,
    Blob,
    Field,
    Layouts,
    Numbers,
    Reader,
    Scalar,
    Tables,
    Text,
    Union,
    Writer,
)

IDENTIFIER = b"BP08"

LAYOUTS: Layouts = {
    tables.BundledProgram: (
        Field("version", U32),
        Field("method_test_suites", Tables(tables.BundledMethodTestSuite), list),
        Field("program", Blob(32), bytes),
    ),
    tables.BundledMethodTestSuite: (
        Field("method_name", Text(), str),
        Field("test_cases", Tables(tables.BundledMethodTestCase), list),
    ),
    tables.BundledMethodTestCase: (
        Field("inputs", Tables(tables.Value), list),
        Field("expected_outputs", Tables(tables.Value), list),
    ),
    tables.Value: (Field("val", Union((tables.Tensor, tables.Int, tables.Bool, tables.Double))),),
    tables.Tensor: (
        Field("scalar_type", Scalar("b", ScalarType)),
        Field("sizes", Numbers("i"), list),
        Field("data", Blob(16), bytes),
        Field("dim_order", Numbers("B"), list),
    ),
    tables.Int: (Field("int_val", I64),),
    tables.Bool: (Field("bool_val", BOOL),),
    tables.Double: (Field("double_val", F64),),
}


def serialize_from_bundled_program_to_flatbuffer(bundled_program: BundledProgram) -> bytes:
    """The bytes of a .bpte file."""
    file = Cord()
    for chunk in Writer(LAYOUTS, IDENTIFIER).finish(bundled_program.serialize_to_schema()):
        file.append(chunk)
    return bytes(file)


def deserialize_from_flatbuffer_to_bundled_program(flatbuffer: bytes) -> tables.BundledProgram:
    """The tables of a .bpte file; FlatbufferError (a ValueError) for other bytes."""
    bundle: tables.BundledProgram = Reader(LAYOUTS, flatbuffer).root(
        tables.BundledProgram, IDENTIFIER
    )
    return bundle


__all__ = [
    "deserialize_from_flatbuffer_to_bundled_program",
    "serialize_from_bundled_program_to_flatbuffer",
]
