"""Outputs: copies by default, views that outlive their program, the caller's own arrays."""

from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from support.program_maker import MethodMaker, adder, program_bytes

from executorch_py import _C, errors

ROOT = Path(__file__).resolve().parents[2]
X = np.arange(6, dtype=np.float32).reshape(2, 3)


def load(*methods: MethodMaker, name: str = "forward") -> _C.Method:
    return _C.open_program(program_bytes(*methods), n_threads=1).load_method(name)


@pytest.mark.parametrize("planned", [True, False], ids=["planned", "unplanned"])
def test_outputs_are_copies_by_default(planned: bool) -> None:
    method = load(adder(planned=planned))
    (first,) = method.execute([X, X])
    (second,) = method.execute([X, X + 1])
    np.testing.assert_array_equal(first, X + X)
    np.testing.assert_array_equal(second, X + X + 1)
    assert first.flags.writeable


def test_views_share_the_planned_memory_and_outlive_the_program() -> None:
    program = _C.open_program(program_bytes(adder()), n_threads=1)
    method = program.load_method("forward")
    (view,) = method.execute([X, X], clone_outputs=False)
    (again,) = method.execute([X, X + 1], clone_outputs=False)
    assert view.ctypes.data == again.ctypes.data
    np.testing.assert_array_equal(view, X + X + 1)
    method.close()
    program.close()
    del method, program
    gc.collect()
    np.testing.assert_array_equal(view, X + X + 1)
    view[:] = 7


def test_views_of_unplanned_outputs_are_not_overwritten_by_the_next_run() -> None:
    method = load(adder(planned=False))
    (first,) = method.execute([X, X], False)
    method.execute([X, X + 1], False)
    np.testing.assert_array_equal(first, X + X)


def test_views_of_constants_are_read_only_and_keep_the_file_mapped(tmp_path: Path) -> None:
    method = MethodMaker()
    method.outputs = [method.tensor((2, 3), constant=X)]
    path = tmp_path / "constant.pte"
    path.write_bytes(program_bytes(method))
    program = _C.open_program(path)
    (view,) = program.load_method("forward").execute([], clone_outputs=False, kind="numpy")
    program.close()
    del program
    np.testing.assert_array_equal(view, X)
    assert not view.flags.writeable
    (tensor,) = _C.open_program(path).load_method("forward").execute([], False, "torch")
    np.testing.assert_array_equal(tensor.numpy(), X)


def test_a_view_of_an_input_handed_through_keeps_that_input_alive() -> None:
    method = MethodMaker()
    x = method.tensor((64,), planned=False)
    method.inputs, method.outputs = [x], [x]
    loaded = load(method)
    given = np.arange(64, dtype=np.float32)
    (view,) = loaded.execute([given], clone_outputs=False)
    assert view.ctypes.data == given.ctypes.data
    expected = given.copy()
    del given, loaded
    gc.collect()
    np.testing.assert_array_equal(view, expected)


def test_any_torch_input_makes_all_outputs_torch() -> None:
    method = load(adder())
    assert isinstance(method.execute([X, X])[0], np.ndarray)
    assert isinstance(method.execute([X, torch.from_numpy(X.copy())])[0], torch.Tensor)
    assert isinstance(method.execute([X, X], kind="torch")[0], torch.Tensor)
    assert isinstance(method.execute([torch.ones(2, 3)] * 2, kind="numpy")[0], np.ndarray)
    with pytest.raises(
        errors.InvalidArgument, match="expected 'numpy', 'torch' or None, got 'jax'"
    ):
        method.execute([X, X], kind="jax")  # type: ignore[arg-type]


