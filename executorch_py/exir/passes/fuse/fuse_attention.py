"""FuseAttention: two products with a softmax between them become one call of attention.

    softmax(scale · q @ kᵀ + mask) @ v     from torch's decomposition, or written by hand

The scores are then never in memory. Matching is structural and looks through views; scores with
other readers are left alone. Several masks (a positional bias, a sliding window) are added to one.
A mask of 0 and -inf that is made from bools becomes the bools, as does `masked_fill` with -inf, and
a triangle of bools becomes the causal flag. Only rounding differs: a query that may see no key
gives 0 where the program says so, else NaN. Only the runtime of this project has the operator.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram

from executorch_py.exir.ir.attention_op import attention_op
from executorch_py.exir.ir.constants import drop_unused_constants
from executorch_py.exir.ir.fake_values import evaluate, fake_evaluation
from executorch_py.exir.ir.graph import (
    constant_tensors,
    erase_dead_nodes,
    foldable_constants,
    graphs_with_constants,
)
from executorch_py.exir.ir.match import argument, is_call
from executorch_py.exir.passes.base import Contract, Fact, Pass, facts

Constants = dict[str, torch.Tensor]

_VIEWS = (
    "aten::view_copy",
    "aten::unsqueeze_copy",
    "aten::squeeze_copy.dims",
    "aten::_unsafe_view",
)
_CLONES = ("aten::clone", "dim_order_ops::_clone_dim_order", "aten::alias_copy")
_EXPANDS = ("aten::expand_copy",)
_SCALES = ("aten::mul.Scalar", "aten::mul.Tensor", "aten::div.Scalar", "aten::div.Tensor")
_TYPES = (torch.float32, torch.float64)


@dataclass
class _Mask:
    """A tensor that is added to the scores, where they have the shape `scores`."""

    node: fx.Node
    scores: tuple[str, ...]
    hidden: bool = False  # bools of the scores that become -inf, instead of numbers


@dataclass
class _Permuted:
    """A permutation of `source` that no node computes yet."""

    source: fx.Node
    dims: list[int]


@dataclass
class _Match:
    """Parts of the pattern, found from its end to its beginning."""

    product: fx.Node  # weights @ values
    inside: set[fx.Node] = field(default_factory=set)  # calls that are replaced
    unseen_is_nan: bool = True
    scale: float = 1.0
    masks: list[_Mask] = field(default_factory=list)
    scores: fx.Node | None = None  # the operand of softmax
    query: list[fx.Node] = field(default_factory=list)  # one tensor as views of each other
    key: list[fx.Node] = field(default_factory=list)
    value: list[fx.Node] = field(default_factory=list)
    permuted_key: _Permuted | None = None  # the key, if `key` is empty


class FuseAttention(Pass):
    """Replace attention, bodies of control flow included, and drop calls without readers."""

    contract = Contract(requires=facts(Fact.FUNCTIONAL))

    def run(self, program: ExportedProgram) -> bool:
        constants = constant_tensors(program)
        fused, erased = False, False
        for graph, known in graphs_with_constants(program, constants):
            for node in list(graph.nodes):
                match = _matched(node, known) if is_call(node, "aten::bmm") else None
                fused |= match is not None and _replace(match, known)
            erased |= erase_dead_nodes(graph)
        if fused:
            # Masks that the causal flag replaced.
            drop_unused_constants(program, set(foldable_constants(program)))
        return fused or erased


# ---- reading the graph


def _shape(node: Any) -> tuple[str, ...]:
    """Sizes as text, so that symbols compare."""
    value = node.meta.get("val") if isinstance(node, fx.Node) else None
    return tuple(map(str, value.shape)) if isinstance(value, torch.Tensor) else ("?",)


def _view_path(node: fx.Node) -> list[fx.Node]:
    """The node, its source if it is a view, and so on; all have the same elements in order."""
    found = [node]
    while is_call(node, *_VIEWS, *_CLONES, *_EXPANDS):
        source = node.args[0]
        if not isinstance(source, fx.Node):
            break
        if is_call(node, *_EXPANDS) and _shape(node) != _shape(source):
            break
        found.append(source)
        node = source
    return found


def _same_matrices(path: list[fx.Node]) -> bool:
    """Whether views of one another have the same last two dimensions."""
    return len({_shape(node)[-2:] for node in path}) == 1


def _number(value: Any, constants: Constants) -> float | None:
    """A number known at export: an argument, a one-element constant, or the value of a fill."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, fx.Node):
        return None
    if is_call(value, "aten::scalar_tensor"):
        return _number(argument(value, "s"), constants)
    if is_call(value, "aten::full", "aten::full_like"):
        return _number(argument(value, "fill_value"), constants)
    constant = constants.get(value.name)
    if constant is None or constant.numel() != 1 or constant.is_complex():
        return None
    return float(constant.reshape(()).item())


