"""Single kernels beside eager torch, one thread, each pair timed in turn in one process.

Shapes are typical of convolutional networks and transformers. Prints one JSON line a case: the best
of both in microseconds of processor time, the median of their ratios round by round, and, where
useful, our GFLOP/s with the peak of this CPU and our share of it; for products with one row, which
are bound by reading weights, also GB/s and the share of the read bandwidth. Both limits are those
of `executorch_py run --profile`, measured in the same rounds. Best and ratio, because other
programs on the machine can only make a round slower. The C side is the test driver's release build.
Words as arguments restrict the run to subjects that contain them all.
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

from executorch_py import _C

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from support.op_driver import Const, Out, time_op

ROUNDS = 7
ROUND_NS = 20e6

# channels in and out, pixels a side, kernel, stride, groups; dilation
CONVOLUTIONS = [
    (3, 64, 224, 7, 2, 1),
    (64, 64, 56, 3, 1, 1),
    (128, 128, 28, 3, 1, 1),
    (256, 256, 14, 3, 1, 1),
    (512, 512, 7, 3, 1, 1),
    (128, 128, 56, 3, 2, 1),
    (512, 512, 14, 3, 2, 1),
    (64, 128, 56, 1, 2, 1),
    (3, 32, 224, 3, 2, 1),
    (16, 96, 112, 1, 1, 1),
    (24, 144, 56, 1, 1, 1),
    (384, 64, 14, 1, 1, 1),
    (64, 256, 56, 1, 1, 1),
    (1024, 256, 14, 1, 1, 1),
    (960, 160, 7, 1, 1, 1),
    (320, 1280, 7, 1, 1, 1),
    (128, 128, 28, 3, 1, 4),
    (32, 32, 112, 3, 1, 32),
    (96, 96, 112, 3, 2, 96),
    (576, 576, 14, 3, 1, 576),
    (240, 240, 28, 5, 1, 240),
    (72, 72, 56, 5, 2, 72),
    (672, 672, 7, 5, 1, 672),
    (96, 96, 56, 7, 1, 96),
    (3, 768, 224, 16, 16, 1),
    (64, 64, 28, 3, 1, 1, 2),
]
# channels in and out, pixels a side, kernel, stride, padding
TRANSPOSED = [(64, 32, 56, 4, 2, 1), (128, 64, 28, 3, 2, 1), (256, 128, 16, 2, 2, 0)]
# m, n, k of a linear layer
LINEARS = [
    (1024, 1024, 1024),
    (512, 512, 512),
    (2048, 768, 768),
    (197, 768, 768),
    (197, 3072, 768),
    (197, 768, 3072),
    (128, 384, 384),
    (128, 1536, 384),
    (128, 384, 1536),
    (16, 768, 768),
    (8, 768, 768),
    (4, 768, 768),
    (2, 768, 768),
    (1, 768, 768),
    (1, 1000, 1280),
    (1, 4096, 4096),
]
# batch, m, n, k
BATCHED = [
    (12, 197, 197, 64),
    (12, 197, 64, 197),
    (12, 128, 128, 32),
    (12, 128, 32, 128),
    (256, 8, 8, 8),
    (64, 49, 49, 32),
]


def eager_ns(call: Callable[[], Any], repeats: int) -> float:
    """The time of one eager call, the best of five rounds, as time_op measures ours."""
    best = float("inf")
    for _ in range(5):
        start = time.thread_time_ns()
        for _ in range(repeats):
            call()
        best = min(best, (time.thread_time_ns() - start) / repeats)
    return best


def compare(
    subject: str,
    name: str,
    args: list[Any],
    eager: Callable[[], Any],
    flops: float = 0.0,
    order: tuple[int, ...] | None = None,
    read_bytes: int = 0,
) -> None:
    if not all(word in subject for word in sys.argv[1:]):
        return
    result = eager()
    results = result if isinstance(result, tuple) else (result,)
    outs = [Out(t.dtype, tuple(t.shape), order) for t in results]
    repeats = max(1, int(ROUND_NS / 5 / max(1.0, eager_ns(eager, 1))))
    ours, theirs, peak, read = [], [], 0.0, 0.0
    for _ in range(ROUNDS):
        ours.append(time_op(name, *args, out=outs, repeats=repeats))
        theirs.append(eager_ns(eager, repeats))
        now, _, rates = _C.machine_rates(1, [read_bytes] if read_bytes else [])
        peak, read = max(peak, now / 1e9), max([read] + [each[0] / 1e9 for each in rates])
    ratio = statistics.median(a / b for a, b in zip(ours, theirs, strict=True))
    row = {"ours_us": min(ours) / 1e3, "eager_us": min(theirs) / 1e3, "ratio": ratio}
    if flops > 0.0:
        gflops = flops / min(ours)
        row |= {"gflops": gflops, "peak": peak, "of_peak": gflops / peak}
    if read_bytes:
        gbps = read_bytes / min(ours)
        row |= {"gbps": gbps, "readable": read, "of_readable": gbps / read}
    report(subject, **row)


def convolution(
    subject: str, x: torch.Tensor, w: torch.Tensor, geometry: list[Any], flops: float
) -> None:
    """Times images stored plane by plane, then channels last."""
    b = torch.rand(w.shape[1] * geometry[5] if geometry[3] else w.shape[0])
    for label, layout, order in (
        ("", torch.contiguous_format, None),
        (" last", torch.channels_last, (0, 2, 3, 1)),
    ):
        mine, weight = x.to(memory_format=layout), w.to(memory_format=layout)

        def eager(
            x: torch.Tensor = mine, w: torch.Tensor = weight, b: torch.Tensor = b
        ) -> torch.Tensor:
            return torch.ops.aten.convolution(x, w, b, *geometry)

        args = [mine, Const(w), Const(b), *geometry]
        compare(subject + label, "aten::convolution.out", args, eager, flops, order)


def convolutions() -> None:
    for c_in, c_out, side, kernel, stride, groups, *more in CONVOLUTIONS:
        dilation = more[0] if more else 1
        pad = dilation * (kernel // 2) if kernel < 16 else 0
        x = torch.rand(1, c_in, side, side)
        w = torch.rand(c_out, c_in // groups, kernel, kernel)
        geometry = [[stride] * 2, [pad] * 2, [dilation] * 2, False, [0, 0], groups]
        out = (side + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1
        name = f"conv {c_in}->{c_out} {kernel}x{kernel}/{stride} @{side} groups {groups}"
        name += f" dilation {dilation}" if dilation > 1 else ""
        convolution(name, x, w, geometry, 2.0 * out**2 * c_out * c_in // groups * kernel**2)
    for c_in, c_out, side, kernel, stride, pad in TRANSPOSED:
        x, w = torch.rand(1, c_in, side, side), torch.rand(c_in, c_out, kernel, kernel)
        geometry = [[stride] * 2, [pad] * 2, [1, 1], True, [0, 0], 1]
        name = f"conv transposed {c_in}->{c_out} {kernel}x{kernel}/{stride} @{side}"
        convolution(name, x, w, geometry, 2.0 * side**2 * c_out * c_in * kernel**2)
    x, w = torch.rand(1, 80, 3000), torch.rand(384, 80, 3)
    y, v, b = torch.rand(1, 16, 8, 28, 28), torch.rand(32, 16, 3, 3, 3), torch.rand(384)
    for name, args, flops in (
        ("conv1d 80->384 3 @3000", [x, w, b, [1], [1], [1], False, [0], 1], 384 * 80 * 3 * 3e3),
        (
            "conv3d 16->32 3x3x3 @8x28x28",
            [y, v, b[:32], [1] * 3, [1] * 3, [1] * 3, False, [0] * 3, 1],
            32 * 16 * 27 * 8 * 28 * 28.0,
        ),
    ):
        mine = [args[0], Const(args[1]), Const(args[2]), *args[3:]]
        compare(
            name,
            "aten::convolution.out",
            mine,
            lambda args=args: torch.ops.aten.convolution(*args),
            2.0 * flops,
        )


def products() -> None:
    aten = torch.ops.aten
    for m, n, k in LINEARS:
        x, w, b = torch.rand(m, k), torch.rand(n, k), torch.rand(n)
        for label, weight in (("", Const(w)), (" unpacked", w)):
            compare(
                f"linear {m}x{k} -> {n}{label}",
                "aten::linear.out",
                [x, weight, Const(b)],
                lambda x=x, w=w, b=b: torch.nn.functional.linear(x, w, b),
                2.0 * m * n * k,
                read_bytes=w.nbytes if m == 1 else 0,
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
    for dtype in (torch.float16, torch.bfloat16):
        x, w, b = (torch.rand(s).to(dtype) for s in ((128, 768), (768, 768), (768,)))
        for label, weight in (("", Const(w)), (" unpacked", w)):
            compare(
                f"linear 128x768 -> 768 {dtype}{label}".replace("torch.", ""),
                "aten::linear.out",
                [x, weight, Const(b)],
                lambda x=x, w=w, b=b: torch.nn.functional.linear(x, w, b),
                2.0 * 128 * 768 * 768,
            )
    p, q = torch.rand(256, 512).t(), torch.rand(384, 256).t()
    compare(
        "mm 512x256x384 of transposed operands",
        "aten::mm.out",
        [p, q],
        lambda: aten.mm(p, q),
        2.0 * 512 * 384 * 256,
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
