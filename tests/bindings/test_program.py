"""Programs: opened from paths and buffers, closed, and their metadata without a run."""

from __future__ import annotations

import copy
import gc
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.program_maker import MethodMaker, adder, program_bytes

from executorch_py import _C, errors

DATA = program_bytes(adder())
X = np.ones((2, 3), np.float32)


def aligned(data: bytes, offset: int) -> memoryview:
    """A read-only view of the bytes at an address that is 64-aligned plus offset."""
    room = np.zeros(len(data) + 128, np.uint8)
    start = -room.ctypes.data % 64 + offset
    room[start : start + len(data)] = np.frombuffer(data, np.uint8)
    room.flags.writeable = False
    return memoryview(room)[start : start + len(data)]


def test_a_view_in_a_cycle_is_not_released_while_a_program_uses_it() -> None:
    view = memoryview(DATA)
    cycle: list[Any] = [view, _C.open_program(view)]
    cycle.append(cycle)
    del view, cycle
    gc.collect()  # the older view first


@pytest.mark.parametrize(
    ("source", "ownership"),
    [
        (DATA, "borrowed"),
        (bytearray(DATA), "copied"),
        (memoryview(DATA), "borrowed"),
        (aligned(DATA, 0), "borrowed"),
        (aligned(DATA, 8), "copied"),
        (aligned(DATA, 1), "copied"),
    ],
    ids=["bytes", "bytearray", "memoryview", "aligned", "half aligned", "odd address"],
)
def test_buffers_are_used_in_place_only_when_fixed_and_aligned(source: Any, ownership: str) -> None:
    program = _C.open_program(source)
    assert program.ownership == ownership
    assert program.nbytes == len(DATA)
    np.testing.assert_array_equal(program.load_method("forward").execute([X, X])[0], X + X)


def test_changing_a_bytearray_after_loading_does_not_reach_the_program() -> None:
    source = bytearray(DATA)
    program = _C.open_program(source)
    source[:] = b"\xff" * len(source)
    np.testing.assert_array_equal(program.load_method("forward").execute([X, X])[0], X + X)


def test_paths_are_mapped(tmp_path: Path) -> None:
    path = tmp_path / "pröğram.pte"
    path.write_bytes(DATA)
    for source in (path, str(path)):
        program = _C.open_program(source)
        assert program.ownership == "mapped"
        assert bytes(program.buffer()) == DATA
    path.unlink()
    np.testing.assert_array_equal(program.load_method("forward").execute([X, X])[0], X + X)