def _unscaled(node: fx.Node, match: _Match, constants: Constants) -> fx.Node | None:
    """The tensor that a call multiplies by a number, which is added to the match, or None."""
    if not is_call(node, *_SCALES):
        return None
    x, factor = node.args[0], _number(node.args[1], constants)
    if factor is None or not isinstance(x, fx.Node) or _shape(x) != _shape(node):
        return None
    if is_call(node, "aten::div.Scalar", "aten::div.Tensor"):
        if factor == 0:
            return None
        factor = 1.0 / factor
    match.scale *= factor
    return x


# ---- the pattern, from its end


def _matched(product: fx.Node, constants: Constants) -> _Match | None:
    match = _Match(product)
    weights, value = product.args[0], product.args[1]
    if not isinstance(weights, fx.Node) or not isinstance(value, fx.Node):
        return None
    value_of = product.meta.get("val")
    if not isinstance(value_of, torch.Tensor) or value_of.dtype not in _TYPES:
        return None
    match.value = _view_path(value)
    softmax = _softmax_behind(weights, match)
    scores = softmax.args[0] if softmax is not None else None
    if not isinstance(scores, fx.Node) or not _scores_product(scores, match, constants):
        return None
    inner = match.inside
    return match if all(set(n.users) <= inner | {product} for n in inner) else None


def _softmax_behind(weights: fx.Node, match: _Match) -> fx.Node | None:
    """The softmax that computes the weights, maybe with 0 for queries that see no key."""
    path = _view_path(weights)
    last = path[-1]
    if not _same_matrices(path):
        return None
    match.inside |= set(path)
    if is_call(last, "aten::where.self"):
        guard, zeros, inner = last.args
        softmax = inner if isinstance(inner, fx.Node) else None
        if softmax is None or not _is_guard(guard, zeros, softmax, match):
            return None
        match.unseen_is_nan = False
        last = softmax
        match.inside.add(last)
    rank = len(_shape(last))
    if not is_call(last, "aten::_softmax") or argument(last, "dim") not in (-1, rank - 1):
        return None
    return None if argument(last, "half_to_float") else last


def _is_guard(guard: Any, zeros: Any, softmax: fx.Node, match: _Match) -> bool:
    """Whether `guard` is true for rows of softmax's input that are all -inf."""
    if not is_call(softmax, "aten::_softmax") or not is_call(
        zeros, "aten::full_like", "aten::full"
    ):
        return False
    steps: list[fx.Node] = [zeros]
    node = guard
    for key in ("aten::logical_not", "aten::any.dim", "aten::logical_not", "aten::eq.Scalar"):
        if not is_call(node, key):
            return False
        steps.append(node)
        node = node.args[0]
    if node is not softmax.args[0] or argument(steps[-1], "other") != -math.inf:
        return False
    if argument(zeros, "fill_value") != 0 or argument(steps[2], "keepdim") is not True:
        return False
    match.inside |= set(steps)
    return argument(steps[2], "dim") in (-1, len(_shape(softmax)) - 1)


def _without_mask(node: fx.Node, match: _Match, constants: Constants) -> fx.Node | None:
    """The scores before a call adds a mask or fills with -inf; the mask is added to the match."""
    if is_call(node, "aten::where.self"):
        condition, filler, scores = node.args
        number = _number(filler, constants)
        if number != -math.inf or not isinstance(condition, fx.Node):
            return None
        mask, hidden = condition, True
    elif is_call(node, "aten::add.Tensor") and argument(node, "alpha") == 1:
        scores, mask = node.args[0], node.args[1]
        if not isinstance(scores, fx.Node) or not isinstance(mask, fx.Node):
            return None
        if not _leads_to_product(scores, constants):
            scores, mask = mask, scores
        if mask.meta["val"].dtype != node.meta["val"].dtype:
            return None
        hidden = False
    else:
        return None
    shape = _shape(node)
    if not isinstance(scores, fx.Node) or _shape(scores) != shape or len(_shape(mask)) > len(shape):
        return None
    match.masks.append(_Mask(mask, shape, hidden))
    return scores


def _leads_to_product(node: fx.Node, constants: Constants) -> bool:
    """Whether a node computes scores: a product, maybe scaled and masked."""
    unused = _Match(node)
    last: fx.Node | None = node
    while last is not None:
        node = _view_path(last)[-1]
        last = _unscaled(node, unused, constants)
        if last is None:
            last = _without_mask(node, unused, constants)
    return is_call(node, "aten::bmm")


