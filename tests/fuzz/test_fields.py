"""Programs with every field damaged, one at a time: out of range, negative, misaligned, doubled or
absent. They are written with the format's tables, so that the damage goes beyond that of bit flips.

First all of them under sanitizers, where an error and a correct run are both right. Then the
defects whose outcome is specified, each with its status.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fuzz.damage import changed, damaged, damaged_headers
from fuzz.program_tables import LAYOUTS, PROGRAMS, encoded, read, subject, write
from fuzz.replayer import beside, replay, replay_all

from executorch_py import errors
from executorch_py.exir import schema as s
from executorch_py.runtime import Runtime

# ---- All fields


@pytest.mark.parametrize("name", [*PROGRAMS, "rare"])
def test_every_field_damaged_is_an_error_or_runs(name: str, c_build: Path, tmp_path: Path) -> None:
    program, segments = subject(name)
    files = [encoded(other, segments) for other in damaged(LAYOUTS, program, {})]
    options = beside(PROGRAMS[name]) if name in PROGRAMS else []
    written = [data for data in files if data is not None]
    found = replay_all(c_build / "fuzz_program", tmp_path, written, *options)
    assert found["inputs"] > 300
    # The damage is in the contents of the tables, not in their structure.
    assert found["opened"] > found["inputs"] // 3


@pytest.mark.parametrize("name", ["add_mul", "mutable"])
def test_every_figure_of_the_header_damaged_is_an_error_or_runs(
    name: str, c_build: Path, tmp_path: Path
) -> None:
    files = damaged_headers(PROGRAMS[name].read_bytes(), 3)
    found = replay_all(c_build / "fuzz_program", tmp_path, files)
    assert found["inputs"] > 600
    assert 0 < found["opened"] < found["inputs"] // 3


def test_the_sweep_reaches_the_fields_of_the_format() -> None:
    seen: dict[Any, int] = {}
    for name in [*PROGRAMS, "rare"]:
        for _ in damaged(LAYOUTS, subject(name)[0], seen):
            pass
    never = {cls for cls, rows in LAYOUTS.items() for row in rows if (cls, row.name) not in seen}
    # The runtime ignores source positions. tests/c has inline constants of old files.
    assert {cls.__name__ for cls in never} == {"Buffer", "Frame", "FrameList"}


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_word_set_to_something_extreme_is_an_error_or_runs(name: str, c_build: Path) -> None:
    found = replay(c_build / "fuzz_program", "--words", str(PROGRAMS[name]))
    assert found["inputs"] > 10_000


# ---- Specified outcomes


def outcome(data: bytes) -> str:
    """ "runs", or the name of the status with which loading or running ended."""
    try:
        method = Runtime.get().load_program(data).load_method("forward")
        method.execute([np.ones((2, 3), np.float32)])
    except errors.ExecutorchError as e:
        return str(e.name)
    return "runs"


PLAN = "execution_plan.0."
WEIGHT, INPUT = PLAN + "values.0.val.", PLAN + "values.1.val."
CALL = PLAN + "chains.0.instructions.0.instr_args."
INVALID = "InvalidProgram"
# add_mul.pte: value 0 is a constant, value 1 the input of shape [2, 3], and two kernels are called.
OUTCOMES: list[tuple[str, Any, str]] = [
    ("version", 1, INVALID),
    ("version", 2**32 - 1, INVALID),
    ("execution_plan", None, INVALID),
    ("execution_plan", [], "NotFound"),  # Python's look-up by name; the C API: InvalidArgument
    ("constant_buffer", None, "runs"),
    ("backend_delegate_data", None, "runs"),
    ("segments", None, INVALID),
    ("segments.0.offset", 1 << 20, INVALID),
    ("segments.0.offset", 2**64 - 1, INVALID),
    ("segments.0.size", 1 << 20, INVALID),
    ("segments.0.size", 2**64 - 1, INVALID),
    ("constant_segment", None, INVALID),
    ("constant_segment.segment_index", 9, INVALID),
    ("constant_segment.offsets", None, INVALID),
    ("constant_segment.offsets", [0], "InvalidArgument"),
    ("constant_segment.offsets", [0, 2], "InvalidArgument"),
    ("constant_segment.offsets", [0, 2**64 - 1], "InvalidArgument"),
    (PLAN + "name", None, "InvalidArgument"),
    (PLAN + "name", "other", "NotFound"),
    (PLAN + "container_meta_type", None, "runs"),
    (PLAN + "container_meta_type.encoded_inp_str", None, "runs"),
    (PLAN + "values", None, INVALID),
    (PLAN + "values", [], INVALID),
    (PLAN + "inputs", None, INVALID),
    (PLAN + "inputs", [1000], INVALID),
    (PLAN + "inputs", [-1], INVALID),
    (PLAN + "outputs", None, INVALID),
    (PLAN + "outputs", [1000], INVALID),
    (PLAN + "outputs", [-1], INVALID),
    (PLAN + "chains", None, INVALID),
    (PLAN + "chains", [], INVALID),
    (PLAN + "chains.0.inputs", None, "runs"),
    (PLAN + "chains.0.outputs", None, "runs"),
    (PLAN + "chains.0.instructions", None, INVALID),
    (PLAN + "operators", None, INVALID),
    (PLAN + "operators", [], INVALID),
    (PLAN + "operators.0.name", None, INVALID),
    (PLAN + "operators.0.name", "aten::nothing", "OperatorMissing"),
    (PLAN + "operators.0.overload", None, "OperatorMissing"),
    (PLAN + "delegates", None, INVALID),
    (PLAN + "non_const_buffer_sizes", None, INVALID),
    (PLAN + "non_const_buffer_sizes", [], INVALID),
    (PLAN + "non_const_buffer_sizes", [0], "InvalidArgument"),
    (PLAN + "non_const_buffer_sizes", [0, -1], INVALID),
    (PLAN + "non_const_buffer_sizes", [0, 8], "MemoryAllocationFailed"),
    (PLAN + "non_const_buffer_device", [s.NonConstBufferDevice(1, 1)], "NotSupported"),
    (PLAN + "non_const_buffer_device", [s.NonConstBufferDevice(1, 0)], "runs"),
    (PLAN + "values.0", s.EValue(None), INVALID),
    (PLAN + "values.0.val", s.Null(), INVALID),
    (INPUT + "scalar_type", 40, INVALID),
    (INPUT + "scalar_type", -1, INVALID),
    (INPUT + "storage_offset", 1, "NotSupported"),
    (INPUT + "storage_offset", -1, "NotSupported"),
    (INPUT + "sizes", None, INVALID),
    (INPUT + "sizes", [2], INVALID),
    (INPUT + "sizes", [-2, 3], INVALID),
    (INPUT + "sizes", [2**31 - 1, 3], "MemoryAllocationFailed"),
    (INPUT + "dim_order", None, INVALID),
    (INPUT + "dim_order", [0], INVALID),
    (INPUT + "dim_order", [0, 0], "Internal"),
    (INPUT + "dim_order", [0, 255], "Internal"),
    (INPUT + "requires_grad", True, "runs"),
    (INPUT + "layout", 1, "NotSupported"),
    (INPUT + "data_buffer_idx", 1, INVALID),
    (INPUT + "allocation_info.memory_id", 0, "InvalidArgument"),
    (INPUT + "allocation_info.memory_id", 9, "InvalidArgument"),
    (INPUT + "allocation_info.memory_offset_low", 1 << 20, "MemoryAllocationFailed"),
    (INPUT + "allocation_info.memory_offset_high", 1, "MemoryAllocationFailed"),
    (INPUT + "allocation_info.memory_offset_low", 2, INVALID),
    (INPUT + "shape_dynamism", 2, "NotSupported"),
    (INPUT + "shape_dynamism", 3, INVALID),
    (INPUT + "shape_dynamism", 1, "runs"),
    (INPUT + "extra_tensor_info", s.ExtraTensorInfo(location=2), INVALID),
    (INPUT + "extra_tensor_info", s.ExtraTensorInfo(location=1), INVALID),
    (INPUT + "extra_tensor_info", s.ExtraTensorInfo(device_type=1), "NotSupported"),
    (INPUT + "extra_tensor_info", s.ExtraTensorInfo(fully_qualified_name="n"), "runs"),
    (WEIGHT + "data_buffer_idx", 9, "InvalidArgument"),
    (WEIGHT + "data_buffer_idx", 2**32 - 1, "InvalidArgument"),
    (WEIGHT + "sizes", [2000, 3], "InvalidArgument"),
    (WEIGHT + "extra_tensor_info", s.ExtraTensorInfo(0, "w", 1), "InvalidState"),
    (CALL + "op_index", 9, INVALID),
    (CALL + "op_index", -1, INVALID),
    (CALL + "args", None, INVALID),
    (CALL + "args", [], INVALID),
    (CALL + "args", [0, 1], INVALID),
    (CALL + "args", [1000] * 4, INVALID),
    (CALL + "args", [-1] * 4, INVALID),
    (PLAN + "chains.0.instructions.0", s.Instruction(None), INVALID),
    (PLAN + "chains.0.instructions.0", s.Instruction(s.DelegateCall(0, [0])), INVALID),
    (PLAN + "chains.0.instructions.0", s.Instruction(s.MoveCall(0, 1000)), INVALID),
    (PLAN + "chains.0.instructions.0", s.Instruction(s.MoveCall(-1, 0)), INVALID),
    (PLAN + "chains.0.instructions.0", s.Instruction(s.JumpFalseCall(1000, 0)), INVALID),
    (PLAN + "chains.0.instructions.0", s.Instruction(s.JumpFalseCall(1, 1000)), INVALID),
    (PLAN + "chains.0.instructions.0", s.Instruction(s.JumpFalseCall(1, -1)), INVALID),
    (PLAN + "chains.0.instructions.0", s.Instruction(s.JumpFalseCall(1, 0)), INVALID),
    (PLAN + "chains.0.instructions.0", s.Instruction(s.FreeCall(1000)), INVALID),
    (PLAN + "chains.0.instructions.0", s.Instruction(s.FreeCall(1)), "runs"),
    ("named_data", [s.NamedData(None, 0)], "InvalidArgument"),  # type: ignore[arg-type]
    ("named_data", [s.NamedData("k", 9)], "InvalidArgument"),
    ("named_data", [s.NamedData("k", 0), s.NamedData("k", 0)], "runs"),
]


@pytest.mark.parametrize(
    ("path", "value", "wanted"), OUTCOMES, ids=[f"{p}={str(v)[:24]}" for p, v, _ in OUTCOMES]
)
def test_a_damaged_field_has_its_status(path: str, value: Any, wanted: str) -> None:
    program, segments = read(PROGRAMS["add_mul"].read_bytes())
    assert outcome(write(changed(program, path, value), segments)) == wanted


@pytest.mark.parametrize("name", ["add_mul", "rare"])
def test_an_undamaged_program_runs_after_it_was_written_again(name: str) -> None:
    assert outcome(write(*subject(name))) == "runs"


@pytest.mark.parametrize("rank", [2, 1])
def test_a_tensor_moves_only_to_where_its_kind_is_expected(rank: int) -> None:
    program, segments = read(PROGRAMS["add_mul"].read_bytes())
    plan = program.execution_plan[0]
    kernel = plan.chains[0].instructions[0]
    call = kernel.instr_args
    assert isinstance(call, s.KernelCall)
    other = replace(
        plan.values[1].val,
        scalar_type=s.ScalarType.FLOAT8E5M2 if rank == 2 else s.ScalarType.FLOAT,
        sizes=[2, 3][:rank],
        dim_order=[0, 1][:rank],
    )
    move = s.Instruction(s.MoveCall(len(plan.values), call.args[0]))
    chain = replace(plan.chains[0], instructions=[move, kernel])
    plan = replace(plan, values=[*plan.values, s.EValue(other)], chains=[chain])
    assert outcome(write(replace(program, execution_plan=[plan]), segments)) == INVALID


def test_constants_of_old_files_lie_inside_the_tables() -> None:
    program, segments = read(PROGRAMS["add_mul"].read_bytes())
    start = program.segments[program.constant_segment.segment_index].offset
    start += program.constant_segment.offsets[1]
    buffers = [s.Buffer(b""), s.Buffer(segments[start : start + 24])]
    for segment in (None, s.SubsegmentOffsets(0, [])):
        old = replace(program, constant_segment=segment, constant_buffer=buffers, segments=[])
        x = np.arange(6, dtype=np.float32).reshape(2, 3)
        found, wanted = (
            Runtime.get().load_program(data).load_method("forward").execute([x])[0]
            for data in (write(old, b""), PROGRAMS["add_mul"].read_bytes())
        )
        np.testing.assert_array_equal(np.asarray(found), np.asarray(wanted))
        short = replace(old, constant_buffer=[s.Buffer(b""), s.Buffer(b"\0" * 8)])
        assert outcome(write(short, b"")) == "InvalidArgument"
        assert outcome(write(replace(old, constant_buffer=buffers[:1]), b"")) == "InvalidArgument"
    both = replace(program, constant_buffer=buffers)
    assert outcome(write(both, segments)) == INVALID
