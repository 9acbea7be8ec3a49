"""The checks behind support.py's table, one per limit of XNNPACK's nodes or of their payload.

Each takes a Site and returns None, or what was found and what would be needed, in words that stand
after the operator's name in a summary.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import fx

from executorch_py.backends.xnnpack.support.node_facts import FLOATS, Quantized, Site, is_quantize
from executorch_py.backends.xnnpack.support.weight_checks import form_refusal, transposed_integers
from executorch_py.exir.ir.graph import nodes_in
from executorch_py.exir.ir.match import argument
from executorch_py.exir.ir.op_traits import is_getitem, op_key

Check = Callable[[Site], str | None]

_POWERS = (2.0, 3.0, 4.0, 0.5, -0.5, -1.0)
_LEAST_SCALE = 1.2e-38  # the smallest normal float32
# Operators that become nodes which passes move to the integers' side; padding if it is with zeros.
_MOVES = frozenset(
    f"aten::{name}"
    for name in (
        *("constant_pad_nd", "permute_copy", "slice_copy.Tensor", "transpose_copy.int"),
        *("unsqueeze_copy", "view_copy", "squeeze_copy.dim", "squeeze_copy.dims"),
    )
)
_ACTIVATIONS = ("aten::relu", "aten::relu6", "aten::hardtanh", "aten::clamp")


# ---- arguments


def numbers(*names: str) -> Check:
    """The arguments are numbers known ahead of time."""

    def check(site: Site) -> str | None:
        for name in names:
            if not isinstance(site.argument(name), (int, float)):
                return f"its {name} is found at run time"
        return None

    return check


def constant(*names: str) -> Check:
    """The arguments are constants, or left out."""

    def check(site: Site) -> str | None:
        for name in names:
            arg = site.argument(name)
            if arg is not None and site.constant(arg) is None:
                return f"its {name} is computed at run time"
        return None

    return check


def rank(needed: int) -> Check:
    """The first operand has that many dimensions."""

    def check(site: Site) -> str | None:
        found = site.image.dim()
        return None if found == needed else f"its input has {found} dimensions, not {needed}"

    return check


def results_unread(*positions: int) -> Check:
    """Nobody reads the results at these positions."""

    def check(site: Site) -> str | None:
        for user in site.node.users:
            if is_getitem(user.target) and user.args[1] in positions and user.users:
                return f"its result {user.args[1]} is read, which XNNPACK does not compute"
        return None

    return check


def bounds(site: Site) -> str | None:
    """Bounds of a clamp are numbers in order."""
    key = op_key(site.node.target)
    names = ("min_val", "max_val") if key == "aten::hardtanh" else ("min", "max")
    if key in ("aten::clamp_min", "aten::clamp_max"):
        names = (key[-3:],) * 2
    low, high = (site.argument(name) for name in names)
    for bound in (low, high):
        if bound is not None and not isinstance(bound, (int, float)):
            return "its bounds are found at run time"
    if low is not None and high is not None and low > high:
        return f"its lower bound {low:g} is above its upper bound {high:g}"
    return None


def unscaled_elu(site: Site) -> str | None:
    """Only alpha differs from nn.ELU's defaults."""
    scales = (site.argument("scale"), site.argument("input_scale"))
    return None if scales == (1, 1) else f"its scale and input_scale are {scales}, not 1"


def known_power(site: Site) -> str | None:
    """Powers that are other nodes."""
    exponent = site.argument("exponent")
    if not isinstance(exponent, (int, float)):
        return "its exponent is found at run time"
    if float(exponent) in _POWERS:
        return None
    return f"its exponent is {exponent:g}, not one of 2, 3, 4, 0.5, -0.5, -1"


def slopes_of_channels(site: Site) -> str | None:
    """One slope, or one per channel of an image."""
    slopes = site.constant(site.argument("weight"))
    if slopes is not None and slopes.numel() > 1 and site.image.dim() not in (3, 4):
        return f"it has slopes per channel over {site.image.dim()} dimensions, not 3 or 4"
    return None


# ---- element types


def operand_types(site: Site) -> str | None:
    """Operands have the type of the result; constants are cast to it."""
    return _types_of(site, [site.argument("self"), site.argument("other")])


def joined_types(site: Site) -> str | None:
    """What is concatenated has one type."""
    return _types_of(site, list(nodes_in(site.node.args[0])))


