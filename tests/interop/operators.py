"""Single operators over dtypes, shapes and layouts, for both sides to export and run."""

from __future__ import annotations

import torch
from torch import nn

from interop.cases import Case, Lambda, op, typed
from interop.networks import Embedder

DTYPES = {
    "f32": torch.float32,
    "f64": torch.float64,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "i64": torch.int64,
    "i32": torch.int32,
    "i16": torch.int16,
    "i8": torch.int8,
    "u8": torch.uint8,
}


ELEMENTWISE = (
    [
        typed(f"add_{name}", lambda a, b: a + b, dtype, (3, 4), (4,))
        for name, dtype in DTYPES.items()
    ]
    + [
        typed(f"mul_{name}", lambda a, b: a * b, dtype, (2, 5), (2, 1))
        for name, dtype in DTYPES.items()
        if name in {"f32", "f16", "i64", "i32", "u8"}
    ]
    + [
        typed(f"numbers_{name}", lambda a: (a * 0.1, a / 0.3), DTYPES[name], (3, 4))
        for name in ("f16", "bf16")
    ]
    + [
        typed("logical_and_b8", torch.logical_and, torch.bool, (3, 4), (3, 4)),
        typed("bitwise_and_i32", torch.bitwise_and, torch.int32, (3, 4), (3, 4)),
        typed("sub_f64", lambda a, b: a - b, torch.float64, (3, 4), (3, 4)),
        op("div", torch.div, (3, 4), (3, 4)),
        op("sigmoid_tanh", lambda x: torch.sigmoid(x) + torch.tanh(x), (4, 5)),
        op("exp_log", lambda x: torch.log(torch.exp(x) + 1), (4, 5)),
        op("rsqrt_abs", lambda x: torch.rsqrt(x.abs() + 1), (4, 5)),
        op("sin_cos_neg", lambda x: torch.sin(x) * torch.cos(-x), (4, 5)),
        op("gelu", nn.functional.gelu, (4, 5)),
        op("gelu_tanh", lambda x: nn.functional.gelu(x, approximate="tanh"), (4, 5)),
        op("relu_clamp", lambda x: torch.clamp(x.relu(), 0.1, 0.7), (4, 5)),
        op("pow_scalar", lambda x: x.pow(2) + x.pow(3), (4, 5)),
        op("where_compare", lambda a, b: torch.where(a > b, a, b * 2), (3, 4), (3, 4)),
        op("compare_scalars", lambda a: ((a >= 0.1) | (a != 0), (a < 0).logical_not()), (3, 4)),
        op("floor_sqrt", lambda a: a.abs().sqrt().floor(), (3, 4)),
        op("scalar_promotion", lambda a: (a + 1, a * 2.5, 3 - a), (3, 4)),
    ]
)


SHAPES = [
    op("permute", lambda x: x.permute(2, 0, 1) + 0, (2, 3, 4)),
    op("view_flatten", lambda x: (x + 1).view(6, 4).reshape(2, 12) * 2, (2, 3, 4)),
    op("cat", lambda a, b: torch.cat([a, b], dim=1), (2, 3), (2, 4)),
    op("stack_unbind", lambda a, b: torch.stack([a, b], 1).unbind(0), (2, 3), (2, 3)),
    op("slice_select", lambda x: (x[1:, ::2] + 0, x.select(1, 2) * 1), (3, 5)),
    op("expand_unsqueeze", lambda x: x.unsqueeze(1).expand(3, 4, 5) * 1.0, (3, 5)),
    op("squeeze", lambda x: x.squeeze(1) + 1, (3, 1, 5)),
    op("split", lambda x: [y + 1 for y in x.split([2, 3], dim=1)], (3, 5)),
    op("repeat", lambda x: x.repeat(2, 3), (2, 3)),
    op("pad", lambda x: nn.functional.pad(x, (1, 2, 0, 1), value=0.5), (2, 3, 4)),
    op("crop", lambda x: nn.functional.pad(x, (-1, 2, 0, -1), value=0.5), (2, 3, 4)),
    op("flip", lambda x: x.flip(0, 1), (2, 3)),
    op("zero_dim", lambda x: x.sum() * 2, (2, 3)),
    op("full_arange", lambda x: x + torch.arange(4) + torch.full((4,), 2.0), (3, 4)),
]


