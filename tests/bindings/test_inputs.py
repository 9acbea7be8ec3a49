"""Inputs of a method: accepted kinds, copies and borrowed memory, and refusals."""

from __future__ import annotations

import array
from typing import Any

import numpy as np
import pytest
import torch
from support.program_maker import MethodMaker, adder, program_bytes

from executorch_py import _C, errors


def load(*methods: MethodMaker, name: str = "forward") -> _C.Method:
    return _C.open_program(program_bytes(*methods), n_threads=1).load_method(name)


X = np.arange(6, dtype=np.float32).reshape(2, 3)
ZERO = np.zeros((2, 3), np.float32)


class OnlyDLPack:
    def __init__(self, owner: Any) -> None:
        self.owner = owner

    def __dlpack__(self, **kwargs: Any) -> Any:
        return self.owner.__dlpack__(**kwargs)


class OnlyArray:
    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray[Any, Any]:
        return X.copy()


@pytest.mark.parametrize(
    "given",
    [
        X,
        memoryview(X),
        torch.from_numpy(X.copy()),
        torch.nn.Parameter(torch.from_numpy(X.copy())),
        torch.from_numpy(X.copy()).requires_grad_(),
        OnlyDLPack(torch.from_numpy(X.copy())),
        OnlyArray(),
        np.asfortranarray(X),
        np.repeat(X, 2, axis=1)[:, ::2],
        torch.from_numpy(X.T.copy()).T,
        torch.from_numpy(np.repeat(X, 2, axis=0))[::2],
        np.frombuffer(b"abc" + X.tobytes() + b"d", np.uint8)[3:-1].view(np.float32).reshape(2, 3),
    ],
    ids=[
        "array",
        "memoryview",
        "torch",
        "parameter",
        "requires_grad",
        "dlpack",
        "__array__",
        "fortran",
        "strided",
        "torch transposed",
        "torch strided",
        "misaligned read-only",
    ],
)
@pytest.mark.parametrize("planned", [True, False], ids=["planned", "unplanned"])
def test_every_kind_of_array_gives_the_same_result(given: Any, planned: bool) -> None:
    method = load(adder(planned=planned))
    outputs = method.execute([given, ZERO])
    np.testing.assert_array_equal(np.asarray(outputs[0]), X)
    assert isinstance(outputs[0], torch.Tensor if isinstance(given, torch.Tensor) else np.ndarray)


def test_lazily_negated_and_conjugated_tensors_are_read_as_what_they_mean() -> None:
    numbers = torch.from_numpy(X.copy()) * 1j
    lazy = numbers.conj().imag
    assert lazy.is_neg()
    (result,) = load(adder()).execute([lazy, torch.zeros(2, 3)])
    np.testing.assert_array_equal(result.numpy(), -X)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "int32", "int64", "float64"])
def test_dtypes_pass_through_from_numpy_and_torch(dtype: str) -> None:
    method = load(adder((4,), dtype))
    given = np.arange(4).astype(dtype)
    for value in (given, torch.from_numpy(given)):
        np.testing.assert_array_equal(np.asarray(method.execute([value, value])[0]), given * 2)


def test_numpy_scalars_and_single_numbers_in_arrays_are_rank_zero_tensors() -> None:
    method = load(adder(()))
    (result,) = method.execute([np.float32(1.5), np.array(2.0, np.float32)])
    assert result.shape == ()
    assert result == 3.5


def test_plain_buffers_are_arrays_of_their_own_format() -> None:
    method = load(adder((3,), "int32"))
    (result,) = method.execute([array.array("i", [1, 2, 3]), memoryview(array.array("i", [1] * 3))])
    assert result.tolist() == [2, 3, 4]
    octets = load(adder((3,), "uint8"))
    assert octets.execute([b"\x01\x02\x03", bytearray(3)])[0].tolist() == [1, 2, 3]


