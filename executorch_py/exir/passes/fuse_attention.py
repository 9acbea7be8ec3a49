"""fuse_attention: two products with a softmax between them become one call of attention.

    softmax(scale · q @ kᵀ + mask) @ v     what torch decomposes attention into, or written by hand

The scores are then never in memory. Matched by structure, through views; scores that anything else
reads stay. A mask of 0 and -inf made from bools becomes the bools, a triangle of -inf the causal
flag. Numbers are those of another order of rounding, nothing else changes: a query that may see no
key gives 0 where the program says so, else NaN. Only our runtime has the operator.
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
from executorch_py.exir.ir.graph import (
    all_graph_modules,
    constant_tensors,
    erase_dead_nodes,
    foldable_constants,
)
from executorch_py.exir.ir.match import argument, is_call

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
class _Match:
    """What the pattern found, from its end to its beginning."""

    product: fx.Node  # weights @ values
    inside: set[fx.Node] = field(default_factory=set)  # calls that go
    unseen_is_nan: bool = True
    scale: float = 1.0
    mask: fx.Node | None = None
    scores: fx.Node | None = None  # what softmax reads
    query: list[fx.Node] = field(default_factory=list)  # one tensor as views of each other
    key: list[fx.Node] = field(default_factory=list)
    value: list[fx.Node] = field(default_factory=list)


def fuse_attention(ep: ExportedProgram) -> bool:
    """Rewrite in place, bodies of control flow included; True if anything changed."""
    constants = constant_tensors(ep)
    changed = False
    for module in all_graph_modules(ep.graph_module):
        known = constants if module is ep.graph_module else {}
        for node in list(module.graph.nodes):
            match = _matched(node, known) if is_call(node, "aten::bmm") else None
            if match is not None and _replace(match, known):
                changed = True
        if changed:
            erase_dead_nodes(module.graph)
    if changed:
        drop_unused_constants(ep, set(foldable_constants(ep)))  # masks of what became a flag
    return changed


# ---- reading the graph


def _shape(node: Any) -> tuple[str, ...]:
    """Sizes, comparable where they are symbols."""
    value = node.meta.get("val") if isinstance(node, fx.Node) else None
    return tuple(map(str, value.shape)) if isinstance(value, torch.Tensor) else ("?",)


def _chain(node: fx.Node) -> list[fx.Node]:
    """The node and what it shows the elements of, in their order, back to the first."""
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
    """A number that the program knows: given, of a constant with one element, or of a call."""
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
    """What a call multiplies by a number, which goes into the match; None if it does not."""
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
    match.value = _chain(value)
    softmax = _softmax_behind(weights, match)
    scores = _masked_scores(softmax, match, constants) if softmax is not None else None
    if scores is None or not _scores_product(scores, match, constants):
        return None
    inner = match.inside
    return match if all(set(n.users) <= inner | {product} for n in inner) else None


def _softmax_behind(weights: fx.Node, match: _Match) -> fx.Node | None:
    """The softmax whose result, or 0 where a query sees nothing, are the weights."""
    path = _chain(weights)
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
    """Whether `guard` says that a row of softmax's input is -inf throughout."""
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


def _masked_scores(softmax: fx.Node, match: _Match, constants: Constants) -> fx.Node | None:
    """The scores before a mask is added, which goes into the match."""
    scores = softmax.args[0]
    if not isinstance(scores, fx.Node):
        return None
    match.scores = scores
    if not is_call(scores, "aten::add.Tensor") or argument(scores, "alpha") != 1:
        return scores
    a, b = scores.args[0], scores.args[1]
    if not isinstance(a, fx.Node) or not isinstance(b, fx.Node):
        return None
    match.inside.add(scores)
    if not _leads_to_product(a, constants):
        a, b = b, a
    if _shape(a) != _shape(scores) or not 2 <= len(_shape(b)) <= len(_shape(scores)):
        return None
    if b.meta["val"].dtype != scores.meta["val"].dtype:
        return None
    match.mask = b
    return a


def _leads_to_product(node: fx.Node, constants: Constants) -> bool:
    unused = _Match(node)
    last: fx.Node | None = node
    while last is not None:
        node = _chain(last)[-1]
        last = _unscaled(node, unused, constants)
    return is_call(node, "aten::bmm")


