"""PrepackWeights: f32 weights of products and convolutions are stored as their kernels read them.

`aten::addmm`, `aten::mm` and `aten::convolution`, and these with an epilogue, become operators of
the library `executorch_py` whose weights are panels (dialects/packed_weights.py), with the same
bits. Not packed are weights that another operator reads as well, as the file would hold both; those
that would grow by more than a third, for want of columns; and those that multiply from the left, as
in convolutions of planes, whose panels depend on the machine. Relies on `meta["val"]`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram

from executorch_py.exir.dialects.edge_ops import edge_op
from executorch_py.exir.dialects.packed_weights import (
    PANEL,
    is_depthwise,
    packed_kernel,
    packed_linear_weight,
)
from executorch_py.exir.ir.constants import add_constants, drop_unused_constants, inherited_meta
from executorch_py.exir.ir.evaluate import is_plain
from executorch_py.exir.ir.fake_values import fake_mode_of
from executorch_py.exir.ir.graph import foldable_constants
from executorch_py.exir.ir.match import argument
from executorch_py.exir.ir.op_traits import op_key
from executorch_py.exir.passes.base import Contract, Fact, Pass, facts

# A weight is packed if its panels have at most so many times its elements.
_MOST_GROWTH = 4 / 3
# The cases in which csrc/kernels/op/conv multiplies weights of planes from the right: few pixels,
# or so many multiply-adds for each element that is transposed. Other choices cost time only.
_FEW_PIXELS, _FEW_CHANNELS, _LONG_SEGMENT, _MAX_TAPS = 64, 16, 8, 128
_TRANSPOSE_COST = 500

_CONVOLUTION: tuple[str, ...] = ("input", "weight", "bias", "stride", "padding", "dilation")
_CONVOLUTION += ("transposed", "output_padding", "groups")


@dataclass(frozen=True)
class _Packing:
    """The stored form of a call's weight, by key, and the call that reads it."""

    weight: fx.Node
    key: tuple[Any, ...]
    pack: Callable[[torch.Tensor], torch.Tensor]
    target: Any
    args: Callable[[fx.Node], tuple[Any, ...]]  # of the stored weight


class PrepackWeights(Pass):
    """Store f32 weights of products and convolutions in the panels of their kernels."""

    contract = Contract(requires=facts(Fact.FUNCTIONAL))

    def run(self, program: ExportedProgram) -> bool:
        gm = program.graph_module
        mode = fake_mode_of(gm)
        if mode is None:
            return False
        known = {k: v for k, v in foldable_constants(program).items() if is_plain(v)}
        found = {
            node: packing
            for node in gm.graph.nodes
            if (packing := _packing_of(node, known)) is not None
        }
        names = {spec.arg.name: spec.target for spec in program.graph_signature.input_specs}
        made: dict[tuple[Any, ...], fx.Node] = {}
        read_elsewhere = _read_elsewhere(gm.graph, known, found)
        changed = False
        for node, packing in found.items():
            if _memory(known[packing.weight.name]) in read_elsewhere:
                continue
            if packing.key not in made:
                value = packing.pack(known[packing.weight.name])
                with mode:
                    example = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype)
                meta = inherited_meta([packing.weight])
                name = f"{names[packing.weight.name]}_packed"
                (made[packing.key],) = add_constants(program, [(name, value, example, meta)])
            node.target, node.kwargs = edge_op(packing.target), {}
            node.args = packing.args(made[packing.key])
            changed = True
        if changed:
            drop_unused_constants(program, set(known))
        return changed


def _memory(value: torch.Tensor) -> int:
    """The memory of a tensor; a matrix and its transpose have the same, and share it in a file."""
    return int(value.untyped_storage().data_ptr())


def _read_elsewhere(
    graph: fx.Graph, known: dict[str, torch.Tensor], found: dict[fx.Node, _Packing]
) -> set[int]:
    """Memory of constants that calls read which stay as they are."""
    constants = [node for node in graph.nodes if node.op == "placeholder" and node.name in known]
    return {
        _memory(known[node.name])
        for node in constants
        if any(user not in found or found[user].weight is not node for user in node.users)
    }


