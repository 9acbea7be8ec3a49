"""Checks for the capability table, one per limit of XNNPACK's nodes or of their payload.

Each check takes the NodeFacts of one node and returns None, or the reason why XNNPACK cannot
compute the node: a sentence about the node, whose name precedes it in summaries. Checks of products
are in product_checks.py.
"""

from __future__ import annotations

import math

import torch

from executorch_py.backends.xnnpack.support.node_facts import FLOATS, Check, NodeFacts, is_quantize
from executorch_py.exir.ir.graph import nodes_in
from executorch_py.exir.ir.op_traits import is_getitem

_POWERS = (2.0, 3.0, 4.0, 0.5, -0.5, -1.0)


# ---- arguments


def numbers(*names: str) -> Check:
    """Check that arguments are numbers known ahead of time."""

    def check(facts: NodeFacts) -> str | None:
        for name in names:
            if not isinstance(facts.argument(name), (int, float)):
                return f"its {name} is found at run time"
        return None

    return check


def constant(*names: str) -> Check:
    """Check that arguments are constants or absent."""

    def check(facts: NodeFacts) -> str | None:
        for name in names:
            arg = facts.argument(name)
            if arg is not None and facts.constant(arg) is None:
                return f"its {name} is computed at run time"
        return None

    return check


def rank(needed: int) -> Check:
    """Check the number of dimensions of the first operand."""

    def check(facts: NodeFacts) -> str | None:
        found = facts.input.dim()
        return None if found == needed else f"its input has {found} dimensions, not {needed}"

    return check


def results_unread(*positions: int) -> Check:
    """Check that no node reads the results at these positions."""

    def check(facts: NodeFacts) -> str | None:
        for user in facts.node.users:
            if is_getitem(user.target) and user.args[1] in positions and user.users:
                return f"its result {user.args[1]} is read, which XNNPACK does not compute"
        return None

    return check


def bounds(facts: NodeFacts) -> str | None:
    """Check that the bounds of a clamp are numbers in order."""
    key = facts.key
    names = ("min_val", "max_val") if key == "aten::hardtanh" else ("min", "max")
    if key in ("aten::clamp_min", "aten::clamp_max"):
        names = (key[-3:],) * 2
    low, high = (facts.argument(name) for name in names)
    for bound in (low, high):
        if bound is not None and not isinstance(bound, (int, float)):
            return "its bounds are found at run time"
    if low is not None and high is not None and low > high:
        return f"its lower bound {low:g} is above its upper bound {high:g}"
    return None


def unscaled_elu(facts: NodeFacts) -> str | None:
    """Check that only alpha differs from the defaults of nn.ELU."""
    scales = (facts.argument("scale"), facts.argument("input_scale"))
    return None if scales == (1, 1) else f"its scale and input_scale are {scales}, not 1"


def known_power(facts: NodeFacts) -> str | None:
    """Check that an exponent is one that other nodes compute."""
    exponent = facts.argument("exponent")
    if not isinstance(exponent, (int, float)):
        return "its exponent is found at run time"
    if float(exponent) in _POWERS:
        return None
    return f"its exponent is {exponent:g}, not one of 2, 3, 4, 0.5, -0.5, -1"


def slopes_of_channels(facts: NodeFacts) -> str | None:
    """Check that there is one slope, or one per channel of an image."""
    slopes = facts.constant(facts.argument("weight"))
    if slopes is not None and slopes.numel() > 1 and facts.input.dim() not in (3, 4):
        return f"it has slopes per channel over {facts.input.dim()} dimensions, not 3 or 4"
    return None


# ---- element types


def operand_types(facts: NodeFacts) -> str | None:
    """Check that operands have the type of the result, to which constants are cast."""
    return _types_of(facts, [facts.argument("self"), facts.argument("other")])


def joined_types(facts: NodeFacts) -> str | None:
    """Check that concatenated tensors have the type of the result."""
    return _types_of(facts, list(nodes_in(facts.node.args[0])))


def _types_of(facts: NodeFacts, operands: list[object]) -> str | None:
    result = facts.results
    for arg in operands:
        example = facts.example(arg)
        if example is None or not result or facts.constant(arg) is not None:
            continue
        if example.dtype is not result[0].dtype:
            return f"it mixes {dtype_name(example.dtype)} and {dtype_name(result[0].dtype)}"
    return None


def same_type_softmax(facts: NodeFacts) -> str | None:
    """Check that a softmax does not widen its input."""
    if facts.argument("half_to_float"):
        return "it turns float16 into float32"
    return None


def same_type_result(facts: NodeFacts) -> str | None:
    """Check that the result has the input's element type."""
    result = facts.results
    if result and result[0].dtype is not facts.input.dtype:
        return f"it turns {dtype_name(facts.input.dtype)} into {dtype_name(result[0].dtype)}"
    return None