@pytest.mark.parametrize(
    ("source", "kind", "message"),
    [
        ("/does/not/exist.pte", OSError, "No such file"),
        ("/", OSError, "0x22"),
        (b"", ValueError, "0x"),
        (b"x" * 10, ValueError, "0x12"),
        (b"x" * 1000, ValueError, "0x23"),
        (DATA[:-8], ValueError, "0x"),
        (DATA[:100], ValueError, "0x23"),
        (3, TypeError, "bytes-like"),
        (None, TypeError, "bytes-like"),
        (memoryview(DATA)[::2], BufferError, "contiguous"),
    ],
)
def test_a_source_that_cannot_be_opened_is_an_error_with_the_reason(
    source: Any, kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        _C.open_program(source)


def test_every_truncation_is_an_error() -> None:
    for n in range(len(DATA) - 1):
        with pytest.raises(errors.ExecutorchError):
            _C.open_program(DATA[:n]).load_method("forward")


@pytest.mark.parametrize(
    "kwargs", [{"verification": 7}, {"n_threads": -1}, {"n_threads": 5000}, {"data": [b"bad"]}]
)
def test_wrong_options_are_refused(kwargs: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"expected|0x2|0x1"):
        _C.open_program(DATA, **kwargs)


def test_minimal_verification_runs_good_files() -> None:
    program = _C.open_program(DATA, verification=_C.VERIFY_MINIMAL, n_threads=2)
    assert program.n_threads == 2
    np.testing.assert_array_equal(program.load_method("forward").execute([X, X])[0], X + X)


def test_use_after_close_is_an_error_everywhere() -> None:
    program = _C.open_program(DATA)
    method, other = program.load_method("forward"), program.load_method("forward")
    method.close()
    method.close()
    with pytest.raises(errors.InvalidState, match="'forward' has been closed"):
        method.execute([X, X])
    other.execute([X, X])
    program.close()
    program.close()
    assert program.closed and method.closed and other.closed
    assert (program.nbytes, program.ownership) == (0, "closed")
    for call in (
        lambda: other.execute([X, X]),
        other.run,
        other.outputs,
        lambda: other.set_inputs([X, X]),
        lambda: other.attribute("a"),
        other.memory,
        other.input_state,
        program.method_names,
        lambda: program.load_method("forward"),
        lambda: program.method_info("forward"),
        program.named_data,
        program.data_keys,
        program.buffer,
    ):
        with pytest.raises(errors.InvalidState, match="closed"):
            call()
    assert other.name == "forward"
    assert other.layout_conversions == 0


def test_methods_share_planned_buffers_of_the_largest_need() -> None:
    program = _C.open_program(program_bytes(adder((2, 3)), adder((100, 3), name="large")))
    small, large = program.load_method("forward"), program.load_method("large")
    assert small.memory()["planned"] == large.memory()["planned"] == [3600]
    big = np.ones((100, 3), np.float32)
    np.testing.assert_array_equal(large.execute([big, big])[0], big * 2)
    np.testing.assert_array_equal(small.execute([X, X])[0], X * 2)


def test_info_describes_a_method_without_loading_it() -> None:
    method = adder((4, 5), dynamic=True)
    method.outputs.append(method.scalar(3))
    method.tensor((3,), "int64", name="net.steps")
    info = _C.open_program(program_bytes(method)).method_info("forward")
    assert info["name"] == "forward"
    tensor = info["inputs"][0]
    assert (tensor["tag"], tensor["dtype"], tensor["dtype_name"]) == ("Tensor", 6, "float32")
    assert (tensor["sizes"], tensor["dim_order"], tensor["nbytes"]) == ((4, 5), (0, 1), 80)
    assert (tensor["planned"], tensor["dynamic"], tensor["name"]) == (True, True, None)
    assert info["outputs"][1] == {"tag": "Int"}
    assert info["attributes"][0]["name"] == "net.steps"
    assert info["operators"] == [{"name": "aten::add.out", "calls": 1}]
    assert (info["delegates"], info["n_instructions"]) == ([], 1)
    assert info["planned"] == [272]


def test_an_unknown_method_and_a_missing_kernel_are_named() -> None:
    program = _C.open_program(DATA)
    with pytest.raises(errors.InvalidArgument, match=r"backward.*0x12"):
        program.load_method("backward")
    with pytest.raises(TypeError, match="expected str, got int"):
        program.load_method(3)  # type: ignore[arg-type]
    method = MethodMaker()
    x = method.tensor((2,))
    method.call("custom::nothing.out", x, x)
    method.call("custom::more", x, x)
    with pytest.raises(NotImplementedError, match=r"custom::nothing\.out.*custom::more.*0x14"):
        _C.open_program(program_bytes(method)).load_method("forward")


def test_exceptions_carry_status_and_name_and_the_natural_builtin() -> None:
    table = {
        "InvalidArgument": (0x12, ValueError),
        "InvalidProgram": (0x23, ValueError),
        "InvalidType": (0x13, TypeError),
        "NotFound": (0x20, KeyError),
        "MemoryAllocationFailed": (0x21, MemoryError),
        "AccessFailed": (0x22, OSError),
        "OperatorMissing": (0x14, NotImplementedError),
        "InvalidState": (0x02, RuntimeError),
    }
    for name, (status, builtin) in table.items():
        cls = getattr(errors, name)
        assert issubclass(cls, errors.ExecutorchError)
        assert issubclass(cls, builtin)
        assert (cls.status, cls.name, cls.__module__) == (status, name, "executorch_py.errors")
        assert str(cls("plain text")) == "plain text"
        again = pickle.loads(pickle.dumps(cls("plain text")))
        assert type(again) is cls
    assert issubclass(errors.ExecutorchError, RuntimeError)


def test_the_manifest_lists_dtypes_and_ranks() -> None:
    facts = _C.kernel_manifest()["aten::add.out"]
    assert "f32" in facts["inputs"] and "f32" in facts["outputs"]
    assert facts["max_rank"] == 16
    assert facts["n_args"] == 5
    assert "ReferenceBackend" in _C.backend_names()
    assert _C.system_info()["cpu_count"] >= 1


@pytest.mark.parametrize("kind", [_C.Program, _C.Method, _C.Memory])
def test_types_cannot_be_made_or_changed_by_hand(kind: type) -> None:
    with pytest.raises(TypeError):
        kind()
    with pytest.raises(TypeError):
        kind.extra = 1  # type: ignore[attr-defined]


def test_the_collector_sees_all_memory_that_closing_drops() -> None:
    program = _C.open_program(DATA, n_threads=2)
    method = program.load_method("forward")

    def held(thing: object) -> list[object]:
        return [r for r in gc.get_referents(thing) if isinstance(r, _C.Memory)]

    assert len(held(program)) == 4  # the file, a planned buffer, scratch, the threads
    assert len(held(method)) == 2  # the method's own, scratch
    program.close()
    assert held(program) == held(method) == []


def test_programs_and_methods_refuse_to_be_copied_or_pickled() -> None:
    program = _C.open_program(DATA)
    for thing in (program, program.load_method("forward")):
        with pytest.raises(TypeError):
            pickle.dumps(thing)
        with pytest.raises(TypeError):
            copy.copy(thing)


def test_planned_memory_can_be_read_and_written() -> None:
    program = _C.open_program(DATA)
    assert program.planned_buffers() == []  # of loaded methods
    method = program.load_method("forward")
    (planned,) = program.planned_buffers()
    assert planned.nbytes == program.method_info("forward")["planned"][0]
    method.execute([X, X])
    before = planned.copy()
    method.execute([2 * X, X])
    assert not np.array_equal(planned, before)
    planned[:] = before
    np.testing.assert_array_equal(method.outputs()[0], X + X)
    program.close()
    np.testing.assert_array_equal(planned, before)
    with pytest.raises(errors.InvalidState, match="closed"):
        program.planned_buffers()