REDUCTIONS = [
    op("mean_dims", lambda x: x.mean(dim=(0, 2)), (2, 3, 4)),
    op("sum_keepdim", lambda x: x.sum(dim=1, keepdim=True), (2, 3, 4)),
    op("amax_any", lambda x: (x.amax(dim=1), (x > 1).any(dim=0)), (3, 4)),
    op("softmax", lambda x: torch.softmax(x, dim=-1), (3, 7)),
    op("log_softmax", lambda x: torch.log_softmax(x, dim=1), (3, 7)),
    op("cumsum", lambda x: x.cumsum(dim=1), (3, 7)),
    op("topk", lambda x: tuple(torch.topk(x, 3, dim=1)), (3, 7)),
    op("max_dim", lambda x: tuple(x.max(dim=1)), (3, 7)),
    op("argmax", lambda x: x.argmax(dim=1), (3, 7)),
    op("var", lambda x: x.var(dim=1), (3, 7)),
]


MATRICES = [
    op("mm", torch.mm, (3, 4), (4, 5)),
    op("bmm", torch.bmm, (2, 3, 4), (2, 4, 5)),
    op("addmm", torch.addmm, (5,), (3, 4), (4, 5)),
    Case("linear", lambda: nn.Linear(6, 5), lambda: (torch.randn(3, 6),)),
    Case("conv1d", lambda: nn.Conv1d(3, 5, 3, padding=1), lambda: (torch.randn(2, 3, 9),)),
    Case(
        "conv2d_dilated_grouped",
        lambda: nn.Conv2d(4, 6, 3, stride=2, padding=2, dilation=2, groups=2),
        lambda: (torch.randn(1, 4, 11, 10),),
    ),
    Case(
        "conv_transpose2d",
        lambda: nn.ConvTranspose2d(4, 3, 3, stride=2, padding=1, output_padding=1),
        lambda: (torch.randn(1, 4, 5, 6),),
    ),
    Case("layer_norm", lambda: nn.LayerNorm(8), lambda: (torch.randn(3, 8),)),
    Case("group_norm", lambda: nn.GroupNorm(2, 6), lambda: (torch.randn(2, 6, 4, 3),)),
    Case("batch_norm", lambda: nn.BatchNorm2d(4), lambda: (torch.randn(2, 4, 3, 3),)),
    Case("max_pool", lambda: nn.MaxPool2d(3, 2, 1), lambda: (torch.randn(1, 2, 9, 8),)),
    Case("avg_pool", lambda: nn.AvgPool2d(3, 2, 1), lambda: (torch.randn(1, 2, 9, 8),)),
    Case("adaptive_pool", lambda: nn.AdaptiveAvgPool2d((2, 3)), lambda: (torch.randn(1, 2, 9, 8),)),
    op(
        "upsample_bilinear",
        lambda x: nn.functional.interpolate(x, scale_factor=2.0, mode="bilinear"),
        (1, 2, 4, 5),
    ),
]


INDEXING = [
    Case("embedding", Embedder, lambda: (torch.tensor([[1, 4, 19], [0, 2, 3]]),)),
    Case(
        "gather",
        lambda: Lambda(lambda x, i: x.gather(1, i)),
        lambda: (torch.randn(3, 5), torch.tensor([[0, 4], [1, 1], [2, 3]])),
    ),
    Case(
        "index_tensor",
        lambda: Lambda(lambda x, i: x[i, :, i]),
        lambda: (torch.randn(4, 3, 4), torch.tensor([0, 3])),
    ),
    Case(
        "index_put",
        lambda: Lambda(lambda x, i, v: x.index_put((i,), v)),
        lambda: (torch.randn(4, 3), torch.tensor([1, 3]), torch.randn(2, 3)),
    ),
    Case(
        "masked_fill",
        lambda: Lambda(lambda x: x.masked_fill(x > 0, -1.0)),
        lambda: (torch.randn(4, 3),),
    ),
]
