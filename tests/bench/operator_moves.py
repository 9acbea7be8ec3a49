"""Cases of bench_operators that move elements: copies and layouts, slices, padding, indices,
pooling and sampling of images. Data only.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from operator_data import SIDE, Case, data, square, words


def layouts() -> Iterator[Case]:
    x, cube, image = square(), data(64, 128, 128), data(4, 64, 64, 64)
    lasts = image.to(memory_format=torch.channels_last)
    for dtype in words("f32 f64 f16 u8 bool"):
        y = square(dtype)
        yield f"transpose {dtype}", "transpose_copy.int_out", (y, 0, 1)
        yield f"clone {dtype}", "clone.out", (y,)
        yield f"flip {dtype}", "flip.out", (y, [1])
    for order in ((0, 2, 1), (1, 0, 2), (2, 1, 0), (1, 2, 0), (2, 0, 1)):
        yield f"permute {order}", "permute_copy.out", (cube, list(order))
    for order in ((0, 2, 3, 1), (0, 3, 1, 2), (0, 2, 1, 3), (2, 0, 3, 1), (3, 2, 1, 0)):
        yield f"permute {order}", "permute_copy.out", (image, list(order))
    yield "permute three channels in", "permute_copy.out", (data(4, 3, 295, 295), [0, 2, 3, 1])
    yield "permute three channels out", "permute_copy.out", (data(4, 295, 295, 3), [0, 3, 1, 2])
    yield "permute heads", "permute_copy.out", (data(8, 128, 16, 64), [0, 2, 1, 3])
    yield "permute f16 heads, inner", "permute_copy.out", (
        data(8, 128, 16, 64, dtype="f16"), [0, 2, 3, 1])  # fmt: skip
    yield "to channels last", "clone.out", (image, {"memory_format": torch.channels_last})
    yield "from channels last", "clone.out", (lasts, {"memory_format": torch.contiguous_format})
    yield "clone channels last", "clone.out", (lasts,)
    yield "expand rows", "expand_copy.out", (data(1, SIDE), [SIDE, SIDE])
    yield "expand columns", "expand_copy.out", (data(SIDE, 1), [SIDE, SIDE])
    yield "expand middle", "expand_copy.out", (data(64, 1, 128), [64, 128, 128])
    yield "repeat", "repeat.out", (data(256, 256), [4, 4])
    yield "repeat columns of three", "repeat.out", (data(32768, 3), [1, 11])
    yield "repeat rows", "repeat.out", (data(64, SIDE), [16, 1])
    yield "repeat_interleave", "repeat_interleave.Tensor_out", (data(SIDE * 64, dtype="i64"),)
    for dtype in ("f32", "f16", "u8", "i64"):
        y = square(dtype)
        a, b = y[:, :512].clone(), y[:, 512:].clone()
        yield f"cat dim 0 {dtype}", "cat.out", ([y[:512].clone(), y[512:].clone()], 0)
        yield f"cat dim 1 {dtype}", "cat.out", ([a, b], 1)
    yield "cat narrow", "cat.out", ([data(65536, 8), data(65536, 8)], 1)
    yield "cat of one column", "cat.out", ([data(262144, 1)] * 4, 1)
    yield "cat channels last", "cat.out", ([lasts[:, :32].clone(), lasts[:, 32:].clone()], 1)
    yield "cat f32 + i64", "cat.out", ([x[:512].clone(), square("i64")[:512].clone()], 0)
    yield "stack first", "stack.out", ([data(512, 1024), data(512, 1024)], 0)
    yield "stack last", "stack.out", ([data(512, 1024), data(512, 1024)], 2)
    yield "slice inner", "slice_copy.Tensor_out", (data(SIDE, 2048), 1, 512, 1536, 1)
    yield "slice outer", "slice_copy.Tensor_out", (data(2048, SIDE), 0, 512, 1536, 1)
    for dtype in ("f32", "f16", "u8", "i64"):
        wide = data(SIDE, 2048, dtype=dtype)
        yield f"slice step 2 {dtype}", "slice_copy.Tensor_out", (wide, 1, 0, 2048, 2)
    yield "slice step 2 middle", "slice_copy.Tensor_out", (data(64, 256, 64), 1, 0, 256, 2)
    yield "slice step 2 outer", "slice_copy.Tensor_out", (data(2048, SIDE), 0, 0, 2048, 2)
    yield "slice step 5", "slice_copy.Tensor_out", (data(SIDE, 5120), 1, 0, 5120, 5)
    yield "select inner", "select_copy.int_out", (data(SIDE, SIDE, 2), 2, 1)
    yield "select middle", "select_copy.int_out", (data(SIDE, 2, SIDE), 1, 1)
    yield "diagonal", "diagonal_copy.out", (data(SIDE, 32, 32), 0, 1, 2)
    yield "slice_scatter", "slice_scatter.out", (x, data(SIDE, 512), 1, 256, 768)
    yield "slice_scatter step 2", "slice_scatter.out", (x, data(SIDE, 512), 1, 0, SIDE, 2)
    yield "select_scatter", "select_scatter.out", (x, data(SIDE), 1, 7)
    for dims in ([0], [0, 1]):
        yield f"flip {dims}", "flip.out", (x, dims)
    yield "flip middle", "flip.out", (cube, [1])
    yield "roll", "roll.out", (x, [3], [1])
    yield "roll rows", "roll.out", (x, [3], [0])
    yield "roll both", "roll.out", (x, [3, 5], [0, 1])
    yield "roll windows", "roll.out", (data(4, 56, 56, 96), [-3, -3], [1, 2])
    yield "tril", "tril.out", (x,)
    yield "tril batch", "tril.out", (data(256, 64, 64),)
    yield "unfold", "unfold_copy.out", (data(SIDE, 512), 1, 4, 2)
    yield "pixel_shuffle", "pixel_shuffle.out", (image, 2)
    yield "pixel_unshuffle", "pixel_unshuffle.out", (image, 2)
    yield "view as real", "view_as_real_copy.out", (square("c64"),)
    yield "split", "split_copy.Tensor_out", (x, 256, 1)
    yield "unbind", "unbind_copy.int_out", (data(16, 256, 256), 0)


def fills() -> Iterator[Case]:
    x, image = square(), data(4, 64, 64, 64)
    for dtype in ("f32", "f16", "u8"):
        y = data(4, 64, 64, 64, dtype=dtype)
        yield f"pad constant {dtype}", "constant_pad_nd.out", (y, [1, 1, 1, 1], 0)
    for name, rank, pad in (("1d", 3, [3, 3]), ("2d", 4, [1, 1, 1, 1]), ("3d", 5, [1] * 6)):
        shapes = {3: (16, 64, SIDE), 4: (4, 64, 64, 64), 5: (4, 16, 16, 32, 32)}
        y = data(*shapes[rank])
        yield f"pad reflection {name}", f"reflection_pad{name}.out", (y, pad)
        yield f"pad replication {name}", f"replication_pad{name}.out", (y, pad)
    yield "pad constant, narrow", "constant_pad_nd.out", (data(65536, 15), [0, 1], 0.0)
    yield "pad constant, crop", "constant_pad_nd.out", (image, [-1, -1, -1, -1], 0.0)
    yield "fill", "full_like.out", (x, 1.5)
    yield "full", "full.out", ([SIDE, SIDE], 1.5)
    yield "zeros", "zeros.out", ([SIDE, SIDE],)
    yield "arange f32", "arange.start_out", (0.0, float(SIDE * SIDE), 1.0)
    yield "fill u8", "full_like.out", (square("u8"), 3)
    yield "fill i64", "full_like.out", (square("i64"), 3)
    yield "rand", "rand_like.out", (x,)
    yield "randn", "randn_like.out", (x,)
    yield "randint", "randint_like.out", (x, 100)
    yield "randperm", "randperm.out", (SIDE * SIDE,)
    yield "multinomial", "multinomial.out", (data(SIDE, SIDE), 4, True)


def indices() -> Iterator[Case]:
    x = square()
    rows = torch.arange(SIDE).flip(0)
    inner = rows.expand(SIDE, SIDE).contiguous()
    outer = inner.t().contiguous()
    spread = (data(SIDE, SIDE) * SIDE).long()
    yield "embedding", "embedding.out", (data(32000, 256), torch.arange(4096) * 7)
    yield "embedding narrow", "embedding.out", (data(32000, 16), torch.arange(65536) * 7 % 32000)
    for dtype in ("f32", "f16", "i64", "u8"):
        y = square(dtype)
        yield f"index_select rows {dtype}", "index_select.out", (y, 0, rows)
        yield f"index_select columns {dtype}", "index_select.out", (y, 1, rows)
        yield f"gather dim 1 {dtype}", "gather.out", (y, 1, inner)
        yield f"gather dim 0 {dtype}", "gather.out", (y, 0, spread)
        yield f"scatter {dtype}", "scatter.src_out", (y, 1, inner, y)
    yield "index_select middle", "index_select.out", (data(64, 128, 128), 1, torch.arange(128))
    yield "gather random", "gather.out", (x, 1, spread)
    yield "gather middle", "gather.out", (data(64, 128, 128), 1, spread.view(64, 128, 128) % 128)
    yield "scatter dim 0", "scatter.src_out", (x, 0, outer, x)
    yield "scatter random", "scatter.src_out", (x, 1, spread, x)
    yield "scatter value", "scatter.value_out", (x, 1, inner, 1.5)
    for dtype in ("f32", "f64", "i64", "bf16"):
        y = square(dtype)
        yield f"scatter_add {dtype}", "scatter_add.out", (y, 1, inner, y)
    yield "scatter_add dim 0", "scatter_add.out", (x, 0, spread, x)
    yield "scatter_add random", "scatter_add.out", (x, 1, spread, x)
    for reduce in ("sum", "prod", "amax", "amin"):
        yield f"scatter_reduce {reduce}", "scatter_reduce.two_out", (x, 1, spread, x, reduce)
    yield "scatter_reduce sum dim 0", "scatter_reduce.two_out", (x, 0, spread, x, "sum")
    yield "index_reduce prod", "index_reduce.out", (x, 0, rows, x, "prod")
    yield "index_reduce amax columns", "index_reduce.out", (x, 1, rows, x, "amax")
    yield "index one", "index.Tensor_out", (x, [rows])
    yield "index second", "index.Tensor_out", (x, [None, rows])
    yield "index two", "index.Tensor_out", (x, [inner, outer])
    yield "index two random", "index.Tensor_out", (x, [spread, spread.t().contiguous()])
    yield "index by mask", "index.Tensor_out", (x, [square("bool")])
    yield "index two i64", "index.Tensor_out", (square("i64"), [inner, outer])
    for adds in (False, True):
        how = ", accumulate" if adds else ""
        yield f"index_put rows{how}", "index_put.out", (x, [rows], x, adds)
        yield f"index_put two{how}", "index_put.out", (x, [inner, outer], x, adds)
        yield f"index_put scalar{how}", "index_put.out", (x, [rows], torch.tensor(1.0), adds)
    yield "index_put mask", "index_put.out", (x, [square("bool")], torch.tensor(1.0), False)
    for dtype in ("f32", "i64", "u8"):
        yield f"masked_select {dtype}", "masked_select.out", (square(dtype), square("bool"))
    yield "masked_scatter", "masked_scatter.out", (x, square("bool"), x)
    yield "nonzero bool", "nonzero.out", (square("bool"),)
    yield "nonzero f32", "nonzero.out", (x * (x > 0.5),)
    yield "nonzero sparse", "nonzero.out", (x > 0.94,)
    bags = torch.arange(0, 65536, 16)
    args = (data(32000, 64), torch.arange(65536) * 7 % 32000, bags)
    yield "embedding_bag sum", "_embedding_bag_forward_only.out", (*args, False, 0)
    yield "embedding_bag max", "_embedding_bag_forward_only.out", (*args, False, 2)


def images() -> Iterator[Case]:
    for dtype in ("f32", "bf16", "f64"):
        image = data(4, 64, 64, 64, dtype=dtype)
        lasts = image.to(memory_format=torch.channels_last)
        pool = "max_pool2d_with_indices.out"
        for name, y in ((dtype, image), (f"{dtype} channels last", lasts)):
            yield f"avg_pool2d {name}", "avg_pool2d.out", (y, [3, 3], [2, 2], [1, 1])
            yield f"avg_pool2d 2 {name}", "avg_pool2d.out", (y, [2, 2], [2, 2])
            yield f"max_pool2d {name}", pool, (y, [3, 3], [2, 2], [1, 1])
            yield f"max_pool2d 2 {name}", pool, (y, [2, 2], [2, 2])
            yield f"adaptive_avg_pool2d {name}", "_adaptive_avg_pool2d.out", (y, [7, 7])
            yield f"adaptive_max_pool2d {name}", "adaptive_max_pool2d.out", (y, [7, 7])
    image = data(4, 64, 64, 64)
    yield "max_pool2d stride 1", "max_pool2d_with_indices.out", (image, [3, 3], [1, 1], [1, 1])
    yield "avg_pool2d stride 1", "avg_pool2d.out", (image, [3, 3], [1, 1], [1, 1])
    yield "avg_pool2d global", "avg_pool2d.out", (image, [64, 64])
    yield "adaptive_avg_pool2d to 1", "_adaptive_avg_pool2d.out", (image, [1, 1])
    solid = data(4, 8, 32, 32, 32)
    yield "avg_pool3d", "avg_pool3d.out", (solid, [2, 2, 2])
    yield "avg_pool3d 3", "avg_pool3d.out", (solid, [3, 3, 3], [2, 2, 2], [1, 1, 1])
    yield "max_pool3d", "max_pool3d_with_indices.out", (solid, [2, 2, 2])
    yield "max_pool3d 3", "max_pool3d_with_indices.out", (
        solid, [3, 3, 3], [2, 2, 2], [1, 1, 1])  # fmt: skip
    yield "adaptive_avg_pool3d", "_adaptive_avg_pool3d.out", (solid, [5, 5, 5])
    fine = data(4, 64, 32, 32)
    for name in ("fractional_max_pool2d",):
        yield name, f"{name}.output", (image, [2, 2], [32, 32], torch.rand(4, 64, 2) * 0.5)
    yield "max_pool2d backward", "max_pool2d_with_indices_backward.grad_input", (
        fine, image, [2, 2], [2, 2], [0, 0], [1, 1], False,
        torch.ops.aten.max_pool2d_with_indices(image, [2, 2], [2, 2])[1])  # fmt: skip
    yield "avg_pool2d backward", "avg_pool2d_backward.grad_input", (
        fine, image, [2, 2], [2, 2], [0, 0], False, True, None)  # fmt: skip


def samples() -> Iterator[Case]:
    for dtype in ("f32", "bf16", "f64"):
        half = data(4, 16, 64, 64, dtype=dtype)
        lasts = half.to(memory_format=torch.channels_last)
        for name, y in ((dtype, half), (f"{dtype} channels last", lasts)):
            yield f"upsample bilinear {name}", "upsample_bilinear2d.vec_out", (
                y, [128, 128], False, None)  # fmt: skip
            yield f"upsample nearest {name}", "upsample_nearest2d.vec_out", (y, [128, 128], None)
    half = data(4, 16, 64, 64)
    yield "upsample bilinear, corners", "upsample_bilinear2d.vec_out", (
        half, [127, 127], True, None)  # fmt: skip
    yield "downsample antialiased", "_upsample_bilinear2d_aa.out", (
        data(4, 64, 64, 64), [31, 31], False)  # fmt: skip
    yield "upsample antialiased", "_upsample_bilinear2d_aa.out", (half, [128, 128], False)
    image, solid = data(4, 64, 64, 64), data(4, 8, 32, 32, 32)
    few = data(4, 3, 296, 296)
    grid, wide = data(4, 64, 64, 2) * 2 - 1, data(4, 296, 296, 2) * 2 - 1
    smooth = torch.nn.functional.affine_grid(
        torch.eye(2, 3).expand(4, 2, 3) * 0.9, [4, 3, 296, 296], False
    )
    for mode, name in enumerate(("bilinear", "nearest", "bicubic")):
        for padding, edge in enumerate(("zeros", "border", "reflection")):
            args = (image, grid, mode, padding, False)
            yield f"grid_sampler_2d {name} {edge}", "grid_sampler_2d.out", args
        yield (
            f"grid_sampler_2d {name}, smooth",
            "grid_sampler_2d.out",
            (few, smooth, mode, 0, False),
        )
        yield f"grid_sampler_2d {name}, three channels", "grid_sampler_2d.out", (
            few, wide, mode, 0, False)  # fmt: skip
    for dtype in ("f64", "bf16"):
        yield (
            f"grid_sampler_2d {dtype}",
            "grid_sampler_2d.out",
            (
                image.to(data(1, dtype=dtype).dtype),
                grid.to(data(1, dtype=dtype).dtype),
                0,
                0,
                False,
            ),
        )
    points = data(4, 32, 32, 32, 3) * 2 - 1
    for mode, name in enumerate(("bilinear", "nearest")):
        yield f"grid_sampler_3d {name}", "grid_sampler_3d.out", (solid, points, mode, 0, False)