def _packing_of(node: fx.Node, known: dict[str, torch.Tensor]) -> _Packing | None:
    rule = _RULES.get(op_key(node.target)) if node.op == "call_function" else None
    value = node.meta.get("val")
    if rule is None or not isinstance(value, torch.Tensor) or value.dtype != torch.float32:
        return None
    packing = rule(node)
    if packing is None or packing.weight.name not in known:
        return None
    return packing if known[packing.weight.name].dtype == torch.float32 else None


def _epilogue(node: fx.Node) -> tuple[Any, ...]:
    """The arguments of a call's epilogue; empty ones for ATen's operators."""
    return argument(node, "chain", ""), argument(node, "numbers", []), argument(node, "tensors", [])


def _is_padded_little(columns: int) -> bool:
    return 0 < -(-columns // PANEL) * PANEL <= _MOST_GROWTH * columns


# ---- products


def _of_mm(node: fx.Node) -> _Packing | None:
    return _linear(node, argument(node, "self"), argument(node, "mat2"), None)


def _of_addmm(node: fx.Node) -> _Packing | None:
    bias, columns = argument(node, "self"), node.meta["val"].shape[-1]
    if argument(node, "beta") != 1 or argument(node, "alpha") != 1:
        return None
    if tuple(bias.meta["val"].shape) != (columns,):
        return None
    return _linear(node, argument(node, "mat1"), argument(node, "mat2"), bias)


def _linear(node: fx.Node, rows: fx.Node, weight: fx.Node, bias: Any) -> _Packing | None:
    terms, columns = weight.meta["val"].shape
    if not (isinstance(terms, int) and isinstance(columns, int) and terms > 0):
        return None
    if not _is_padded_little(columns):
        return None
    epilogue = _epilogue(node)
    return _Packing(
        weight,
        (weight.name, "linear"),
        lambda value: packed_linear_weight(value.t()),
        torch.ops.executorch_py.packed_linear.default,
        lambda stored: (rows, stored, bias, columns, *epilogue),
    )


# ---- convolutions


def _of_convolution(node: fx.Node) -> _Packing | None:
    weight, groups = argument(node, "weight"), argument(node, "groups")
    shape = tuple(weight.meta["val"].shape)
    if argument(node, "transposed") or not all(isinstance(n, int) and n > 0 for n in shape):
        return None
    value, source = node.meta["val"], argument(node, "input").meta["val"]
    is_packed = (
        _is_channels_last(source)
        if is_depthwise(shape, groups)
        else _is_padded_little(shape[0] // groups) and _is_by_channel(value, source, shape, groups)
    )
    if not is_packed:
        return None
    image, _, *rest = (argument(node, name) for name in _CONVOLUTION)
    epilogue = _epilogue(node)
    return _Packing(
        weight,
        (weight.name, "convolution", groups),
        lambda value: packed_kernel(value, groups),
        torch.ops.executorch_py.packed_convolution.default,
        lambda stored: (image, stored, *rest, list(shape), *epilogue),
    )


def _is_channels_last(value: torch.Tensor) -> bool:
    """Whether a tensor's channels are adjacent and its pixels are not."""
    strides = value.stride()
    return bool(value.dim() > 2 and strides[1] == 1 and strides[-1] != 1)


def _is_by_channel(
    value: torch.Tensor, source: torch.Tensor, shape: tuple[int, ...], groups: int
) -> bool:
    """Whether the kernel of a convolution multiplies its weights from the right."""
    if _is_channels_last(value):
        return True
    pixels, inputs = math.prod(value.shape[2:]), math.prod(source.shape[2:])
    if not (isinstance(pixels, int) and isinstance(inputs, int)):
        return False
    c_out, c_in, taps = shape[0] // groups, shape[1], math.prod(shape[2:])
    if pixels <= _FEW_PIXELS and c_out >= _FEW_CHANNELS:
        return True
    if not source.is_contiguous() or c_in < _LONG_SEGMENT or c_out < _FEW_CHANNELS:
        return False
    moved = inputs * c_in + pixels * c_out
    return taps <= _MAX_TAPS and bool(moved * _TRANSPOSE_COST <= pixels * c_out * c_in * taps)


_RULES: dict[str, Callable[[fx.Node], _Packing | None]] = {
    "aten::addmm": _of_addmm,
    "aten::convolution": _of_convolution,
    "aten::mm": _of_mm,
    "executorch_py::addmm": _of_addmm,
    "executorch_py::convolution": _of_convolution,
    "executorch_py::mm": _of_mm,
}
