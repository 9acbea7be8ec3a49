"""The roofline: measured rates of the machine, and minimum times of instructions."""

from __future__ import annotations

import numpy as np
import pytest
from support.program_maker import MethodMaker, adder, program_bytes

from executorch_py import _C, errors
from executorch_py.exir.schema import TensorList
from executorch_py.runtime import InstructionProfile, Runtime
from executorch_py.runtime.profile import bound_of
from executorch_py.runtime.roofline import WORKING_SETS, Rates, Roofline, measured

# A roofline of 100 operations per second, whose cache of 1 KiB is ten times as fast as memory.
ROOF = Roofline(
    n_threads=1,
    flops=100.0,
    rates=(Rates(1 << 10, 100.0, 50.0, 80.0), Rates(1 << 20, 10.0, 5.0, 8.0)),
)


def instruction(
    operator: str,
    nbytes: int,
    written: int,
    *shapes: tuple[int, ...],
    calls: int = 1,
    dtype: str = "f32",
) -> InstructionProfile:
    tensors = tuple((dtype, shape) for shape in shapes)
    return InstructionProfile(0, operator, calls, 1.0, nbytes, tensors, written)


def test_the_machine_is_measured_once_per_number_of_threads() -> None:
    roof = measured(1)
    assert measured(1) is roof
    assert roof.n_threads == 1 and roof.flops > 1e8
    assert [rates.nbytes for rates in roof.rates] == list(WORKING_SETS)
    for near, far in zip(roof.rates, roof.rates[1:], strict=False):
        assert near.read >= far.read > 0
        assert near.write >= far.write > 0
        assert near.copy >= far.copy > 0


def test_threads_and_sizes_of_a_measurement_are_checked() -> None:
    flops, int8_operations, rates = _C.machine_rates(2, [1, 100_000])
    assert flops > 0 and int8_operations > 0
    assert len(rates) == 2 and min(map(min, rates)) > 0
    assert _C.machine_rates(1, [])[2] == []
    for n_threads, sizes in ((0, [1]), (1, [1] * 33), (2000, [])):
        with pytest.raises(errors.InvalidArgument, match="thread"):
            _C.machine_rates(n_threads, sizes)
    with pytest.raises(OverflowError):
        _C.machine_rates(1, [-1])
    with pytest.raises(errors.MemoryAllocationFailed):
        _C.machine_rates(1, [1 << 62])


def test_a_sum_is_bound_by_its_bytes_copied_and_read() -> None:
    # Two operands have 800 bytes. Of these, 400 count with the 400 written at the rate of a copy.
    add = instruction("aten::add.out", 1200, 400, (100,), (100,), (100,))
    assert bound_of(add, ROOF) == pytest.approx(800 / 8 + 400 / 10)
    near = instruction("aten::add.out", 300, 100, (25,), (25,), (25,))
    assert bound_of(near, ROOF) == pytest.approx(200 / 80 + 100 / 100)
    filled = instruction("aten::full.out", 400, 400, (100,))
    assert bound_of(filled, ROOF) == pytest.approx(400 / 50)


def test_a_product_is_bound_by_the_longer_of_arithmetic_and_traffic() -> None:
    shapes = ((4, 8), (8, 4), (4, 4))
    product = instruction("aten::mm.out", 100, 50, *shapes)
    assert bound_of(product, ROOF) == pytest.approx(2 * 4 * 8 * 4 / 100)
    double = instruction("aten::mm.out", 200, 100, *shapes, dtype="f64")
    assert bound_of(double, ROOF) == pytest.approx(2 * 4 * 8 * 4 / 50)
    vector = instruction("aten::mm.out", 40_000, 4, (1, 1), (1, 10_000), (1, 10_000))
    bound = bound_of(vector, ROOF)
    assert bound is not None and bound > 39_000 / 10


def test_calls_of_a_loop_share_one_working_set() -> None:
    looped = instruction("aten::neg.out", 8_000, 4_000, (100,), (100,), calls=10)
    assert bound_of(looped, ROOF) == pytest.approx(8_000 / 80)


def test_attention_counts_both_of_its_products() -> None:
    query, key, out = (1, 2, 5, 8), (1, 2, 7, 8), (1, 2, 5, 4)
    name = "executorch_py::scaled_dot_product_attention.out"
    attention = instruction(name, 10, 1, query, key, (1, 2, 7, 4), out)
    assert attention.flops == 2 * 2 * 5 * 7 * (8 + 4)


def test_the_share_of_the_roofline_is_the_bound_in_the_time() -> None:
    method = Runtime.get().load_program(program_bytes(adder((64, 64)))).load_method("forward")
    x = np.ones((64, 64), np.float32)
    (add,) = method.profile([x, x], runs=3)
    assert add.written == x.nbytes
    assert add.bound_seconds is not None and add.bound_seconds > 0
    assert add.roofline == add.bound_seconds / add.seconds
    assert instruction("executorch_prim::et_view.default", 10, 10, (1,)).roofline is None


def test_instructions_without_a_kernel_have_no_bound() -> None:
    assert bound_of(instruction("executorch_prim::add.Scalar", 0, 0), ROOF) is None
    assert bound_of(instruction("SomeBackend", 100, 0, (25,)), ROOF) is None


def test_tensors_in_lists_count_and_the_result_is_described_last() -> None:
    maker = MethodMaker()
    parts = [maker.tensor([8]) for _ in range(7)]
    maker.inputs.extend(parts)
    out = maker.tensor([56])
    items = maker.value(TensorList(parts))
    maker.call("aten::cat.out", items, maker.scalar(0), out, out)
    maker.outputs.append(out)
    method = Runtime.get().load_program(program_bytes(maker)).load_method("forward")
    (cat,) = method.profile([np.ones(8, np.float32)] * 7, runs=1)
    assert cat.bytes == 2 * 56 * 4 and cat.written == 56 * 4
    assert cat.tensors == (("f32", (8,)),) * 5 + (("f32", (56,)),)