def _types_of(site: Site, operands: list[object]) -> str | None:
    result = site.results()
    for arg in operands:
        example = site.fake(arg)
        if example is None or not result or site.constant(arg) is not None:
            continue
        if example.dtype is not result[0].dtype:
            return f"it mixes {_name(example.dtype)} and {_name(result[0].dtype)}"
    return None


def same_type_softmax(site: Site) -> str | None:
    """No widening on the way."""
    if site.argument("half_to_float"):
        return "it turns float16 into float32"
    return None


def same_type_result(site: Site) -> str | None:
    """The result has the input's element type."""
    result = site.results()
    if result and result[0].dtype is not site.image.dtype:
        return f"it turns {_name(site.image.dtype)} into {_name(result[0].dtype)}"
    return None


def float_cast(site: Site) -> str | None:
    """Copies change no element type, or one float into another."""
    result, source = site.results(), site.image
    if not result or result[0].dtype is source.dtype:
        return None
    if source.dtype in FLOATS and result[0].dtype in FLOATS:
        return None
    return f"it turns {_name(source.dtype)} into {_name(result[0].dtype)}"


def int8_scale(site: Site) -> str | None:
    """Integers of 8 bits with one normal scale, known ahead of time."""
    node = site.node
    dtype = site.argument("dtype")
    if dtype not in (torch.int8, torch.uint8):
        return f"it quantizes to {_name(dtype)}, not int8"
    scale, zero_point = site.argument("scale"), site.argument("zero_point")
    if not isinstance(scale, (int, float)) or not isinstance(zero_point, int):
        return "its scale is found at run time"
    if not _LEAST_SCALE <= scale < math.inf:
        return f"its scale {scale:g} is not a normal number"
    example = site.fake(node.args[0])
    limits = torch.iinfo(dtype)
    if not limits.min <= zero_point <= limits.max:
        return f"its zero point {zero_point} is no {_name(dtype)}"
    if is_quantize(node) and (example is None or example.dtype not in FLOATS):
        return "it quantizes numbers other than float32 and float16"
    return None


def _name(dtype: object) -> str:
    return str(dtype).removeprefix("torch.")


# ---- windows


def _pair(site: Site, name: str, default: list[int] | None = None) -> list[int] | None:
    found = site.integers(name)
    if not found and default is not None:
        return default
    return None if found is None else found * 2 if len(found) == 1 else found


def pool_window(site: Site) -> str | None:
    """Windows leave nothing out between them."""
    kernel = _pair(site, "kernel_size")
    stride = None if kernel is None else _pair(site, "stride", kernel)
    if kernel is None or stride is None:
        return "its window is found at run time"
    for size, step in zip(kernel, stride, strict=True):
        if step > size:
            return f"stride {step} is larger than the kernel {size}"
    return None


def complete_windows(site: Site) -> str | None:
    """What ceil_mode adds is known ahead of time."""
    known = all(isinstance(size, int) for size in site.image.shape[2:])
    return None if known or not site.argument("ceil_mode") else _dynamic("ceil_mode", site.image)


def plain_average(site: Site) -> str | None:
    """An average counts the elements of the image in its window."""
    kernel, padding = _pair(site, "kernel_size"), _pair(site, "padding")
    if site.argument("ceil_mode"):
        return "it has ceil_mode"
    if padding is None or (any(padding) and site.argument("count_include_pad")):
        return f"its padding {padding} counts in the average (count_include_pad)"
    divisor = site.argument("divisor_override")
    if divisor is not None and kernel is not None and divisor != math.prod(kernel):
        return f"it divides by {divisor}, not by the size of its window"
    return None


def global_average(site: Site) -> str | None:
    """Adaptive pooling to one pixel."""
    size = site.integers("output_size")
    return None if size in ([1, 1], [1]) else f"its output_size is {size}, not [1, 1]"


def known_image(site: Site) -> str | None:
    """Sizes of images in and out are known ahead of time."""
    for example in (site.image, *site.results()):
        if not all(isinstance(size, int) for size in example.shape[1:]):
            return _dynamic("its image", example)
    return None


def _sizes_of(example: torch.Tensor) -> str:
    return ", ".join(map(str, example.shape))


def _dynamic(what: str, example: torch.Tensor) -> str:
    return f"{what} needs sizes known ahead of time, not [{_sizes_of(example)}]"


