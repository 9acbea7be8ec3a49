"""Arguments of pools, means and convolutions in one form, for passes of users.

Names are upstream's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import fx

from executorch_py.exir.ir.match import is_call, only_user

__all__ = [
    "PERM_NCHW_TO_NHWC",
    "PERM_NHWC_TO_NCHW",
    "check_or_raise",
    "get_groups_from_conv",
    "get_input_node",
    "get_relu_fused_node",
    "get_source_fn",
    "is_depthwise_conv",
    "is_getitem",
    "is_node",
    "normalize_mean_dims",
    "normalize_pool2d_args",
]

PERM_NCHW_TO_NHWC = [0, 2, 3, 1]
PERM_NHWC_TO_NCHW = [0, 3, 1, 2]


def check_or_raise(condition: bool, err: str) -> None:
    """RuntimeError with this message unless the condition holds."""
    if not condition:
        raise RuntimeError(err)


def is_node(node: Any) -> bool:
    """Whether an argument is a node of a graph."""
    return isinstance(node, fx.Node)


def is_getitem(node: fx.Node) -> bool:
    """Whether a node takes one of several results."""
    return node.op == "call_function" and getattr(node.target, "__name__", "") == "getitem"


def get_input_node(node: fx.Node, input_index: int) -> Any:
    """A positional argument of a node."""
    return node.args[input_index]


def normalize_mean_dims(mean_dims: Sequence[int] | int | None, rank: int) -> list[int]:
    """Dimensions of a mean, none of them negative; None is all."""
    if rank <= 0:
        raise ValueError(f"rank: expected 1 or more, got {rank}")
    dims = range(rank) if mean_dims is None else mean_dims
    found = [dims] if isinstance(dims, int) else list(dims)
    for dim in found:
        if not -rank <= dim < rank:
            raise ValueError(f"dim: expected {-rank} to {rank - 1}, got {dim}")
    return [dim % rank for dim in found]


def normalize_pool2d_args(
    node: fx.Node, has_dilation: bool
) -> tuple[list[int], list[int], list[int], list[int]]:
    """Kernel, stride, padding and dilation of a pool, two numbers each, defaults filled in."""

    def pair(index: int, default: list[int]) -> list[int]:
        value: Any = node.args[index] if len(node.args) > index else None
        values = [value] if isinstance(value, int) else list(value or default)
        return values * 2 if len(values) == 1 else values[:2]

    kernel = pair(1, [])
    dilation = pair(4, [1, 1]) if has_dilation else [1, 1]
    return kernel, pair(2, kernel), pair(3, [0, 0]), dilation


def get_relu_fused_node(node: fx.Node) -> fx.Node | None:
    """The relu that alone reads a node, if there is one."""
    user = only_user(node)
    return user if is_call(user, "aten::relu") else None


def get_source_fn(node: fx.Node) -> Any:
    """The function or class in the model that a call comes from, if tracing recorded it."""
    stack = node.meta.get("source_fn_stack") if node.op == "call_function" else None
    return stack[-1][1] if stack else None


def get_groups_from_conv(conv_node: fx.Node) -> int:
    """The groups of a convolution, by the shapes of its weights and of its channels."""
    forward = is_call(conv_node, "aten::conv1d", "aten::conv2d", "aten::conv3d")
    backward = is_call(
        conv_node,
        "aten::conv_transpose1d",
        "aten::conv_transpose2d.input",
        "aten::conv_transpose3d.input",
    )
    if not forward and not backward:
        raise RuntimeError(f"node {conv_node.name}: expected a convolution, got {conv_node.target}")
    channels = conv_node if backward else conv_node.args[0]
    shapes = [n.meta["val"].shape[1] for n in (channels, conv_node.args[1])]
    return int(shapes[0] // shapes[1])


def is_depthwise_conv(
    kernel_shape: Sequence[int], groups: int = 1, is_transpose: bool = False
) -> bool:
    """Whether each group of a convolution with weights of this shape has one input channel."""
    if len(kernel_shape) < 2 or groups < 1:
        return False
    return (kernel_shape[0] // groups if is_transpose else kernel_shape[1]) == 1
