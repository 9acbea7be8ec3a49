"""Operators that copy a view, against eager torch: every element type and pair of dim orders."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from support.element_samples import ALL, ONE_PER_SIZE, laid_out, orders, sample
from support.op_driver import OpError, Out, check_op, dim_order, run_op

aten = torch.ops.aten

# operator, shape of the first argument, the other arguments
CASES: list[tuple[Any, tuple[int, ...], list[Any]]] = [
    (aten.permute_copy.out, (), [[]]),
    (aten.permute_copy.out, (5,), [[0]]),
    (aten.permute_copy.out, (3, 4), [[1, 0]]),
    (aten.permute_copy.out, (3, 4), [[-1, -2]]),
    (aten.permute_copy.out, (2, 3, 4, 5), [[0, 2, 1, 3]]),
    (aten.permute_copy.out, (2, 3, 4, 5), [[0, 2, 3, 1]]),
    (aten.permute_copy.out, (2, 3, 4, 5), [[3, 2, 1, 0]]),
    (aten.permute_copy.out, (2, 1, 4, 1), [[2, 3, 0, 1]]),
    (aten.permute_copy.out, (2, 3, 2, 3, 2), [[4, 1, 0, 3, 2]]),
    (aten.permute_copy.out, (2, 0, 4), [[2, 0, 1]]),
    (aten.permute_copy.out, (33, 70), [[1, 0]]),
    (aten.permute_copy.out, (2, 19, 37, 3), [[0, 3, 1, 2]]),
    (aten.transpose_copy.int_out, (), [0, -1]),
    (aten.transpose_copy.int_out, (3, 4, 5), [-1, 0]),
    (aten.transpose_copy.int_out, (3, 4, 5), [1, 1]),
    (aten.transpose_copy.int_out, (2, 65, 64), [1, 2]),
    (aten.t_copy.out, (), []),
    (aten.t_copy.out, (4,), []),
    (aten.t_copy.out, (17, 34), []),
    (aten.unsqueeze_copy.out, (), [0]),
    (aten.unsqueeze_copy.out, (3, 4), [-1]),
    (aten.unsqueeze_copy.out, (3, 4), [-3]),
    (aten.unsqueeze_copy.out, (3, 0), [1]),
    (aten.squeeze_copy.dim_out, (), [0]),
    (aten.squeeze_copy.dim_out, (3, 1, 4), [1]),
    (aten.squeeze_copy.dim_out, (3, 1, 4), [-1]),
    (aten.squeeze_copy.dims_out, (1, 3, 1, 4), [[0, 2]]),
    (aten.squeeze_copy.dims_out, (1, 3, 1, 4), [[-1, 0]]),
    (aten.squeeze_copy.dims_out, (1, 3, 1), [[]]),
    (aten.view_copy.out, (), [[1, 1]]),
    (aten.view_copy.out, (2, 3, 4), [[6, 4]]),
    (aten.view_copy.out, (2, 3, 4), [[-1]]),
    (aten.view_copy.out, (6, 4), [[2, 3, 2, 2]]),
    (aten.view_copy.out, (6, 4), [[4, 6]]),
    (aten.view_copy.out, (6, 10, 2), [[4, -1, 5]]),
    (aten.view_copy.out, (2, 12, 3, 2), [[2, 3, 4, 6]]),
    (aten.view_copy.out, (2, 0, 3), [[0, 5]]),
    (aten.view_copy.out, (1,), [[]]),
    (aten.expand_copy.out, (), [[2, 3]]),
    (aten.expand_copy.out, (3, 1), [[3, 4]]),
    (aten.expand_copy.out, (3, 1), [[2, -1, 40]]),
    (aten.expand_copy.out, (1, 5), [[7, 5]]),
    (aten.expand_copy.out, (1,), [[0]]),
    (aten.expand_copy.out, (2, 1, 3, 1), [[2, 2, 3, 3]]),
    (aten.select_copy.int_out, (4,), [0, 2]),
    (aten.select_copy.int_out, (2, 3, 4), [0, -1]),
    (aten.select_copy.int_out, (2, 3, 4), [-1, 3]),
    (aten.select_copy.int_out, (2, 3, 4), [1, 0]),
    (aten.slice_copy.Tensor_out, (7,), []),
    (aten.slice_copy.Tensor_out, (7, 3), [0, 1, 6, 2]),
    (aten.slice_copy.Tensor_out, (7, 3), [0, -3, 100, 1]),
    (aten.slice_copy.Tensor_out, (7, 3), [0, 5, 2, 1]),
    (aten.slice_copy.Tensor_out, (7, 3), [1, None, 9223372036854775807, 1000000007]),
    (aten.slice_copy.Tensor_out, (7, 3), [1, -9223372036854775807, None, 2]),
    (aten.slice_copy.Tensor_out, (2, 8, 9), [-1, 1, -1, 3]),
    (aten.slice_copy.Tensor_out, (2, 8, 9), [1, 2, 6, 1]),
    (aten.narrow_copy.out, (7, 3), [0, 2, 3]),
    (aten.narrow_copy.out, (7, 3), [0, -2, 2]),
    (aten.narrow_copy.out, (7, 3), [1, 3, 0]),
    (aten.diagonal_copy.out, (3, 4), []),
    (aten.diagonal_copy.out, (3, 4), [2]),
    (aten.diagonal_copy.out, (3, 4), [-5]),
    (aten.diagonal_copy.out, (3, 4, 5), [-1, 0, 2]),
    (aten.diagonal_copy.out, (3, 4, 5), [1, -1, 1]),
    (aten.unfold_copy.out, (), [0, 1, 1]),
    (aten.unfold_copy.out, (9,), [0, 3, 2]),
    (aten.unfold_copy.out, (2, 9, 3), [1, 4, 5]),
    (aten.unfold_copy.out, (2, 9), [-1, 0, 3]),
    (aten.split_copy.Tensor_out, (7, 3), [3]),
    (aten.split_copy.Tensor_out, (2, 6, 5), [2, -1]),
    (aten.split_copy.Tensor_out, (0, 3), [2]),
    (aten.split_with_sizes_copy.out, (7, 3), [[2, 0, 5]]),
    (aten.split_with_sizes_copy.out, (2, 6, 5), [[1, 2, 3], 1]),
    (aten.split_with_sizes_copy.out, (2, 6, 5), [[4, 1], -1]),
    (aten.unbind_copy.int_out, (3,), []),
    (aten.unbind_copy.int_out, (2, 3, 4), [1]),
    (aten.unbind_copy.int_out, (2, 3, 4), [-1]),
]


def name_of(case: tuple[Any, tuple[int, ...], list[Any]]) -> str:
    op, shape, args = case
    return f"{op.overloadpacket.__name__}-{shape}-{args}"


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_view_copies_equal_eager_in_every_dim_order(
    case: tuple[Any, tuple[int, ...], list[Any]],
) -> None:
    op, shape, args = case
    for dtype in ONE_PER_SIZE:
        for order in orders(len(shape)):
            x = sample(shape, dtype, order)
            result = op.overloadpacket(x, *args)
            if isinstance(result, (list, tuple)):
                check_op(op, x, *args)
                continue
            for out_order in orders(result.dim()):
                check_op(op, x, *args, out_order=out_order)


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_every_element_type_is_moved(dtype: torch.dtype) -> None:
    x = sample((3, 20, 17), dtype)
    check_op(aten.permute_copy.out, x, [2, 0, 1])
    check_op(aten.slice_copy.Tensor_out, x, 2, 1, 16, 3)
    check_op(aten.expand_copy.out, sample((3, 1), dtype), [3, 40])
    check_op(aten.split_copy.Tensor_out, x, 6, 1)


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 7, 8, 15, 16, 17, 31, 33, 64, 100])
@pytest.mark.parametrize("dtype", ONE_PER_SIZE, ids=str)
def test_transposes_of_all_tile_remainders(rows: int, dtype: torch.dtype) -> None:
    for cols in (1, 2, 3, 4, 5, 8, 9, 16, 18, 32, 65):
        check_op(aten.t_copy.out, sample((rows, cols), dtype))


def test_large_transposes_are_cut_into_units() -> None:
    check_op(aten.permute_copy.out, sample((700, 300)), [1, 0])
    check_op(aten.permute_copy.out, sample((3, 200, 160), torch.int8), [0, 2, 1])
    check_op(aten.permute_copy.out, sample((2, 100, 12, 64)), [0, 2, 1, 3])
    check_op(aten.expand_copy.out, sample((1,)), [100000])
    check_op(aten.slice_copy.Tensor_out, sample((100000,), torch.int16), 0, 0, 99999, 3)


AS_STRIDED = [
    ((12,), [3, 4], [4, 1], None),
    ((12,), [4, 3], [1, 4], 0),
    ((12,), [2, 3], [3, 2], 2),
    ((12,), [3, 3], [0, 1], 9),
    ((12,), [], [], 11),
    ((12,), [0, 5], [100, 100], 1000),
    ((3, 4), [12], [1], 0),
    ((12,), [1, 12], [9223372036854775807, 1], 0),
]


@pytest.mark.parametrize("shape, size, stride, offset", AS_STRIDED)
def test_as_strided_walks_memory(
    shape: tuple[int, ...], size: list[int], stride: list[int], offset: int | None
) -> None:
    for order in orders(len(shape)):
        x = sample(shape, torch.float32, order)
        memory = laid_out(x, list(range(x.dim()))) if x.is_contiguous() else x
        expected = torch.as_strided(memory, size, stride, offset).contiguous()
        check_op(aten.as_strided_copy.out, x, size, stride, offset, expected=expected)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128], ids=str)
def test_view_as_real_splits_complex_numbers(dtype: torch.dtype) -> None:
    for shape in ((), (5,), (2, 3, 4)):
        for order in orders(len(shape)):
            x = sample(shape, dtype, order)
            for out_order in orders(len(shape) + 1):
                check_op(aten.view_as_real_copy.out, x, out_order=out_order)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_view_as_complex_joins_the_parts(dtype: torch.dtype) -> None:
    for shape in ((2,), (5, 2), (2, 3, 4, 2), (0, 2)):
        for order in orders(len(shape)):
            x = sample(shape, dtype, order)
            expected = torch.view_as_complex(x.contiguous())
            for out_order in orders(len(shape) - 1):
                check_op(aten.view_as_complex_copy.out, x, out_order=out_order, expected=expected)


BIG = 9223372036854775807
REFUSED: list[tuple[str, tuple[int, ...], list[Any], tuple[int, ...], str]] = [
    ("aten::permute_copy.out", (2, 3), [[0, 0]], (2, 3), "twice"),
    (
        "aten::permute_copy.out",
        (2, 3),
        [[0]],
        (2,),
        "expected 2 dims, the rank of the tensor, got 1",
    ),
    (
        "aten::permute_copy.out",
        (2, 3),
        [[0, 2]],
        (2, 3),
        "expected a dimension of a tensor of rank 2, got 2",
    ),
    (
        "aten::transpose_copy.int_out",
        (2, 3),
        [0, 2],
        (2, 3),
        "expected a dimension of a tensor of rank 2, got 2",
    ),
    ("aten::t_copy.out", (2, 3, 4), [], (2, 3, 4), "expected rank 2 or less, got 3"),
    (
        "aten::unsqueeze_copy.out",
        (2,),
        [3],
        (2, 1),
        "expected a dimension of a tensor of rank 2, got 3",
    ),
    ("aten::view_copy.out", (2, 3), [[4, -1]], (4, 2), "cannot be inferred"),
    ("aten::view_copy.out", (2, 3), [[-1, -1]], (2, 3), "expected one size of -1 at most"),
    ("aten::view_copy.out", (2, 3), [[7]], (7,), r"sizes of 6 elements, got \[7\]"),
    ("aten::view_copy.out", (2, 3), [[-2, -3]], (2, 3), "expected a size of 0 to 2147483647"),
    ("aten::view_copy.out", (2, 3), [[BIG, 2]], (2, 3), "expected a size of 0 to 2147483647"),
    ("aten::view_copy.out", (2, 3), [[2147483647] * 4 + [6]], (2, 3, 1, 1, 1), "6 elements"),
    ("aten::expand_copy.out", (2, 3), [[2, 4], False], (2, 4), "cannot be expanded to 4"),
    ("aten::expand_copy.out", (2, 3), [[3], False], (3,), "expected 2 sizes or more"),
    ("aten::expand_copy.out", (3,), [[-1, 3], False], (1, 3), "expected a size of 0 to 2147483647"),
    ("aten::select_copy.int_out", (2, 3), [1, 3], (2,), "index 3 is out of bounds for dimension 1"),
    ("aten::select_copy.int_out", (2, 3), [1, -4], (2,), "index -4"),
    ("aten::select_copy.int_out", (), [0, 0], (), "expected a tensor of rank 1 or more"),
    (
        "aten::slice_copy.Tensor_out",
        (4,),
        [0, 0, 4, 0],
        (4,),
        "expected a step of 1 or more, got 0",
    ),
    (
        "aten::slice_copy.Tensor_out",
        (4,),
        [0, 0, 4, -1],
        (4,),
        "expected a step of 1 or more, got -1",
    ),
    ("aten::narrow_copy.out", (4,), [0, 2, 3], (3,), "start 2 and length 3"),
    ("aten::narrow_copy.out", (4,), [0, 2, -1], (3,), "length -1"),
    (
        "aten::narrow_copy.out",
        (4,),
        [0, BIG, BIG],
        (3,),
        "expected a range within dimension 0 of size 4",
    ),
    ("aten::diagonal_copy.out", (3, 3), [0, 1, -1], (3,), "expected two dimensions"),
    (
        "aten::as_strided_copy.out",
        (4,),
        [[5], [1], 0],
        (5,),
        "as_strided: dimension 0: expected a view inside the tensor's 4 elements, got size 5 and "
        "stride 1 from offset 0",
    ),
    ("aten::as_strided_copy.out", (4,), [[2], [BIG], 0], (2,), f"size 2 and stride {BIG} from"),
    ("aten::as_strided_copy.out", (4,), [[2], [1], BIG], (2,), f"tensor's 4 elements, got {BIG}"),
    (
        "aten::as_strided_copy.out",
        (4,),
        [[2], [-1], 3],
        (2,),
        "expected strides of 0 or more, got -1",
    ),
    ("aten::as_strided_copy.out", (4,), [[2], [1], -1], (2,), "offset -1"),
    ("aten::as_strided_copy.out", (4,), [[2, 2], [1], 0], (2, 2), "1 strides"),
    ("aten::unfold_copy.out", (4,), [0, 5, 1], (1, 5), "size 5"),
    ("aten::unfold_copy.out", (4,), [0, 2, 0], (1, 2), "step 0"),
    ("aten::unfold_copy.out", (4,), [0, -1, 1], (1, 2), "size -1"),
]


@pytest.mark.parametrize("name, shape, args, out_shape, words", REFUSED)
def test_wrong_arguments_are_refused_with_words(
    name: str, shape: tuple[int, ...], args: list[Any], out_shape: tuple[int, ...], words: str
) -> None:
    for prepared in (False, True):
        with pytest.raises(OpError, match=words):
            run_op(
                name, sample(shape), *args, out=[Out(torch.float32, out_shape)], prepared=prepared
            )


def test_outputs_of_another_type_shape_or_number_are_refused() -> None:
    x = sample((4, 2))
    with pytest.raises(OpError, match="f32 and f64 differ"):
        run_op("aten::t_copy.out", x, out=[Out(torch.float64, (2, 4))])
    with pytest.raises(OpError, match="out: "):
        run_op("aten::t_copy.out", x, out=[Out(torch.float32, (2, 3))])
    for out in (Out(torch.float32, (4,)), Out(torch.complex128, (4,))):
        with pytest.raises(OpError, match="view_as_complex: not defined from f32 to "):
            run_op("aten::view_as_complex_copy.out", x, out=[out])
    for shape in ((4, 3), ()):
        with pytest.raises(
            OpError, match=r"expected a last dimension of size 2, got \d of rank \d"
        ):
            run_op(
                "aten::view_as_complex_copy.out",
                sample(shape),
                out=[Out(torch.complex64, (4,))],
            )
    with pytest.raises(OpError, match="expected 3 outputs, got 2"):
        outs = [Out(torch.float32, (2, 2))] * 2
        run_op("aten::split_copy.Tensor_out", sample((6, 2)), 2, 0, out=outs, tensor_list_out=True)
    with pytest.raises(OpError, match="size 5 at position 1 is more than the 3 of 4"):
        outs = [Out(torch.float32, (4, 2))] * 2
        run_op("aten::split_with_sizes_copy.out", x, [1, 5], 0, out=outs, tensor_list_out=True)
    with pytest.raises(OpError, match="expected 2 sizes, one for each output, got 3"):
        run_op("aten::split_with_sizes_copy.out", x, [1, 1, 2], 0, out=outs, tensor_list_out=True)
    with pytest.raises(OpError, match="split_with_sizes: sizes: expected IntList, got Int"):
        run_op("aten::split_with_sizes_copy.out", x, 4, 0, out=outs, tensor_list_out=True)
    with pytest.raises(OpError, match="expected sizes that add up to 4, got 2"):
        run_op("aten::split_with_sizes_copy.out", x, [1, 1], 0, out=outs, tensor_list_out=True)
    with pytest.raises(OpError, match="expected 4 outputs, the size of dimension 0, got 2"):
        run_op("aten::unbind_copy.int_out", x, 0, out=outs, tensor_list_out=True)


def test_the_dim_order_of_the_output_is_its_own() -> None:
    x = sample((2, 3, 4, 5), torch.float32, [0, 2, 3, 1])
    (y,) = check_op(aten.permute_copy.out, x, [0, 1, 3, 2], out_order=[3, 2, 1, 0])
    assert dim_order(y) == [3, 2, 1, 0]