def _several_open(example: torch.Tensor) -> str:
    return (
        f"[{_sizes_of(example)}] has {_n_open(example)} sizes found at run time, and XNNPACK "
        "infers one in a reshape"
    )


# ---- dimensions


def _dims(site: Site) -> list[int] | None:
    arg = site.argument("dim")
    if arg is None or arg == []:
        return list(range(site.image.dim()))
    found = site.integers("dim")
    return None if found is None else sorted({d % max(1, site.image.dim()) for d in found})


def mean_dims(site: Site) -> str | None:
    """Dimensions of sizes known ahead of time."""
    dims, shape = _dims(site), site.image.shape
    if not dims or site.image.dim() == 0:
        return "it reduces a number"
    if not all(isinstance(shape[d], int) for d in dims) and not _is_image_mean(site, dims):
        return _dynamic("what it reduces", site.image)
    last = site.image.dtype is torch.float32 and dims == [site.image.dim() - 1]
    at_once = last or (site.image.dim() == 4 and dims in ([1, 2], [2, 3]))
    return _one_open_size(site, at_once)


def _is_image_mean(site: Site, dims: list[int]) -> bool:
    return op_key(site.node.target) == "aten::mean.dim" and site.image.dim() == 4 and dims == [2, 3]


def _one_open_size(site: Site, at_once: bool) -> str | None:
    """What is reshaped has at most one size that is found at run time."""
    example = site.results()[0] if at_once and site.results() else site.image
    if (at_once and site.argument("keepdim")) or _n_open(example) <= 1:
        return None
    return _several_open(example)


def _n_open(example: torch.Tensor) -> int:
    return sum(not isinstance(size, int) for size in example.shape)


def extreme_dims(site: Site) -> str | None:
    """Dimensions of sizes known ahead of time, and all behind them unless they are images."""
    dims, shape = _dims(site), site.image.shape
    if not dims or site.image.dim() == 0:
        return "it reduces a number"
    if not all(isinstance(shape[d], int) for d in dims):
        return _dynamic("what it reduces", site.image)
    if _finds_places(site):
        return known_result(site)
    if site.image.dim() == 4 and set(dims) <= {2, 3}:
        return _one_open_size(site, at_once=True)
    if not all(isinstance(size, int) for size in shape[dims[0] :]):
        return _dynamic("what lies behind the dimensions it reduces", site.image)
    return _one_open_size(site, at_once=False)


def _finds_places(site: Site) -> bool:
    """Whether somebody reads where the largest elements are."""
    return 1 in {user.args[1] for user in site.node.users if is_getitem(user.target)}


def elements_with_places(site: Site) -> str | None:
    """Indices are read with their elements only, and there is more than one to choose from."""
    if not _finds_places(site):
        return None
    if not any(user.args[1] == 0 for user in site.node.users):
        return "its indices alone are read, which XNNPACK finds with their elements only"
    size = math.prod(site.image.shape[d] for d in _dims(site) or ())
    return "it looks for the place of a single element" if size == 1 else None


def known_dimension(site: Site) -> str | None:
    """The size of `dim` is known."""
    dim = site.argument("dim")
    if not isinstance(dim, int) or not isinstance(site.image.shape[dim], int):
        return _dynamic(f"dimension {dim}", site.image)
    return None


def known_result(site: Site) -> str | None:
    """All sizes of the result are known."""
    for example in site.results():
        if not all(isinstance(size, int) for size in example.shape):
            return _dynamic("its result", example)
    return None


def reshape(site: Site) -> str | None:
    """At most one size is found at run time, which XNNPACK infers; or nothing changes."""
    for example in site.results():
        if _n_open(example) > 1 and _sizes_of(example) != _sizes_of(site.image):
            return _several_open(example)
    return None


def whole_slice(site: Site) -> str | None:
    """Neighbouring elements of a dimension whose size is known."""
    if site.argument("step") != 1:
        return f"its step is {site.argument('step')}, not 1"
    for name in ("start", "end"):
        arg = site.argument(name)
        if arg is not None and not isinstance(arg, int):
            return f"its {name} is found at run time"
    result = site.results()
    if result and _sizes_of(result[0]) == _sizes_of(site.image):
        return None
    return known_dimension(site)