def _scores_product(scores: fx.Node, match: _Match, constants: Constants) -> bool:
    """Match scale, masks, query and key, from the operand of softmax backwards."""
    match.scores = scores
    node: fx.Node | None = scores
    scaled = False
    while node is not None:
        path = _view_path(node)
        if not _same_matrices([scores, *path]):
            return False
        match.inside |= set(path)
        last = path[-1]
        node = _unscaled(last, match, constants)
        if node is not None:
            scaled = True
        elif not scaled:  # a mask before a scale would be scaled as well
            node = _without_mask(last, match, constants)
    if not is_call(last, "aten::bmm"):
        return False
    query, key = last.args
    if not isinstance(query, fx.Node) or not isinstance(key, fx.Node):
        return False
    match.query = _operand(query, match, constants)
    path = _operand(key, match, constants)
    match.key = list(_untransposed(path, match, constants))
    if match.key:
        return _shape(match.key[0])[-2:] == _shape(key)[:-3:-1]
    return match.permuted_key is not None and _same_matrices([key, *path])


def _operand(node: fx.Node, match: _Match, constants: Constants) -> list[fx.Node]:
    """The tensor behind scales and views, as views of it."""
    path = _view_path(node)
    before = _unscaled(path[-1], match, constants)
    return path if before is None else _operand(before, match, constants)


def _untransposed(path: list[fx.Node], match: _Match, constants: Constants) -> Iterator[fx.Node]:
    """The operand, as views, whose last two dimensions the last of the views swaps.

    If it moves others as well, nothing is yielded, and the match gets the permutation without the
    swap of these two.
    """
    node = path[-1]
    rank = len(_shape(node))
    if is_call(node, "aten::permute_copy"):
        dims = [d % rank for d in argument(node, "dims")]
    elif is_call(node, "aten::transpose_copy.int"):
        dims = list(range(rank))
        a, b = argument(node, "dim0") % rank, argument(node, "dim1") % rank
        dims[a], dims[b] = dims[b], dims[a]
    else:
        return
    source = node.args[0]
    if not isinstance(source, fx.Node):
        return
    dims[-1], dims[-2] = dims[-2], dims[-1]
    if dims == list(range(rank)):
        yield from _operand(source, match, constants)
    else:
        source = _unscaled(source, match, constants) or source
        match.permuted_key = _Permuted(source, dims)


# ---- writing it


def _called(before: fx.Node, target: Any, *args: Any, **kwargs: Any) -> fx.Node:
    """A new call in front of a node, with its value."""
    with before.graph.inserting_before(before):
        node = before.graph.call_function(target, args, kwargs)
    with fake_evaluation(before.meta["val"].fake_mode):
        node.meta["val"] = evaluate(node)
    return node


def _with_shape(path: list[fx.Node], shape: tuple[str, ...], before: fx.Node) -> fx.Node | None:
    """The view that has this shape, or a new one, or None."""
    found = next((node for node in path if _shape(node) == shape), None)
    if found is not None:
        return found
    like = next((node for node in path if _shape(node)[-2:] == shape[-2:]), None)
    if like is None or not all(s.isdigit() for s in (*shape, *_shape(like))):
        return None
    sizes = [int(s) for s in shape]
    if math.prod(sizes) != like.meta["val"].numel():
        return None
    return _called(before, torch.ops.aten.view_copy.default, like, sizes)


def _key(match: _Match, before: fx.Node) -> list[fx.Node]:
    if match.permuted_key is None or match.key:
        return match.key
    source, dims = match.permuted_key.source, match.permuted_key.dims
    return [_called(before, torch.ops.aten.permute_copy.default, source, dims)]


def _operands(match: _Match, leading: tuple[str, ...], before: fx.Node) -> list[fx.Node] | None:
    """Query, key and value with these leading dimensions; None where one has no such view."""
    n_queries, n_keys = _shape(match.scores)[-2:]
    dim, columns = _shape(match.query[0])[-1], _shape(match.product)[-1]
    wanted = [(match.query, (n_queries, dim)), (_key(match, before), (n_keys, dim))]
    wanted.append((match.value, (n_keys, columns)))
    found = [_with_shape(path, (*leading, *sizes), before) for path, sizes in wanted]
    return [node for node in found if node is not None] if None not in found else None


def _scores_shape(match: _Match) -> tuple[str, ...]:
    """The shape of the scores that all masks broadcast to: the longest in which one is added."""
    return max((_shape(match.scores), *(m.scores for m in match.masks)), key=len)