def test_bfloat16_and_float8_travel_as_torch_tensors() -> None:
    method = load(adder((2, 3), "bfloat16"))
    given = torch.arange(6).reshape(2, 3).to(torch.bfloat16)
    (result,) = method.execute([given, given.T.contiguous().T])
    assert result.dtype == torch.bfloat16
    assert torch.equal(result, given + given)
    through = MethodMaker()
    x = through.tensor((3,), "float8_e5m2")
    through.inputs, through.outputs = [x], [x]
    small = torch.tensor([1.0, -2.0, 0.5]).to(torch.float8_e5m2)
    (result,) = load(through).execute([small])
    assert result.dtype == torch.float8_e5m2
    assert torch.equal(result.float(), small.float())


def test_bfloat16_as_numpy_names_the_package_that_has_it() -> None:
    method = load(adder((2,), "bfloat16"))
    ones = torch.ones(2, dtype=torch.bfloat16)
    try:
        import ml_dtypes
    except ImportError:
        with pytest.raises(errors.NotSupported, match="pip install ml_dtypes"):
            method.execute([ones, ones], kind="numpy")
    else:
        (result,) = method.execute([ones, ones], kind="numpy")
        assert result.dtype == ml_dtypes.bfloat16
        assert isinstance(method.execute([result, result])[0], np.ndarray)


def test_outputs_without_tensor_inputs_follow_what_the_process_has_loaded() -> None:
    method = MethodMaker()
    method.outputs = [
        method.tensor((2, 3), constant=X),
        *(method.scalar(v) for v in (3, 2.5, True, "text", None)),
    ]
    loaded = load(method)
    tensor, *rest = loaded.execute([])
    assert isinstance(tensor, torch.Tensor)
    assert rest == [3, 2.5, True, "text", None]
    assert [type(v) for v in rest] == [int, float, bool, str, type(None)]
    code = (
        "import sys, numpy; from executorch_py import _C\n"
        "m = _C.open_program(sys.stdin.buffer.read()).load_method('forward')\n"
        "assert type(m.execute([])[0]) is numpy.ndarray and 'torch' not in sys.modules\n"
        "try: m.execute([], kind='torch')\n"
        "except RuntimeError as e: assert 'torch has not been imported' in str(e)\n"
        "else: raise SystemExit('no error')"
    )
    data = program_bytes(method)
    subprocess.run([sys.executable, "-c", code], input=data, check=True, cwd=ROOT, timeout=60)


def test_lists_come_back_as_lists() -> None:
    from executorch_py.exir import schema

    method = MethodMaker()
    tensor = method.tensor((2, 3), constant=X)
    one, two = method.scalar(1), method.scalar(2)
    method.outputs = [
        method.value(schema.IntList([one, two])),
        method.value(schema.DoubleList([0.5, 1.5])),
        method.value(schema.BoolList([True, False])),
        method.value(schema.TensorList([tensor])),
        method.value(schema.OptionalTensorList([tensor, -1])),
    ]
    integers, doubles, booleans, tensors, optional = load(method).execute([], kind="numpy")
    assert (integers, doubles, booleans) == ([1, 2], [0.5, 1.5], [True, False])
    np.testing.assert_array_equal(tensors[0], X)
    np.testing.assert_array_equal(optional[0], X)
    assert optional[1] is None


def test_a_named_buffer_can_be_read_and_written_in_place() -> None:
    method = MethodMaker()
    x = method.tensor((3,))
    state = method.tensor((3,), name="net.total")
    out = method.tensor((3,))
    method.add(state, x, state)
    method.add(state, x, out)
    method.inputs, method.outputs = [x], [out]
    loaded = load(method)
    ones = np.ones(3, np.float32)
    loaded.execute([ones])
    np.testing.assert_array_equal(loaded.attribute("net.total"), ones)
    loaded.attribute("net.total", clone=False)[:] = 10
    np.testing.assert_array_equal(loaded.execute([ones])[0], ones * 12)
    with pytest.raises(KeyError, match=r"no attribute 'net\.other'"):
        loaded.attribute("net.other")
    with pytest.raises(TypeError, match=r"attribute\(\): expected a name of type str, got bytes"):
        loaded.attribute(b"net.total")
    with pytest.raises(TypeError, match=r"expected a name of type str, got none"):
        loaded.attribute()