def known_expansion(site: Site) -> str | None:
    """Only dimensions of known sizes grow."""
    result = site.results()[0]
    grown = result.dim() - site.image.dim()
    for d, size in enumerate(result.shape):
        before = site.image.shape[d - grown] if d >= grown else 1
        if not isinstance(size, int) and str(before) != str(size):
            return _dynamic("what it repeats", result)
    return None


def added_padding(site: Site) -> str | None:
    """Padding adds elements of one number."""
    pads = site.integers("pad")
    if pads is None or not isinstance(site.argument("value"), (int, float)):
        return "its padding is found at run time"
    negative = [pad for pad in pads if pad < 0]
    return f"its padding {negative[0]} takes elements away" if negative else None


# ---- products


def image_convolution(site: Site) -> str | None:
    """Images of one or two dimensions."""
    dims = site.image.dim()
    if dims not in (3, 4):
        return f"it convolves over {dims - 2} dimensions, not 1 or 2"
    if any(site.integers(n) is None for n in ("stride", "padding", "dilation", "output_padding")):
        return "its window is found at run time"
    return None


def weights_of_convolution(site: Site) -> str | None:
    """Constant weights and bias."""
    return _weights(site, site.argument("weight"), site.argument("bias"), computed=False)


def weights_of_linear(site: Site) -> str | None:
    """Constant weights and bias; computed ones of float32."""
    return _weights(site, site.argument("weight"), site.argument("bias"), _may_compute(site))


def weights_of_mm(site: Site) -> str | None:
    """The same, for matrices that are not transposed."""
    is_addmm = op_key(site.node.target) == "aten::addmm"
    bias = site.argument("self") if is_addmm else None
    return _weights(site, site.argument("mat2"), bias, _may_compute(site))


def _may_compute(site: Site) -> bool:
    result = site.results()
    return bool(result) and result[0].dtype is torch.float32


def _weights(site: Site, weight: fx.Node, bias: fx.Node | None, computed: bool) -> str | None:
    if site.constant(weight) is None:
        if not computed:
            return "its weights are computed at run time"
        if site.quantized(weight) is not None:
            return "its weights are quantized at run time"
        integers = transposed_integers(site, weight)
        if integers is not None:
            return form_refusal(site, integers, site.quantized(_activation(site, weight))) or (
                "its weights are integers that are transposed first; to_edge_transform_and_lower "
                "keeps linear layers whole"
            )
    if bias is not None and site.constant(bias) is None and not computed:
        return "its bias is computed at run time"
    return _precision(site, weight)


def _precision(site: Site, weight: fx.Node) -> str | None:
    """Integers by integers, or floats by floats."""
    activation = _activation(site, weight)
    source = before_moves(activation)
    how = site.quantized(source)
    if how is Quantized.DYNAMIC and source is not activation:
        return "its input is quantized at run time and then moved"
    if site.quantized(weight) is None:
        return None if how is not Quantized.DYNAMIC else "its input alone is quantized"
    if op_key(site.node.target) == "aten::linear":
        refusal = form_refusal(site, weight, how)
        if refusal is not None or how is None:
            return refusal
    elif how is None:
        return "its weights are quantized, its input is not"
    if how is Quantized.STATIC and quantized_result(site.node) is None:
        return "its weights and input are quantized, its result is not"
    if how is Quantized.DYNAMIC and not _is_dynamic_product(site):
        return "it is quantized at run time, which is for rows and images, not depthwise"
    if how is Quantized.DYNAMIC and channels_axis(weight) not in (None, output_axis(site.node)):
        return "its weights have scales for other channels than its result's"
    return None


def channels_axis(weight: fx.Node) -> int | None:
    """The dimension along which a constant has scales; None if it has one, or groups."""
    is_per_channel = op_key(weight.target) == "quantized_decomposed::dequantize_per_channel"
    return int(argument(weight, "axis")) if is_per_channel else None


def output_axis(node: fx.Node) -> int:
    """Where the weights of a product have the channels of its result."""
    key = op_key(node.target)
    transposed = key == "aten::convolution" and argument(node, "transposed")
    return 1 if transposed or key in ("aten::mm", "aten::addmm") else 0


def _activation(site: Site, weight: fx.Node) -> fx.Node:
    """What a product multiplies by its weights."""
    names = ("input", "mat1", "self")
    for name in names if op_key(site.node.target) != "aten::addmm" else ("mat1",):
        try:
            found: fx.Node = site.argument(name)
        except KeyError:
            continue
        return found
    return next(arg for arg in site.operands() if arg is not weight)


