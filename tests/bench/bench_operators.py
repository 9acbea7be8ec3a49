"""Every kind of operator at a million elements beside eager torch, one thread, nothing packed.

Cases come from the table below, each with f32 inputs unless it says otherwise, and run by turns in
one process: one JSON line a case with the best of both in microseconds of processor time and the
median of their ratios round by round, then the ten worst. Eager runs its out variant and its plain
one; the faster counts. A word as argument restricts the run to subjects that contain it.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from bench_kernels import eager_ns
from peers import report

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "kernels"))
from op_driver import Const, Out, _arguments, has_op, time_op

ROUNDS = 5
ROUND_NS = 15e6
SIDE = 1024  # a square of SIDE × SIDE has a million elements

DTYPES = {
    "f32": torch.float32,
    "f64": torch.float64,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "i64": torch.int64,
    "i32": torch.int32,
    "u8": torch.uint8,
    "bool": torch.bool,
}


def words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


UNARY = words(
    "abs acos acosh asin asinh atan atanh ceil cos cosh erf exp expm1 floor isinf isnan log "
    "log10 log1p log2 logical_not neg reciprocal relu round rsqrt sigmoid sign sin sinh sqrt "
    "tan tanh trunc"
)
BINARY = words(
    "add.out sub.out mul.out div.out maximum.out minimum.out atan2.out floor_divide.out "
    "fmod.Tensor_out remainder.Tensor_out pow.Tensor_Tensor_out eq.Tensor_out ge.Tensor_out "
    "lt.Tensor_out ne.Tensor_out logical_and.out logical_or.out logical_xor.out"
)
SCALAR = words(
    "add.Scalar_out mul.Scalar_out div.Scalar_out fmod.Scalar_out remainder.Scalar_out "
    "eq.Scalar_out gt.Scalar_out pow.Tensor_Scalar_out"
)
BITWISE = words(
    "bitwise_and.Tensor_out bitwise_or.Tensor_out bitwise_left_shift.Tensor_out "
    "bitwise_right_shift.Tensor_out"
)
DIVISIONS = words("floor_divide.out remainder.Tensor_out fmod.Tensor_out")
REDUCED = words(
    "sum.IntList_out mean.out amax.out amin.out prod.int_out argmax.out any.out max.dim_max "
    "cumsum.out _softmax.out _log_softmax.out var.correction_out"
)
CASTS = words("f32-f16 f16-f32 f32-bf16 f32-i64 i64-f32 u8-f32 bool-f32 f64-f32")


def data(*shape: int, dtype: str = "f32") -> torch.Tensor:
    """Repeatable values in (0.05, 0.95), integers in 1 … 9."""
    generator = torch.Generator().manual_seed(len(shape))
    values = torch.rand(*shape, generator=generator) * 0.9 + 0.05
    kind = DTYPES[dtype]
    if kind == torch.bool:
        return values > 0.5
    return values.to(kind) if kind.is_floating_point else (values * 10).to(kind).clamp(1, 9)


def square(dtype: str = "f32") -> torch.Tensor:
    return data(SIDE, SIDE, dtype=dtype)


# Name, out overload, arguments; keyword arguments come last, as a dictionary.
Case = tuple[str, str, tuple[Any, ...]]


def element_wise() -> Iterator[Case]:
    x = square()
    for name in UNARY:
        yield f"{name} f32", f"{name}.out", (x + 1 if name == "acosh" else x,)
        wide = square("f64")
        yield f"{name} f64", f"{name}.out", (wide + 1 if name == "acosh" else wide,)
    for name in ("exp", "sigmoid", "tanh", "abs", "neg", "relu", "sin", "log", "sqrt", "gelu"):
        for dtype in ("f16", "bf16"):
            yield f"{name} {dtype}", f"{name}.out", (square(dtype),)
    for name in BINARY:
        yield f"{name} f32", name, (x, square() * 0.5 + 0.3)
        yield f"{name} f32, row", name, (x, data(SIDE))
    for name in ("add.out", "mul.out", "div.out", "lt.Tensor_out"):
        yield f"{name} f32, column", name, (x, data(SIDE, 1))
        yield f"{name} f32 + i64", name, (x, square("i64"))
        for dtype in ("f64", "f16", "bf16", "i64", "i32", "u8"):
            yield f"{name} {dtype}", name, (square(dtype), square(dtype))
    for name in SCALAR:
        yield f"{name} f32", name, (x, 2.5)
        yield f"{name} i64", name, (square("i64"), 3)
    for name in BITWISE:
        for dtype in ("i64", "i32", "u8"):
            yield f"{name} {dtype}", name, (square(dtype), square(dtype))
    for name in DIVISIONS:
        for dtype in ("i64", "i32", "u8", "f64", "f16"):
            yield f"{name} {dtype}", name, (square(dtype), square(dtype))
    for name in ("atan2.out", "pow.Tensor_Tensor_out", "maximum.out"):
        for dtype in ("f64", "f16", "bf16"):
            yield f"{name} {dtype}", name, (square(dtype), square(dtype))
    mask = square("bool")
    yield "where.self", "where.self_out", (mask, x, x)
    yield "where.self, scalar", "where.self_out", (mask, x, torch.tensor(0.5))
    yield "masked_fill", "masked_fill.Scalar_out", (x, mask, 1.5)
    yield "clamp", "clamp.out", (x, 0.2, 0.7)
    yield "gelu", "gelu.out", (x,)
    yield "gelu tanh", "gelu.out", (x, {"approximate": "tanh"})
    yield "elu", "elu.out", (x,)
    yield "leaky_relu", "leaky_relu.out", (x,)
    yield "hardtanh", "hardtanh.out", (x,)
    yield "logit", "logit.out", (x, 1e-6)
    yield "glu", "glu.out", (x,)
    for cast in CASTS:
        source, target = cast.split("-")
        yield f"to {source} -> {target}", "_to_copy.out", (square(source), DTYPES[target])


def reductions() -> Iterator[Case]:
    x = square()
    for name in REDUCED:
        for dim in (0, 1):
            if name in ("_softmax.out", "_log_softmax.out"):
                args: tuple[Any, ...] = (dim, False)
            elif name.split(".")[0] in ("argmax", "cumsum", "max", "prod", "any"):
                args = (dim,)
            else:
                args = ([dim],)
            near_one = x * 0.2 + 0.9  # whose product is a normal number
            given = near_one if name == "prod.int_out" else x
            yield f"{name} dim {dim}", name, (given, *args)
        if name in ("sum.IntList_out", "mean.out", "amax.out", "var.correction_out"):
            yield f"{name} all", name, (x, [0, 1])
            yield f"{name} middle of three", name, (data(64, 128, 128), [1])
            yield f"{name} outer and inner", name, (data(64, 128, 128), [0, 2])
    yield "sum i64", "sum.IntList_out", (square("i64"), [1])
    yield "mean bf16", "mean.out", (square("bf16"), [1])
    yield "max all", "max.unary_out", (x,)
    yield "layer_norm", "native_layer_norm.out", (x, [SIDE], data(SIDE), data(SIDE), 1e-5)
    short = data(16384, 64)
    yield "layer_norm short", "native_layer_norm.out", (short, [64], data(64), data(64), 1e-5)
    image = data(4, 64, 64, 64)
    yield "group_norm", "native_group_norm.out", (image, data(64), data(64), 4, 64, 4096, 8, 1e-5)
    yield "batch_norm", "_native_batch_norm_legit_no_training.out", (
        image, data(64), data(64), data(64), data(64), 0.1, 1e-5)  # fmt: skip
    yield "softmax short", "_softmax.out", (short, 1, False)
    yield "cdist", "_cdist_forward.out", (data(512, 64), data(512, 64), 2.0, None)
    yield "topk", "topk.values", (x, 10)
    yield "sort", "sort.values", (x,)


def moves() -> Iterator[Case]:
    x, cube, image = square(), data(64, 128, 128), data(4, 64, 64, 64)
    yield "transpose", "transpose_copy.int_out", (x, 0, 1)
    yield "permute 0 2 1", "permute_copy.out", (cube, [0, 2, 1])
    yield "permute 1 0 2", "permute_copy.out", (cube, [1, 0, 2])
    yield "permute 2 1 0", "permute_copy.out", (cube, [2, 1, 0])
    yield "permute to channels last", "permute_copy.out", (image, [0, 2, 3, 1])
    yield "permute u8", "permute_copy.out", (square("u8"), [1, 0])
    yield "permute f16", "permute_copy.out", (square("f16"), [1, 0])
    yield "clone", "clone.out", (x,)
    yield "expand rows", "expand_copy.out", (data(1, SIDE), [SIDE, SIDE])
    yield "expand columns", "expand_copy.out", (data(SIDE, 1), [SIDE, SIDE])
    yield "repeat", "repeat.out", (data(256, 256), [4, 4])
    yield "cat dim 0", "cat.out", ([x[:512].clone(), x[512:].clone()], 0)
    yield "cat dim 1", "cat.out", ([x[:, :512].clone(), x[:, 512:].clone()], 1)
    yield "stack last", "stack.out", ([data(512, 1024), data(512, 1024)], 2)
    yield "slice step 2", "slice_copy.Tensor_out", (data(SIDE, 2048), 1, 0, 2048, 2)
    yield "slice inner", "slice_copy.Tensor_out", (data(SIDE, 2048), 1, 512, 1536, 1)
    yield "select inner", "select_copy.int_out", (data(SIDE, SIDE, 2), 2, 1)
    yield "flip", "flip.out", (x, [1])
    yield "roll", "roll.out", (x, [3], [1])
    yield "pad constant", "constant_pad_nd.out", (image, [1, 1, 1, 1], 0.0)
    yield "pad reflection", "reflection_pad2d.out", (image, [1, 1, 1, 1])
    yield "pad replication", "replication_pad2d.out", (image, [1, 1, 1, 1])
    yield "tril", "tril.out", (x,)
    yield "unfold", "unfold_copy.out", (data(SIDE, 512), 1, 4, 2)
    yield "pixel_shuffle", "pixel_shuffle.out", (image, 2)
    yield "pixel_unshuffle", "pixel_unshuffle.out", (image, 2)
    yield "fill", "full_like.out", (x, 1.5)
    rows = torch.arange(SIDE).flip(0)
    inner = rows.expand(SIDE, SIDE).contiguous()
    yield "embedding", "embedding.out", (data(32000, 256), torch.arange(4096) * 7)
    yield "index_select rows", "index_select.out", (x, 0, rows)
    yield "index_select columns", "index_select.out", (x, 1, rows)
    yield "gather", "gather.out", (x, 1, inner)
    yield "scatter", "scatter.src_out", (x, 1, inner, x)
    yield "scatter_add", "scatter_add.out", (x, 1, inner, x)
    yield "index one", "index.Tensor_out", (x, [rows])
    yield "index two", "index.Tensor_out", (x, [inner, inner.t().contiguous()])
    yield "index_put", "index_put.out", (x, [rows], x, False)
    yield "masked_select", "masked_select.out", (x, square("bool"))
    yield "nonzero", "nonzero.out", (square("bool"),)
    yield "avg_pool2d", "avg_pool2d.out", (image, [3, 3], [2, 2], [1, 1])
    yield "max_pool2d", "max_pool2d_with_indices.out", (image, [3, 3], [2, 2], [1, 1])
    yield "adaptive_avg_pool2d", "_adaptive_avg_pool2d.out", (image, [7, 7])
    half = data(4, 16, 64, 64)
    yield "upsample bilinear", "upsample_bilinear2d.vec_out", (half, [128, 128], False, None)
    yield "upsample nearest", "upsample_nearest2d.vec_out", (half, [128, 128], None)
    yield "grid_sampler_2d", "grid_sampler_2d.out", (
        image, data(4, 64, 64, 2) * 2 - 1, 0, 0, False)  # fmt: skip


def plain(arg: Any) -> Any:
    if isinstance(arg, Const):
        return arg.tensor
    if isinstance(arg, list):
        return [plain(i) for i in arg]
    return arg


def eager_calls(op: Any, args: Sequence[Any], named: dict[str, Any]) -> list[Callable[[], Any]]:
    """The plain call, and the out variant into memory that is there already."""
    given = [plain(a) for a in args]
    packet = op.overloadpacket
    if packet is torch.ops.aten._to_copy:
        return [lambda: given[0].to(given[1])]
    result = packet(*given, **named)
    results = list(result) if isinstance(result, tuple | list) else [result]
    names = [a.name for a in op._schema.arguments if a.is_out]
    calls: list[Callable[[], Any]] = [lambda: packet(*given, **named)]
    if len(names) == len(results):
        outs = dict(zip(names, (torch.empty_like(r) for r in results), strict=True))
        calls.append(lambda: op(*given, **named, **outs))
    return calls


def compare(subject: str, name: str, args: Sequence[Any]) -> float:
    packet, overload = name.split(".")
    op = getattr(getattr(torch.ops.aten, packet), overload)
    named: dict[str, Any] = {}
    if args and isinstance(args[-1], dict):
        *args, named = args
    calls = eager_calls(op, args, named)
    result = calls[0]()
    results = list(result) if isinstance(result, tuple | list) else [result]
    outs = [Out(t.dtype, tuple(t.shape)) for t in results]
    full = [args[0], False, None] if packet == "_to_copy" else _arguments(op, args, named)
    once = min(eager_ns(call, 1) for call in calls)
    repeats = max(1, int(ROUND_NS / 5 / max(1.0, once)))
    ours, theirs = [], []
    for _ in range(ROUNDS):
        ours.append(time_op(f"aten::{name}", *full, out=outs, repeats=repeats))
        theirs.append(min(eager_ns(call, repeats) for call in calls))
    ratio = statistics.median(a / b for a, b in zip(ours, theirs, strict=True))
    report(subject, ours_us=min(ours) / 1e3, eager_us=min(theirs) / 1e3, ratio=ratio)
    return ratio


def main() -> None:
    torch.set_num_threads(1)
    ratios: dict[str, float] = {}
    for cases in (element_wise, reductions, moves):
        for subject, name, args in cases():
            if all(word in subject for word in sys.argv[1:]) and has_op(f"aten::{name}"):
                ratio = compare(subject, name, args)
                ratios[subject] = ratio
    worst = sorted(ratios, key=lambda s: -ratios[s])[:10]
    for place, subject in enumerate(worst, 1):
        report(f"worst {place}: {subject}", ratio=ratios[subject])
    above = sum(r > 2 for r in ratios.values())
    report("operators slower than twice eager", count=above, of=len(ratios))


if __name__ == "__main__":
    main()
