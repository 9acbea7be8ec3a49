"""In-place rules: the kernels that may write their result over an operand, tested on our kernels
and on upstream's.

There are two kinds. Element i of the result depends on element i of the operand only, so that it is
read before it is written. Or the operand is copied to the result before a part of it is replaced,
which copies a tensor onto itself. Tests run every operator named here in place. Knows nothing of
graphs or lifetimes.
"""

from __future__ import annotations

from executorch_py.exir.ir.tensor_spec import TensorSpec

# Names without overload; result and operand must agree in dtype, shape and layout.
ELEMENT_BY_ELEMENT = frozenset(
    f"aten::{name}"
    for name in (
        "abs",
        "ceil",
        "clamp",
        "cos",
        "elu",
        "erf",
        "exp",
        "floor",
        "gelu",
        "hardtanh",
        "leaky_relu",
        "log",
        "logical_not",
        "bitwise_not",
        "neg",
        "reciprocal",
        "relu",
        "round",
        "rsqrt",
        "sigmoid",
        "sin",
        "sqrt",
        "tanh",
        "trunc",
        "add",
        "sub",
        "mul",
        "div",
        "maximum",
        "minimum",
        "pow",
        "remainder",
        "fmod",
        "bitwise_and",
        "bitwise_or",
        "bitwise_xor",
        "logical_and",
        "logical_or",
        "where",
    )
) | {"executorch_py::chain"}
# Whole rows are read before any of their elements is written.
ROW_BY_ROW = frozenset({"aten::_softmax"})
# The result is the first argument, except for the part that is replaced.
REPLACES_PART = frozenset(
    f"aten::{name}" for name in ("slice_scatter", "select_scatter", "index_put", "scatter")
)


def may_overwrite(key: str, position: int, operand: TensorSpec, result: TensorSpec) -> bool:
    """Whether the operator `key` may write `result` over `operand`, its argument `position`."""
    name = key.partition(".")[0]
    same_layout = (
        operand.dtype is result.dtype
        and list(operand.shape) == list(result.shape)
        and tuple(operand.dim_order) == tuple(result.dim_order)
    )
    if name in REPLACES_PART:
        return same_layout and position == 0
    return same_layout and name in ELEMENT_BY_ELEMENT | ROW_BY_ROW