def before_moves(node: fx.Node) -> fx.Node:
    """What a node's elements were before they were moved as integers can be as well."""
    while op_key(node.target) in _MOVES and isinstance(node.args[0], fx.Node):
        is_pad = op_key(node.target) == "aten::constant_pad_nd"
        if is_pad and len(node.args) > 2 and node.args[2] != 0:
            break
        node = node.args[0]
    return node


def _is_dynamic_product(site: Site) -> bool:
    if op_key(site.node.target) != "aten::convolution":
        return True
    weight = site.constant(site.argument("weight"))
    deep = weight is not None and weight.shape[1] == 1 and not site.argument("transposed")
    return site.image.dim() == 4 and not deep


def quantized_result(node: fx.Node) -> fx.Node | None:
    """The quantize node that alone reads a node, perhaps through an activation."""
    users = list(node.users)
    if len(users) != 1:
        return None
    if is_quantize(users[0]):
        return users[0]
    if op_key(users[0].target) in _ACTIVATIONS and op_key(node.target) not in _ACTIVATIONS:
        return quantized_result(users[0])
    return None


def matching_batches(site: Site) -> str | None:
    """Both operands are batches of one size, or the second is a matrix."""
    left = site.image
    right = site.fake(site.node.args[1])
    if right is None or left.dim() < 2 or right.dim() < 2:
        return "it multiplies a vector"
    if right.dim() == 2 and left.dim() > 2 and site.constant(site.node.args[1]) is None:
        return "its weights are computed at run time"
    if right.dim() != 2 and list(map(str, left.shape[:-2])) != list(map(str, right.shape[:-2])):
        return "its operands are batches of different sizes"
    return None


def attention_shapes(site: Site) -> str | None:
    """Queries, keys and values of one batch; heads may share keys."""
    query, key, value = (site.fake(site.argument(name)) for name in ("query", "key", "value"))
    assert query is not None and key is not None and value is not None
    if site.argument("dropout_p"):
        return f"its dropout_p is {site.argument('dropout_p')}, not 0"
    if query.dim() not in (3, 4) or not isinstance(query.shape[-1], int):
        return _dynamic("a query of 3 or 4 dimensions", query)
    if list(map(str, key.shape[:-2])) != list(map(str, value.shape[:-2])):
        return "its keys and values are batches of different sizes"
    if list(map(str, query.shape[:-2])) != list(map(str, key.shape[:-2])):
        known = all(isinstance(n, int) for n in (*query.shape[1:], key.shape[1]))
        if not (site.argument("enable_gqa") and query.dim() == 4 and known):
            return "its queries and keys are batches of different sizes"
    return None


def attention_mask(site: Site) -> str | None:
    """A mask of floats, a constant one of bools, or a triangle of known size."""
    query, key = site.fake(site.argument("query")), site.fake(site.argument("key"))
    assert query is not None and key is not None
    if site.argument("is_causal"):
        known = isinstance(query.shape[-2], int) and isinstance(key.shape[-2], int)
        return None if known else _dynamic("a causal mask", query)
    mask = site.argument("attn_mask")
    example = site.fake(mask)
    if example is None or site.constant(mask) is not None:
        return None
    before = isinstance(site.node.target, torch._ops.OpOverload)
    if example.dtype is torch.bool and before:
        return None  # it becomes numbers before partitioning
    if example.dtype is not query.dtype:
        return f"its mask is {_name(example.dtype)}, computed at run time"
    return None


# ---- normalizations


def known_layers(site: Site) -> str | None:
    """The sizes that are normalized are known."""
    count = len(site.argument("normalized_shape"))
    if not all(isinstance(size, int) for size in site.image.shape[-count:]):
        return _dynamic("what it normalizes", site.image)
    return None


def known_channels(site: Site) -> str | None:
    """Channels of a row or an image, their number known."""
    if site.image.dim() not in (3, 4) or not isinstance(site.image.shape[1], int):
        return _dynamic("an input of 3 or 4 dimensions", site.image)
    if not all(isinstance(size, int) for size in site.image.shape[2:]) and site.image.dim() == 3:
        return _dynamic("what it normalizes", site.image)
    return None