def _replace(match: _Match, constants: Constants) -> bool:
    """Insert the call in the dimensions of the scores, or else of the product."""
    product, shape = match.product, _scores_shape(match)
    if not all(_broadcasts(mask, shape) for mask in match.masks):
        return False
    result = (*shape[:-2], *_shape(product)[-2:])
    whole = _operands(match, shape[:-2], product)
    if whole is None and (len(shape) == 3 or not match.masks):
        whole, result = _operands(match, _shape(product)[:1], product), _shape(product)
    if whole is None:
        return False
    views = list(product.users)
    if views and all(is_call(u, *_VIEWS) and _shape(u) == result for u in views):
        replaced = views
    elif result == _shape(product):
        replaced = [product]
    elif all(s.isdigit() for s in result):
        replaced = []  # a view of the result replaces the product
    else:
        return False
    mask, causal = _mask(match, constants)
    options: dict[str, Any] = {"scale": match.scale, "unseen_is_nan": match.unseen_is_nan}
    with product.graph.inserting_before(product):
        call = product.graph.call_function(attention_op(), (*whole, mask, 0.0, causal), options)
    call.meta.update({k: v for k, v in product.meta.items() if k != "spec"})
    value = product.meta["val"]
    if replaced:
        call.meta["val"] = replaced[0].meta["val"]
    else:
        call.meta["val"] = value.new_empty([int(s) for s in result])
        view = _called(product, torch.ops.aten.view_copy.default, call, list(value.shape))
        product.replace_all_uses_with(view)
    for node in replaced:
        node.replace_all_uses_with(call)
    return True


def _broadcasts(mask: _Mask, shape: tuple[str, ...]) -> bool:
    """Whether the mask broadcasts to scores of this shape as it does to its own."""
    sizes, n = _shape(mask.node)[::-1], 0
    shared = zip(mask.scores[::-1], shape[::-1], strict=False)
    for own, other in shared:
        if own != other:
            break
        n += 1
    return all(size == "1" for size in sizes[n:])


def _mask(match: _Match, constants: Constants) -> tuple[fx.Node | None, bool]:
    """The mask in its shortest form, or None, and whether the causal flag replaces it."""
    if not match.masks:
        return None, False
    masks = [_shortest(mask, match, constants) for mask in match.masks]
    if len(masks) == 1:
        node = masks[0]
        known = constants.get(node.name)
        matrices = _shape(match.scores)[-2:]
        if match.masks[0].hidden:
            if known is not None and _is_causal(~known) and _shape(node)[-2:] == matrices:
                return None, True
            node = _called(match.product, torch.ops.aten.logical_not.default, node)
        elif known is not None and _is_causal(known) and _shape(node)[-2:] == matrices:
            return None, True
        return _matrix(node, match), False
    total: fx.Node | None = None
    for mask, node in zip(match.masks, masks, strict=True):
        numbers = _numbers(node, mask.hidden, match)
        total = (
            numbers
            if total is None
            else _called(match.product, torch.ops.aten.add.Tensor, numbers, total)
        )
    assert total is not None
    return _matrix(total, match), False


def _numbers(mask: fx.Node, hidden: bool, match: _Match) -> fx.Node:
    """The mask as numbers to add."""
    value = mask.meta["val"]
    if value.dtype != torch.bool:
        return mask
    dtype = match.product.meta["val"].dtype
    values = (-math.inf, 0.0) if hidden else (0.0, -math.inf)
    full = torch.ops.aten.full.default
    fills = [_called(match.product, full, [], fill, dtype=dtype) for fill in values]
    return _called(match.product, torch.ops.aten.where.self, mask, *fills)


def _matrix(mask: fx.Node, match: _Match) -> fx.Node:
    """The mask as a matrix: the kernel reads a row for each query, or one for all."""
    shape = list(mask.meta["val"].shape)
    if len(shape) >= 2:
        return mask
    sizes = [1] * (2 - len(shape)) + shape
    return _called(match.product, torch.ops.aten.view_copy.default, mask, sizes)


def _shortest(mask: _Mask, match: _Match, constants: Constants) -> fx.Node:
    """The bools that a mask of 0 and -inf is made of, or the mask."""
    node = mask.node
    if len(match.masks) == 1 and is_call(node, "aten::where.self"):
        condition, seen, hidden = node.args
        numbers = (_number(seen, constants), _number(hidden, constants))
        if numbers == (0.0, -math.inf) and isinstance(condition, fx.Node):
            return condition if _shape(condition) == _shape(node) else node
    return node


def _is_causal(mask: torch.Tensor) -> bool:
    if mask.dim() < 2 or mask.numel() != mask.shape[-1] * mask.shape[-2]:
        return False
    if mask.dtype == torch.bool:
        wanted = torch.ones(mask.shape[-2:], dtype=torch.bool).tril()
    else:
        wanted = torch.full(mask.shape[-2:], -math.inf, dtype=mask.dtype).triu(1)
    return bool(torch.equal(mask.reshape(mask.shape[-2:]), wanted))