def test_layouts_that_differ_from_the_plan_are_converted_and_counted() -> None:
    method = load(adder((1, 2, 2, 3), dim_order=(0, 2, 3, 1)))
    contiguous = np.arange(12, dtype=np.float32).reshape(1, 2, 2, 3)
    last = np.ascontiguousarray(contiguous.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    (result,) = method.execute([contiguous, last])
    np.testing.assert_array_equal(result, contiguous * 2)
    assert result.strides == last.strides
    assert method.layout_conversions == 1
    method.execute([last, last])
    assert method.layout_conversions == 1
    tensor = torch.from_numpy(contiguous)
    (result,) = method.execute([tensor, tensor.to(memory_format=torch.channels_last)])
    assert result.is_contiguous(memory_format=torch.channels_last)
    np.testing.assert_array_equal(result.numpy(), contiguous * 2)
    assert method.layout_conversions == 2


def test_strides_of_dimensions_of_size_one_and_empty_arrays_do_not_matter() -> None:
    method = load(adder((1, 3), dynamic=True))
    odd = np.lib.stride_tricks.as_strided(np.ones(3, np.float32), (1, 3), (400, 4))
    method.execute([odd, odd])
    empty = np.empty((0, 3), np.float32)[:, ::-1]
    assert method.execute([empty, empty])[0].shape == (0, 3)
    assert method.layout_conversions == 0


def test_unplanned_inputs_are_used_where_they_lie() -> None:
    method = load(adder((64,), planned=False))
    x, y = np.ones(64, np.float32), torch.ones(64)
    method.execute([x, y])
    state = method.input_state()
    assert state[0] == {"address": x.ctypes.data, "borrowed": True}
    assert state[1] == {"address": y.data_ptr(), "borrowed": True}


def test_planned_inputs_are_copied() -> None:
    method = load(adder((64,)))
    x = np.ones(64, np.float32)
    method.execute([x, x])
    assert not any(item["borrowed"] for item in method.input_state())
    assert method.input_state()[0]["address"] != x.ctypes.data


def test_read_only_and_misaligned_unplanned_inputs_are_copied_and_counted() -> None:
    method = load(adder((64,), planned=False))
    fixed = np.ones(64, np.float32)
    fixed.flags.writeable = False
    shifted = np.ones(65, np.float32)[1:]
    method.execute([fixed, shifted])
    assert not any(item["borrowed"] for item in method.input_state())
    assert method.alignment_copies == 2
    assert method.layout_conversions == 0


def test_dynamic_sizes_may_shrink_and_outputs_follow() -> None:
    for planned in (True, False):
        method = load(adder((4, 5), dynamic=True, planned=planned))
        for shape in ((4, 5), (1, 5), (2, 3), (0, 5), (4, 5)):
            x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
            np.testing.assert_array_equal(method.execute([x, x])[0], x + x)


def scalars() -> _C.Method:
    method = MethodMaker()
    values = [3, 1.5, True, "mode", None]
    method.inputs = [method.scalar(value) for value in values]
    method.outputs = list(method.inputs)
    return load(method)


def test_scalar_inputs_must_be_what_was_traced() -> None:
    method = scalars()
    assert method.execute([3, 1.5, True, "mode", None]) == [3, 1.5, True, "mode", None]
    assert method.execute([np.int64(3), np.float32(1.5), np.bool_(True), "mode", None])[0] == 3
    for i, wrong in enumerate((4, 1.6, False, "other")):
        values: list[Any] = [3, 1.5, True, "mode", None]
        values[i] = wrong
        with pytest.raises(errors.InvalidArgument, match=f"input {i}"):
            method.execute(values)


WRONG_SCALARS = [
    (0, True, "expected an int, got a value of type bool"),
    (0, 2**70, "does not fit 64 bits"),
    (0, np.ones(1, np.int64), "expected an int"),
    (1, "1.5", "expected a float"),
    (1, True, "expected a float"),
    (2, 1, "expected a bool"),
    (3, b"mode", "expected a str"),
    (4, 0, "expected None"),
]


@pytest.mark.parametrize(("index", "value", "message"), WRONG_SCALARS)
def test_wrong_scalars_name_input_given_and_expected(index: int, value: Any, message: str) -> None:
    method = scalars()
    values: list[Any] = [3, 1.5, True, "mode", None]
    values[index] = value
    with pytest.raises(errors.InvalidArgument, match=f"input {index}.*{message}"):
        method.execute(values)


WRONG_TENSORS = [
    (X.astype(np.float64), ValueError, "expected a float32 tensor of shape .*, got dtype float64"),
    (X.astype(np.float64), ValueError, r"pass array\.astype\('float32'\)"),
    (torch.ones(2, 3, dtype=torch.int64), ValueError, r"int64: pass tensor\.to\(torch\.float32\)"),
    (torch.ones(2, 3, dtype=torch.bfloat16), ValueError, "got dtype bfloat16"),
    (X.astype(">f4"), ValueError, "other byte order"),
    (X[:1], errors.NotSupported, r"expected .* \[2, 3\], got shape \[1, 3\]"),
    (X.reshape(6), errors.NotSupported, r"got shape \[6\]"),
    (np.ones((2, 3, 1), np.float32), errors.NotSupported, r"shape \[2, 3, 1\]"),
    (torch.ones(3, 2), errors.NotSupported, r"shape \[3, 2\]"),
    (torch.ones(2, 3, device="meta"), ValueError, "expected device cpu, got meta: it has no elem"),
    (torch.ones(2, 3).to_sparse(), (TypeError, RuntimeError), "(?i)sparse"),
    (1.5, ValueError, r"type float: pass numpy\.array\(value, 'float32'\)"),
    (None, ValueError, "got a value of type NoneType"),
    ("text", ValueError, "got a value of type str"),
    (X.tolist(), ValueError, r"type list: pass numpy\.array\(value, 'float32'\)"),
    (object(), ValueError, "got a value of type object"),
    (X.astype(object), ValueError, "dtype object has no counterpart"),
    (np.array("a"), ValueError, "has no counterpart"),
    (np.zeros((2, 3), "M8[s]"), ValueError, "has no counterpart"),
]


@pytest.mark.parametrize(("value", "kind", "message"), WRONG_TENSORS)
def test_wrong_tensors_name_input_given_and_expected(value: Any, kind: Any, message: str) -> None:
    method = load(adder())
    method.name_inputs(["left", "right"])
    with pytest.raises(kind, match=message) as caught:
        method.execute([X, value])
    if isinstance(caught.value, errors.ExecutorchError):
        assert "input 1 ('right') of method 'forward'" in str(caught.value)
    np.testing.assert_array_equal(method.execute([X, X])[0], X + X)


def test_names_from_a_function_are_asked_for_once_by_the_first_message() -> None:
    method, asked = load(adder()), []
    method.name_inputs(lambda: asked.append(1) or ["left", "right"])
    method.execute([X, X])
    assert not asked
    for _ in range(2):
        with pytest.raises(errors.ExecutorchError, match=r"input 1 \('right'\) of method"):
            method.execute([X, np.ones((9, 9), np.float32)])
        with pytest.raises(errors.ExecutorchError, match=r"2 inputs \('left', 'right'\), got 1"):
            method.execute([X])
    assert asked == [1]


@pytest.mark.parametrize("names", [lambda: ["one"], lambda: 1 // 0, lambda: None])
def test_a_function_without_the_names_leaves_numbers_in_messages(names: Any) -> None:
    method = load(adder())
    method.name_inputs(names)
    with pytest.raises(errors.ExecutorchError, match="input 1 of method"):
        method.execute([X, np.ones((9, 9), np.float32)])


def test_too_many_elements_for_a_dynamic_input_are_refused() -> None:
    method = load(adder((4, 5), dynamic=True))
    with pytest.raises(errors.NotSupported, match=r"up to \[4, 5\], got shape \[5, 5\]"):
        method.execute([np.ones((5, 5), np.float32)] * 2)


@pytest.mark.parametrize("inputs", [[], [X], [X, X, X], ()])
def test_a_wrong_number_of_inputs_is_refused(inputs: Any) -> None:
    with pytest.raises(errors.InvalidArgument, match=f"expected 2 inputs, got {len(inputs)}"):
        load(adder()).execute(inputs)


@pytest.mark.parametrize("inputs", [X, torch.from_numpy(X.copy()), 3, None, "ab", {}])
def test_what_is_no_sequence_of_inputs_is_refused(inputs: Any) -> None:
    with pytest.raises(errors.InvalidType, match="expected a list or tuple"):
        load(adder()).execute(inputs)


def test_one_tensor_a_dict_and_a_nested_list_are_answered_with_the_call_to_write() -> None:
    method = load(adder())
    with pytest.raises(errors.InvalidType, match=r"got numpy\.ndarray: pass \[input\]"):
        method.execute(X)
    with pytest.raises(errors.InvalidType, match=r"got dict: .* call method\(\*\*inputs\)"):
        method.execute({"x": X})
    with pytest.raises(errors.InvalidArgument, match="got 1, a list of all: pass that list itself"):
        method.execute([[X, X]])


def test_a_bfloat16_input_names_the_package_that_numpy_needs() -> None:
    method = load(adder((3,), "bfloat16"))
    with pytest.raises(errors.InvalidArgument, match="`pip install ml_dtypes` and pass array"):
        method.execute([np.ones(3, np.float32)] * 2)


def test_a_failing_conversion_leaves_its_own_exception() -> None:
    class Broken:
        def __dlpack__(self) -> None:
            raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        load(adder()).execute([Broken(), X])


def test_a_list_that_a_conversion_changes_is_refused() -> None:
    method = load(adder())
    inputs: list[Any] = []

    class Shrinking:
        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            inputs.clear()
            return X

    inputs += [Shrinking(), X]
    with pytest.raises(errors.InvalidArgument, match=r"expected 2 inputs.*got 0"):
        method.execute(inputs)
    np.testing.assert_array_equal(method.execute([X, X])[0], X + X)


def test_a_failed_call_leaves_the_previous_inputs_in_place() -> None:
    method = load(adder((64,), planned=False))
    x = np.ones(64, np.float32)
    method.execute([x, x])
    with pytest.raises(errors.InvalidArgument):
        method.execute([np.zeros(64, np.float32), None])
    assert method.input_state()[0]["address"] == x.ctypes.data
    method.run()
    np.testing.assert_array_equal(method.outputs(kind="numpy")[0], x + x)


def test_inputs_never_set_are_an_error_and_stay_set_once_given() -> None:
    method = load(adder())
    with pytest.raises(errors.InvalidArgument, match="never set"):
        method.run()
    method.set_inputs([X, X])
    method.run()
    method.run()
    np.testing.assert_array_equal(method.outputs()[0], X + X)
