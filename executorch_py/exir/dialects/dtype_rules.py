"""Dtype rules: a table of the combinations that the edge dialect allows for an operator.

A rule is a list of alternatives ("|"); an alternative is a list of groups (" "); a group
`self=ret0:ifd` says that the named tensors have one and the same dtype out of the set. A group
`ret0<self+other:if` says that ret0 is the type to which self and other promote, all of the set
(`/` instead of `<`: integers promote to float32, as division does). Names not in a rule are free;
operators not in the table take every legal dtype. Knows nothing of graphs.

Dtypes by letter: b bool, B uint8, c int8, s int16, i int32, l int64, S uint16, e float16,
E bfloat16, f float32, d float64, G complex32, F complex64, D complex128. Complex32 is legal where
a rule names it, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import torch

DTYPE_OF_LETTER: dict[str, torch.dtype] = {
    "b": torch.bool,
    "B": torch.uint8,
    "c": torch.int8,
    "s": torch.int16,
    "i": torch.int32,
    "l": torch.int64,
    "S": torch.uint16,
    "e": torch.float16,
    "E": torch.bfloat16,
    "f": torch.float32,
    "d": torch.float64,
    "G": torch.complex32,
    "F": torch.complex64,
    "D": torch.complex128,
}
LEGAL_DTYPES = frozenset(DTYPE_OF_LETTER.values()) - {torch.complex32}

_INT = "Bcsil"
_FLOAT = "eEfd"
_REAL = "bBcsilSeEfd"  # every real dtype of the runtime
_REAL_NO_U16 = "bBcsileEfd"
_NUM = "BcsileEfd"
_COMPLEX = "FD"
# A 0-d float32 operand does not promote half precision; as the right operand it is not rounded.
_HALF_BY_ONE = "self=ret0:eE other:f"

_TABLE: tuple[tuple[str, str], ...] = (
    (
        "acos acosh asin asinh atan atanh cos cosh div.Scalar erf exp log logit reciprocal rsqrt "
        "sigmoid sin sinh sqrt tan tanh",
        f"self=ret0:{_FLOAT} | self:bBcsilSf ret0:f",
    ),
    (
        "alias_copy as_strided_copy clone constant_pad_nd detach_copy fill.Scalar "
        "lift_fresh_copy repeat select_copy.int split_copy.Tensor split_with_sizes_copy t_copy "
        "transpose_copy.int unbind_copy.int view_copy",
        f"self=ret0:{_REAL}{_COMPLEX}",
    ),
    ("cat stack", f"tensors=ret0:{_REAL}{_COMPLEX}"),
    (
        "eq.Scalar ge.Scalar gt.Scalar isinf isnan le.Scalar lt.Scalar ne.Scalar",
        f"self:{_REAL} ret0:b",
    ),
    ("_log_softmax _softmax elu gelu glu leaky_relu var.dim", f"self=ret0:{_FLOAT}"),
    (
        "ge.Tensor gt.Tensor le.Tensor lt.Tensor ne.Tensor logical_and logical_or logical_xor",
        f"self:{_REAL_NO_U16} other:{_REAL_NO_U16} ret0:b | self:S other:S{_FLOAT} ret0:b "
        f"| self:{_FLOAT} other:S ret0:b",
    ),
    ("amax amin index.Tensor pixel_shuffle sign tril", f"self=ret0:{_REAL_NO_U16}"),
    (
        "expand_copy permute_copy slice_copy.Tensor squeeze_copy.dim squeeze_copy.dims "
        "unsqueeze_copy",
        f"self=ret0:{_REAL}{_COMPLEX}",
    ),
    (
        "add.Tensor sub.Tensor",
        f"ret0<self+other:{_REAL_NO_U16}{_COMPLEX} | self=ret0:{_FLOAT} other:S "
        f"| self:S other=ret0:{_FLOAT} | self=other=ret0:S",
    ),
    (
        "mul.Tensor",
        f"ret0<self+other:{_REAL_NO_U16}{_COMPLEX} | self=ret0:{_FLOAT} other:S "
        f"| self:S other=ret0:{_FLOAT} | self=other=ret0:S | {_HALF_BY_ONE}",
    ),
    (
        "minimum fmod.Tensor remainder.Tensor",
        f"ret0<self+other:{_REAL_NO_U16} | self=ret0:{_FLOAT} other:S | self:S other=ret0:{_FLOAT} "
        "| self=other=ret0:S",
    ),
    (
        "div.Tensor_mode floor_divide",
        f"ret0<self+other:{_REAL_NO_U16} | self=ret0:{_FLOAT} other:S | self:S other=ret0:{_FLOAT} "
        f"| self=other=ret0:S | {_HALF_BY_ONE}",
    ),
    (
        "pow.Tensor_Tensor",
        f"ret0<self+exponent:{_REAL_NO_U16} | self=ret0:{_FLOAT} exponent:S "
        f"| self:S exponent=ret0:{_FLOAT} | self=exponent=ret0:S",
    ),
    (
        "div.Tensor",
        f"ret0/self+other:{_REAL_NO_U16}{_COMPLEX} | self:S other:Sf ret0:f "
        f"| self:f other:S ret0:f | self=ret0:{_FLOAT} other:S | self:S other=ret0:{_FLOAT} "
        f"| {_HALF_BY_ONE}",
    ),
    ("bitwise_and.Tensor bitwise_or.Tensor bitwise_xor.Tensor", f"ret0<self+other:b{_INT}"),
    ("empty.memory_format full ones scalar_tensor zeros", f"ret0:{_REAL}{_COMPLEX}"),
    ("arange arange.start_step", f"ret0:{_NUM}"),
    ("hardtanh neg relu", f"self=ret0:{_NUM}"),
    ("abs", f"self=ret0:{_NUM} | self:F ret0:f | self:D ret0:d"),
    ("copy select_scatter slice_scatter", f"self=ret0:{_REAL} src:{_REAL}"),
    ("fill.Tensor", f"self=ret0:{_REAL} value:{_REAL}"),
    (
        "bitwise_and.Scalar bitwise_or.Scalar bitwise_xor.Scalar",
        "self=ret0:bBcsilS | self:b ret0:l",
    ),
    ("ceil floor round", f"self=ret0:BcsilS{_FLOAT}"),
    (
        "clamp fmod.Scalar remainder.Scalar pow.Tensor_Scalar rsub.Scalar",
        f"self=ret0:{_REAL} | self:b ret0:l | self:bBcsilS ret0:f",
    ),
    (
        "add.Scalar mul.Scalar sub.Scalar",
        f"self=ret0:{_REAL}{_COMPLEX} | self:b ret0:l | self:bBcsilS ret0:f",
    ),
    ("_to_copy full_like", f"self:{_REAL} ret0:{_REAL}"),
    ("argmax argmin", f"self:{_NUM} ret0:l"),
    ("bmm mm", f"self=mat2=ret0:{_NUM}"),
    ("addmm", f"self=mat1=mat2=ret0:{_NUM}"),
    ("embedding", f"weight=ret0:{_REAL} indices:il"),
    ("index_select", f"self=ret0:{_REAL} index:il"),
    ("max.dim min.dim", f"self=values:{_REAL_NO_U16} indices:l"),
    ("any", "self:bBcsilSeEfd ret0:b | self=ret0:B"),
    ("avg_pool2d", f"self=ret0:l{_FLOAT}"),
    ("bitwise_not", f"self=ret0:b{_INT}"),
    ("convolution", f"input=weight=ret0:{_NUM} bias:{_REAL}"),
    ("cumsum sum.dim_IntList", f"self:{_REAL} ret0:{_REAL_NO_U16}"),
    ("index_put", f"self=values=ret0:{_REAL_NO_U16}"),
    ("logical_not", f"self:{_REAL_NO_U16} ret0:b"),
    ("masked_fill.Scalar", f"self=ret0:{_REAL_NO_U16} mask:b"),
    ("max_pool2d_with_indices", f"self=ret0:{_NUM} ret1:l"),
    ("mean.dim", f"self:{_REAL} ret0:{_FLOAT}"),
    ("native_layer_norm", f"input=weight=bias=ret0=ret1=ret2:{_FLOAT}"),
    ("nonzero", f"self:{_REAL_NO_U16} ret0:l"),
    ("scatter_add", f"self=src=ret0:{_REAL_NO_U16} index:l"),
    ("view_as_complex_copy", "self:e ret0:G | self:f ret0:F | self:d ret0:D"),
    ("view_as_real_copy", "self:G ret0:e | self:F ret0:f | self:D ret0:d"),
    ("where.self", f"condition:bB ret0<self+other:{_REAL_NO_U16}{_COMPLEX}"),
)


@dataclass(frozen=True)
class _Group:
    names: tuple[str, ...]
    dtypes: frozenset[torch.dtype]
    promoted: str | None = None  # the name that holds the promotion of `names`
    as_float: bool = False

    def holds(self, found: Mapping[str, torch.dtype | None]) -> bool:
        present = [found[name] for name in self.names if found.get(name) is not None]
        if any(dtype not in self.dtypes for dtype in present):
            return False
        if self.promoted is None:
            return len(set(present)) <= 1
        result = found.get(self.promoted)
        if result is None or len(present) != len(self.names):
            return True
        return bool(result == self._promotion([dtype for dtype in present if dtype is not None]))

    def _promotion(self, dtypes: list[torch.dtype]) -> torch.dtype:
        result = dtypes[0]
        for dtype in dtypes[1:]:
            result = torch.promote_types(result, dtype)
        if self.as_float and not (result.is_floating_point or result.is_complex):
            return torch.get_default_dtype()
        return result


@dataclass(frozen=True, eq=False)
class DtypeRule:
    """The dtype rule of one operator; an empty rule accepts every legal dtype.

    Answers are kept for each combination, since a graph has few and asks for every node.
    """

    alternatives: tuple[tuple[_Group, ...], ...]

    def validate(self, types: Mapping[str, torch.dtype | None]) -> bool:
        """Whether the rule allows dtypes (argument or return name -> dtype, None if unknown)."""
        return _is_allowed(self, tuple(types.items()), torch.get_default_dtype())

    def _allows(self, types: Mapping[str, torch.dtype | None]) -> bool:
        if any(
            dtype is not None and dtype not in LEGAL_DTYPES and dtype not in self.allowed(name)
            for name, dtype in types.items()
        ):
            return False
        if not self.alternatives or any(d is not None and d.is_complex for d in types.values()):
            return True
        return any(all(group.holds(types) for group in option) for option in self.alternatives)

    def allowed(self, name: str) -> frozenset[torch.dtype]:
        """Every dtype that the named tensor may have in some combination; empty if unknown."""
        name = name.replace("__ret_", "ret")
        return frozenset().union(
            *(
                group.dtypes
                for option in self.alternatives
                for group in option
                if name in group.names or name == group.promoted
            )
        )


@lru_cache(maxsize=4096)
def _is_allowed(
    rule: DtypeRule, types: tuple[tuple[str, torch.dtype | None], ...], default: torch.dtype
) -> bool:
    """The rule's answer while `default` is torch's default dtype."""
    return rule._allows({name.replace("__ret_", "ret"): dtype for name, dtype in types})


def _parse_group(text: str) -> _Group:
    names, _, letters = text.partition(":")
    dtypes = frozenset(DTYPE_OF_LETTER[letter] for letter in letters)
    for sign in "</":
        promoted, found, operands = names.partition(sign)
        if found:
            return _Group(tuple(operands.split("+")), dtypes, promoted, sign == "/")
    return _Group(tuple(names.split("=")), dtypes)


@lru_cache(maxsize=1)
def _rules() -> dict[str, DtypeRule]:
    rules: dict[str, DtypeRule] = {}
    for names, text in _TABLE:
        rule = DtypeRule(
            tuple(tuple(map(_parse_group, option.split())) for option in text.split("|"))
        )
        rules.update((f"aten::{name}", rule) for name in names.split())
    return rules


_FREE = DtypeRule(())


def dtype_rule(schema: torch._C.FunctionSchema) -> DtypeRule:
    """The rule of an operator schema."""
    name = f"{schema.name}.{schema.overload_name}" if schema.overload_name else schema.name
    return _rules().get(name, _FREE)


def constrained_operators() -> tuple[str, ...]:
    """Names of all operators with a rule of their own."""
    return tuple(_rules())