def _scores_product(scores: fx.Node, match: _Match, constants: Constants) -> bool:
    """Walk from the scores to query and key."""
    node: fx.Node | None = scores
    while node is not None:
        path = _chain(node)
        if not _same_matrices([scores, *path]):
            return False
        match.inside |= set(path)
        last = path[-1]
        node = _unscaled(last, match, constants)
    if not is_call(last, "aten::bmm"):
        return False
    query, key = last.args
    if not isinstance(query, fx.Node) or not isinstance(key, fx.Node):
        return False
    match.query = _operand(query, match, constants)
    match.key = list(_turned(_operand(key, match, constants), match, constants))
    return bool(match.key) and _shape(match.key[0])[-2:] == _shape(key)[:-3:-1]


def _operand(node: fx.Node, match: _Match, constants: Constants) -> list[fx.Node]:
    """The tensor behind scales and views, as views of it."""
    path = _chain(node)
    before = _unscaled(path[-1], match, constants)
    return path if before is None else _operand(before, match, constants)


def _turned(path: list[fx.Node], match: _Match, constants: Constants) -> Iterator[fx.Node]:
    """What the last of the views swaps the last two dimensions of."""
    node = path[-1]
    rank = len(_shape(node))
    swapped = [*range(rank - 2), rank - 1, rank - 2]
    if is_call(node, "aten::permute_copy"):
        dims = [d % rank for d in argument(node, "dims")]
    elif is_call(node, "aten::transpose_copy.int"):
        dims = list(range(rank))
        a, b = argument(node, "dim0") % rank, argument(node, "dim1") % rank
        dims[a], dims[b] = dims[b], dims[a]
    else:
        return
    source = node.args[0]
    if dims == swapped and isinstance(source, fx.Node):
        yield from _operand(source, match, constants)


# ---- writing it


def _with_shape(path: list[fx.Node], shape: tuple[str, ...]) -> fx.Node | None:
    return next((node for node in path if _shape(node) == shape), None)


def _operands(match: _Match, leading: tuple[str, ...]) -> list[fx.Node] | None:
    """Query, key and value with these leading dimensions, if they all appear so."""
    n_queries, n_keys = _shape(match.scores)[-2:]
    dim, columns = _shape(match.query[0])[-1], _shape(match.product)[-1]
    wanted = [(match.query, (n_queries, dim)), (match.key, (n_keys, dim))]
    wanted.append((match.value, (n_keys, columns)))
    found = [_with_shape(path, (*leading, *sizes)) for path, sizes in wanted]
    return [node for node in found if node is not None] if None not in found else None


def _replace(match: _Match, constants: Constants) -> bool:
    """Write the call in the scores' own dimensions, else in those of the product."""
    product, leading = match.product, _shape(match.scores)[:-2]
    result = (*leading, *_shape(product)[-2:])
    whole = _operands(match, leading)
    users = list(product.users)
    if whole is not None and all(is_call(u, *_VIEWS) and _shape(u) == result for u in users):
        replaced = users
    else:
        whole = _operands(match, _shape(product)[:1])
        replaced = [product]
        if match.mask is not None and len(_shape(match.scores)) != 3:
            return False
    if whole is None or not replaced:
        return False
    first = replaced[0]
    mask, causal = _mask(match, constants)
    with product.graph.inserting_before(first):
        options: dict[str, Any] = {"scale": match.scale, "unseen_is_nan": match.unseen_is_nan}
        call = product.graph.call_function(attention_op(), (*whole, mask, 0.0, causal), options)
    call.meta.update({k: v for k, v in product.meta.items() if k != "spec"})
    call.meta["val"] = first.meta["val"]
    for node in replaced:
        node.replace_all_uses_with(call)
    return True


def _mask(match: _Match, constants: Constants) -> tuple[fx.Node | None, bool]:
    """The mask in its shortest form, and whether it is the causal one, which needs none."""
    mask = match.mask
    if mask is None:
        return None, False
    known = constants.get(mask.name)
    if known is not None and _is_causal(known) and _shape(mask)[-2:] == _shape(match.scores)[-2:]:
        return None, True
    if is_call(mask, "aten::where.self"):
        condition, seen, hidden = mask.args
        numbers = (_number(seen, constants), _number(hidden, constants))
        if numbers == (0.0, -math.inf) and isinstance(condition, fx.Node):
            same = _shape(condition) == _shape(mask)
            return (condition if same else mask), False
    return mask, False


def _is_causal(mask: torch.Tensor) -> bool:
    if mask.dim() < 2 or mask.numel() != mask.shape[-1] * mask.shape[-2]:
        return False
    wanted = torch.full(mask.shape[-2:], -math.inf, dtype=mask.dtype).triu(1)
    return bool(torch.equal(mask.reshape(mask.shape[-2:]), wanted))