def float_cast(facts: NodeFacts) -> str | None:
    """Check that a copy keeps the element type or turns one float type into another."""
    result, source = facts.results, facts.input
    if not result or result[0].dtype is source.dtype:
        return None
    if source.dtype in FLOATS and result[0].dtype in FLOATS:
        return None
    return f"it turns {dtype_name(source.dtype)} into {dtype_name(result[0].dtype)}"


def int8_scale(facts: NodeFacts) -> str | None:
    """Check for integers of 8 bits with one scale known ahead of time; see scale_checks.py."""
    node = facts.node
    dtype = facts.argument("dtype")
    if dtype not in (torch.int8, torch.uint8):
        return f"it quantizes to {dtype_name(dtype)}, not int8"
    scale, zero_point = facts.argument("scale"), facts.argument("zero_point")
    if not isinstance(scale, (int, float)) or not isinstance(zero_point, int):
        return "its scale is found at run time"
    example = facts.example(node.args[0])
    if is_quantize(facts.node) and (example is None or example.dtype not in FLOATS):
        return "it quantizes numbers other than float32 and float16"
    return None


def dtype_name(dtype: object) -> str:
    """`float32` of torch.float32."""
    return str(dtype).removeprefix("torch.")


# ---- pooling windows


def _pair(facts: NodeFacts, name: str, default: list[int] | None = None) -> list[int] | None:
    found = facts.integers(name)
    if not found and default is not None:
        return default
    return None if found is None else found * 2 if len(found) == 1 else found


def pool_window(facts: NodeFacts) -> str | None:
    """Check that windows leave no elements out between them."""
    kernel = _pair(facts, "kernel_size")
    stride = None if kernel is None else _pair(facts, "stride", kernel)
    if kernel is None or stride is None:
        return "its window is found at run time"
    for size, step in zip(kernel, stride, strict=True):
        if step > size:
            return f"stride {step} is larger than the kernel {size}"
    return None


def complete_windows(facts: NodeFacts) -> str | None:
    """Check that the padding of ceil_mode is known ahead of time."""
    known = all(isinstance(size, int) for size in facts.input.shape[2:])
    return (
        None
        if known or not facts.argument("ceil_mode")
        else dynamic_sizes("ceil_mode", facts.input)
    )


def unpadded_average(facts: NodeFacts) -> str | None:
    """Check that an average counts only elements of the image in its window."""
    kernel, padding = _pair(facts, "kernel_size"), _pair(facts, "padding")
    if facts.argument("ceil_mode"):
        return "it has ceil_mode"
    if padding is None or (any(padding) and facts.argument("count_include_pad")):
        return f"its padding {padding} counts in the average (count_include_pad)"
    divisor = facts.argument("divisor_override")
    if divisor is not None and kernel is not None and divisor != math.prod(kernel):
        return f"it divides by {divisor}, not by the size of its window"
    return None


def global_average(facts: NodeFacts) -> str | None:
    """Check for adaptive pooling to one pixel."""
    size = facts.integers("output_size")
    return None if size in ([1, 1], [1]) else f"its output_size is {size}, not [1, 1]"


def known_image(facts: NodeFacts) -> str | None:
    """Check that sizes of images, input and results, are known ahead of time."""
    for example in (facts.input, *facts.results):
        if not all(isinstance(size, int) for size in example.shape[1:]):
            return dynamic_sizes("its image", example)
    return None


def _sizes_of(example: torch.Tensor) -> str:
    return ", ".join(map(str, example.shape))


def dynamic_sizes(what: str, example: torch.Tensor) -> str:
    """The reason why a tensor or operator needs sizes that are known ahead of time."""
    return f"{what} needs sizes known ahead of time, not [{_sizes_of(example)}]"


def _several_open(example: torch.Tensor) -> str:
    return (
        f"[{_sizes_of(example)}] has {_n_open(example)} sizes found at run time, and XNNPACK "
        "infers one in a reshape"
    )


# ---- dimensions


def _dims(facts: NodeFacts) -> list[int] | None:
    arg = facts.argument("dim")
    if arg is None or arg == []:
        return list(range(facts.input.dim()))
    found = facts.integers("dim")
    return None if found is None else sorted({d % max(1, facts.input.dim()) for d in found})


def mean_dims(facts: NodeFacts) -> str | None:
    """Check that reduced dimensions have sizes known ahead of time."""
    dims, shape = _dims(facts), facts.input.shape
    if not dims or facts.input.dim() == 0:
        return "it reduces a number"
    if not all(isinstance(shape[d], int) for d in dims) and not _is_image_mean(facts, dims):
        return dynamic_sizes("its reduction", facts.input)
    last = facts.input.dtype is torch.float32 and dims == [facts.input.dim() - 1]
    at_once = last or (facts.input.dim() == 4 and dims in ([1, 2], [2, 3]))
    return _one_open_size(facts, at_once)


def _is_image_mean(facts: NodeFacts, dims: list[int]) -> bool:
    return facts.key == "aten::mean.dim" and facts.input.dim() == 4 and dims == [2, 3]


