"""Single kernels beside eager torch, one thread, each pair timed in turn in one process.

Shapes are those that carry MobileNetV2, ResNet-18 and ViT-B/16. Prints one JSON line a case: both
medians in microseconds, their ratio, and our GFLOP/s where that says something. The C side is the
test driver's release build.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from peers import report

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "kernels"))
from op_driver import Const, Out, time_op

ROUNDS = 5
ROUND_NS = 20e6

# channels in and out, pixels a side, kernel, stride, groups
CONVOLUTIONS = [
    (3, 64, 224, 7, 2, 1),
    (64, 64, 56, 3, 1, 1),
    (128, 128, 28, 3, 1, 1),
    (256, 256, 14, 3, 1, 1),
    (512, 512, 7, 3, 1, 1),
    (64, 128, 56, 1, 2, 1),
    (3, 32, 224, 3, 2, 1),
    (16, 96, 112, 1, 1, 1),
    (24, 144, 56, 1, 1, 1),
    (384, 64, 14, 1, 1, 1),
    (960, 160, 7, 1, 1, 1),
    (320, 1280, 7, 1, 1, 1),
    (32, 32, 112, 3, 1, 32),
    (96, 96, 112, 3, 2, 96),
    (576, 576, 14, 3, 1, 576),
    (3, 768, 224, 16, 16, 1),
]
# m, n, k of a linear layer
LINEARS = [
    (1024, 1024, 1024),
    (197, 768, 768),
    (197, 3072, 768),
    (197, 768, 3072),
    (128, 384, 384),
    (1, 1000, 1280),
]
# batch, m, n, k
BATCHED = [(12, 197, 197, 64), (12, 197, 64, 197), (12, 128, 128, 32)]


def eager_ns(call: Callable[[], Any], repeats: int) -> float:
    """Of one call, the best of five rounds, as time_op gives it for ours."""
    best = float("inf")
    for _ in range(5):
        start = time.perf_counter_ns()
        for _ in range(repeats):
            call()
        best = min(best, (time.perf_counter_ns() - start) / repeats)
    return best


def compare(
    subject: str, name: str, args: list[Any], eager: Callable[[], Any], flops: float = 0.0
) -> None:
    result = eager()
    results = result if isinstance(result, tuple) else (result,)
    outs = [Out(t.dtype, tuple(t.shape)) for t in results]
    repeats = max(1, int(ROUND_NS / 5 / max(1.0, eager_ns(eager, 1))))
    ours, theirs = [], []
    for _ in range(ROUNDS):
        ours.append(time_op(name, *args, out=outs, repeats=repeats))
        theirs.append(eager_ns(eager, repeats))
    mine, other = statistics.median(ours), statistics.median(theirs)
    report(
        subject, ours_us=mine / 1e3, eager_us=other / 1e3, ratio=mine / other, gflops=flops / mine
    )


def convolutions() -> None:
    for c_in, c_out, side, kernel, stride, groups in CONVOLUTIONS:
        pad = kernel // 2 if kernel < 16 else 0
        x, w, b = (
            torch.rand(1, c_in, side, side),
            torch.rand(c_out, c_in // groups, kernel, kernel),
            torch.rand(c_out),
        )
        geometry = [[stride, stride], [pad, pad], [1, 1], False, [0, 0], groups]

        def eager(x: Any = x, w: Any = w, b: Any = b, geometry: Any = geometry) -> torch.Tensor:
            return torch.ops.aten.convolution(x, w, b, *geometry)

        flops = 2.0 * eager().numel() * c_in // groups * kernel**2
        subject = f"conv {c_in}->{c_out} {kernel}x{kernel}/{stride} @{side} groups {groups}"
        compare(subject, "aten::convolution.out", [x, Const(w), Const(b), *geometry], eager, flops)


def products() -> None:
    for m, n, k in LINEARS:
        x, w, b = torch.rand(m, k), torch.rand(n, k), torch.rand(n)
        compare(
            f"linear {m}x{k} -> {n}",
            "aten::linear.out",
            [x, Const(w), Const(b)],
            lambda x=x, w=w, b=b: torch.nn.functional.linear(x, w, b),
            2.0 * m * n * k,
        )
    for batch, m, n, k in BATCHED:
        a, c = torch.rand(batch, m, k), torch.rand(batch, k, n)
        compare(
            f"bmm {batch} of {m}x{k}x{n}",
            "aten::bmm.out",
            [a, c],
            lambda a=a, c=c: torch.bmm(a, c),
            2.0 * batch * m * n * k,
        )


def memory_bound() -> None:
    aten = torch.ops.aten
    x, w, b = torch.randn(1, 197, 768), torch.rand(768), torch.rand(768)
    compare(
        "layer norm 197x768",
        "aten::native_layer_norm.out",
        [x, [768], w, b, 1e-6],
        lambda: aten.native_layer_norm(x, [768], w, b, 1e-6),
    )
    y, p = torch.rand(1, 96, 112, 112), [torch.rand(96) for _ in range(4)]
    compare(
        "batch norm 96x112x112",
        "aten::_native_batch_norm_legit_no_training.out",
        [y, *p, 0.1, 1e-5],
        lambda: aten._native_batch_norm_legit_no_training(y, *p, 0.1, 1e-5),
    )
    z = torch.rand(1, 64, 112, 112)
    window = [[3, 3], [2, 2], [1, 1]]
    compare(
        "max pool 64x112x112 3x3/2",
        "aten::max_pool2d_with_indices.out",
        [z, *window, [1, 1], False],
        lambda: aten.max_pool2d_with_indices(z, *window),
    )
    compare(
        "avg pool 64x112x112 3x3/2",
        "aten::avg_pool2d.out",
        [z, *window, False, True, None],
        lambda: aten.avg_pool2d(z, *window),
    )
    u = torch.rand(1, 64, 56, 56)
    compare(
        "bilinear 64x56x56 to 112",
        "aten::upsample_bilinear2d.vec_out",
        [u, [112, 112], False, None],
        lambda: aten.upsample_bilinear2d.vec(u, [112, 112], False, None),
    )


def main() -> None:
    torch.set_num_threads(1)
    with torch.no_grad():
        convolutions()
        products()
        memory_bound()


if __name__ == "__main__":
    main()