def _one_open_size(facts: NodeFacts, at_once: bool) -> str | None:
    """Check that a reshaped tensor has at most one size that is found at run time."""
    example = facts.results[0] if at_once and facts.results else facts.input
    if (at_once and facts.argument("keepdim")) or _n_open(example) <= 1:
        return None
    return _several_open(example)


def _n_open(example: torch.Tensor) -> int:
    return sum(not isinstance(size, int) for size in example.shape)


def max_min_dims(facts: NodeFacts) -> str | None:
    """Check that reduced dimensions, and those behind them except in images, are known."""
    dims, shape = _dims(facts), facts.input.shape
    if not dims or facts.input.dim() == 0:
        return "it reduces a number"
    if not all(isinstance(shape[d], int) for d in dims):
        return dynamic_sizes("its reduction", facts.input)
    if _returns_indices(facts):
        return known_result(facts)
    if facts.input.dim() == 4 and set(dims) <= {2, 3}:
        return _one_open_size(facts, at_once=True)
    if not all(isinstance(size, int) for size in shape[dims[0] :]):
        return dynamic_sizes("the part behind the dimensions it reduces", facts.input)
    return _one_open_size(facts, at_once=False)


def _returns_indices(facts: NodeFacts) -> bool:
    """Whether the indices of the largest elements are read."""
    return 1 in {user.args[1] for user in facts.node.users if is_getitem(user.target)}


def indices_with_elements(facts: NodeFacts) -> str | None:
    """Check that indices are read together with their elements, of dimensions above size 1."""
    if not _returns_indices(facts):
        return None
    if not any(user.args[1] == 0 for user in facts.node.users):
        return "its indices alone are read, which XNNPACK computes with their elements only"
    size = math.prod(facts.input.shape[d] for d in _dims(facts) or ())
    return "it looks for the index of a single element" if size == 1 else None


def known_dimension(facts: NodeFacts) -> str | None:
    """Check that the size of dimension `dim` is known."""
    dim = facts.argument("dim")
    if not isinstance(dim, int) or not isinstance(facts.input.shape[dim], int):
        return dynamic_sizes(f"dimension {dim}", facts.input)
    return None


def known_result(facts: NodeFacts) -> str | None:
    """Check that all sizes of the results are known."""
    for example in facts.results:
        if not all(isinstance(size, int) for size in example.shape):
            return dynamic_sizes("its result", example)
    return None


def reshape(facts: NodeFacts) -> str | None:
    """Check that at most one size, which XNNPACK infers, is dynamic, or that no size changes."""
    for example in facts.results:
        if _n_open(example) > 1 and _sizes_of(example) != _sizes_of(facts.input):
            return _several_open(example)
    return None


def whole_slice(facts: NodeFacts) -> str | None:
    """Check for a slice of neighbouring elements along a dimension of known size."""
    if facts.argument("step") != 1:
        return f"its step is {facts.argument('step')}, not 1"
    for name in ("start", "end"):
        arg = facts.argument(name)
        if arg is not None and not isinstance(arg, int):
            return f"its {name} is found at run time"
    result = facts.results
    if result and _sizes_of(result[0]) == _sizes_of(facts.input):
        return None
    return known_dimension(facts)


def known_expansion(facts: NodeFacts) -> str | None:
    """Check that only dimensions of known sizes are expanded."""
    result = facts.results[0]
    grown = result.dim() - facts.input.dim()
    for d, size in enumerate(result.shape):
        before = facts.input.shape[d - grown] if d >= grown else 1
        if not isinstance(size, int) and str(before) != str(size):
            return dynamic_sizes("its expansion", result)
    return None


def added_padding(facts: NodeFacts) -> str | None:
    """Check that padding adds elements, all of one known number."""
    pads = facts.integers("pad")
    if pads is None or not isinstance(facts.argument("value"), (int, float)):
        return "its padding is found at run time"
    negative = [pad for pad in pads if pad < 0]
    return f"its padding {negative[0]} takes elements away" if negative else None


# ---- normalizations


def known_layers(facts: NodeFacts) -> str | None:
    """Check that the normalized sizes are known."""
    count = len(facts.argument("normalized_shape"))
    if not all(isinstance(size, int) for size in facts.input.shape[-count:]):
        return dynamic_sizes("its normalization", facts.input)
    return None


def known_channels(facts: NodeFacts) -> str | None:
    """Check for a row or an image with a known number of channels."""
    if facts.input.dim() not in (3, 4) or not isinstance(facts.input.shape[1], int):
        return dynamic_sizes("an input of 3 or 4 dimensions", facts.input)
    if not all(isinstance(size, int) for size in facts.input.shape[2:]) and facts.input.dim() == 3:
        return dynamic_sizes("its normalization", facts.input)
    return None


def one_sample(facts: NodeFacts) -> str | None:
    """Check for a batch of one, whose statistics are those of the sample."""
    if facts.input.shape[0] != 1:
        return f"its statistics span the batch [{_sizes_of(facts.input)}], not one sample"
    return None
