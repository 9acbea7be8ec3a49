"""The decompositions that make the operator set of the edge dialect.

Torch's table for the core operators, plus norms, products, random operators and recurrent layers,
minus the operators that carry quantization.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import torch
from torch.export import ExportedProgram

from executorch_py.exir.decompose.backward import (
    backward_decompositions,
    is_joint,
    joint_decompositions,
)
from executorch_py.exir.decompose.composite_ops import (
    composite_registrations,
    default_rules,
    run_decompositions,
)
from executorch_py.exir.decompose.half import half_decompositions
from executorch_py.exir.decompose.linalg import keep_singular_checks
from executorch_py.exir.decompose.matmul import product_decompositions
from executorch_py.exir.decompose.random import random_decompositions
from executorch_py.exir.decompose.recurrent import recurrent_decompositions
from executorch_py.exir.decompose.resample import resample_decompositions
from executorch_py.exir.decompose.shared_constants import merge_shared_constants
from executorch_py.exir.dialects.quantized_ops import register_quantized_ops
from executorch_py.exir.ir.graph import copy_program, deep_copy
from executorch_py.exir.ir.graph_modules import graph_modules


def quantization_primitives() -> list[Any]:
    """Operators that carry quantization through export; decomposing one would lose it."""
    register_quantized_ops()
    library = torch.ops.quantized_decomposed
    kept = [
        library.dequantize_per_channel.default,
        library.dequantize_per_tensor.default,
        library.dequantize_per_tensor.tensor,
        library.convert_element_type.no_fuse,
        library.quantize_per_tensor.default,
        library.quantize_per_tensor.tensor,
        library.quantize_per_channel.default,
        library.choose_qparams.tensor,
    ]
    for name in ("dequantize_affine", "quantize_affine", "choose_qparams_affine"):
        packet = getattr(torch.ops.torchao, name, None)
        if packet is not None:
            kept.append(packet.default)
    return kept


@lru_cache(maxsize=1)
def _full_table(composites: tuple[str, ...]) -> dict[Any, Any]:
    """The table of all decompositions, cached by the registered composite operators."""
    from torch._decomp import get_decompositions

    table = default_rules(composites)
    table.update(get_decompositions([torch.ops.aten.linalg_vector_norm]))
    table.update(product_decompositions())
    table.update(random_decompositions())
    table.update(recurrent_decompositions())
    table.update(resample_decompositions())
    table.update(half_decompositions(table))
    table.update(backward_decompositions())
    table[torch.ops.aten.constant_pad_nd.default] = _pad
    table[torch.ops.aten.select_scatter.default] = _select_scatter
    table[torch.ops.aten.take.default] = _take
    table[torch.ops.aten.one_hot.default] = _one_hot
    table[torch.ops.prims.convert_element_type.default] = _convert
    return table


def _select_scatter(self: torch.Tensor, src: torch.Tensor, dim: int, index: int) -> Any:
    """Replaces torch's rule, which writes every element through a mask, by a slice of one entry."""
    if not isinstance(index, int):
        return NotImplemented
    start = index + self.shape[dim] if index < 0 else index
    return torch.ops.aten.slice_scatter.default(self, src.unsqueeze(dim), dim, start, start + 1)


def _take(self: torch.Tensor, index: torch.Tensor) -> Any:
    """Replaces torch's rule, which reads a 0-d index while it traces."""
    return self.reshape(-1)[index.reshape(-1)].reshape(index.shape)


def _convert(x: torch.Tensor, dtype: torch.dtype) -> Any:
    """A cast that torch's own rules leave, as in norms in a wider dtype."""
    return torch.ops.aten._to_copy.default(x, dtype=dtype)


def _one_hot(classes: torch.Tensor, num_classes: int = -1) -> Any:
    """Replaces torch's rule by eager's algorithm, which refuses classes out of range.

    While it traces, torch compares with every class, and others become rows of zeros.
    """
    if num_classes <= 0:
        return NotImplemented
    zeros = classes.new_zeros([*classes.shape, num_classes])
    return zeros.scatter(-1, classes.unsqueeze(-1), 1)


def _pad(x: torch.Tensor, pad: Sequence[Any], value: Any = 0) -> Any:
    """Negative padding becomes slices, because upstream's kernel refuses it.

    Files have no complex numbers: for a complex value, real and imaginary parts are padded.
    """
    if isinstance(value, complex):
        pairs = torch.view_as_real(x.to(torch.result_type(x, value)))
        numbers = (value.real, value.imag)
        padded = [
            torch.ops.aten.constant_pad_nd.default(pairs.select(-1, i), pad, number)
            for i, number in enumerate(numbers)
        ]
        return torch.view_as_complex(torch.stack(padded, -1))
    if not any(isinstance(n, int) and n < 0 for n in pad):
        return NotImplemented
    for i in range(0, len(pad), 2):
        before, after = (n if isinstance(n, int) and n < 0 else 0 for n in pad[i : i + 2])
        dim = x.ndim - 1 - i // 2
        if before or after:
            x = torch.ops.aten.slice.Tensor(x, dim, -before, x.shape[dim] + after)
    rest = [0 if isinstance(n, int) and n < 0 else n for n in pad]
    return torch.ops.aten.constant_pad_nd.default(x, rest, value)


def decomposition_table(preserve: Iterable[Any] = ()) -> dict[Any, Any]:
    """A fresh table without the quantization primitives and the operators to `preserve`."""
    kept = [*quantization_primitives(), *preserve]  # may register operators, so it comes first
    table = dict(_full_table(composite_registrations()))
    for op in kept:
        table.pop(op, None)
    return table


def decompose(program: ExportedProgram, table: Mapping[Any, Any]) -> ExportedProgram:
    """run_decompositions with this table, without torch's warning about its own deprecation.

    Torch 2.13 copies tree specs inside and then warns that their leaf class is deprecated. No user
    can do anything about it.
    """
    if is_joint(program):
        table = {**joint_decompositions(), **table}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"`isinstance\(treespec, LeafSpec\)`", FutureWarning)
        program = _with_wide_softshrinks(merge_shared_constants(program))
        try:
            return keep_singular_checks(run_decompositions(program, table))
        except ValueError as error:
            if "Cannot view a tensor" not in str(error):
                raise
        program = _with_reshapes_for_views(program)
        return keep_singular_checks(run_decompositions(program, table))


def _with_reshapes_for_views(program: ExportedProgram) -> ExportedProgram:
    """A copy of the program with `reshape`, which may copy, instead of `view`.

    The decomposition of attention gives its result another layout. A `view` that was possible when
    the model was traced may be impossible on the decomposed result. In a graph that changes
    tensors in place, a copy would lose changes, so that such a graph is made functional first.
    """
    program = (
        run_decompositions(program, {}) if _changes_tensors(program) else copy_program(program)
    )
    for gm in graph_modules(program.graph_module):
        for node in gm.graph.find_nodes(op="call_function", target=torch.ops.aten.view.default):
            node.target = torch.ops.aten.reshape.default
        gm.recompile()
    return program


def _changes_tensors(program: ExportedProgram) -> bool:
    """Whether an operator of the graph writes to one of its arguments."""
    return any(
        getattr(getattr(node.target, "_schema", None), "is_mutable", False)
        for gm in graph_modules(program.graph_module)
        for node in gm.graph.nodes
    )


def _with_wide_softshrinks(program: ExportedProgram) -> ExportedProgram:
    """The program, or a copy whose half-precision softshrink computes in f32, as eager does.

    Torch decomposes softshrink even if the table lacks it, and rounds its bound to half precision.
    """
    softshrink = torch.ops.aten.softshrink.default
    found = program.graph_module.graph.find_nodes(op="call_function", target=softshrink)
    if not any(node.meta["val"].dtype in (torch.float16, torch.bfloat16) for node in found):
        return program
    gm = deep_copy(program.graph_module)
    for node in gm.graph.find_nodes(op="call_function", target=softshrink):
        value, cast = node.meta["val"], torch.ops.aten.to.dtype
        if value.dtype not in (torch.float16, torch.bfloat16):
            continue
        with gm.graph.inserting_before(node):
            wide = gm.graph.call_function(cast, (node.args[0], torch.float32))
            shrunk = gm.graph.call_function(softshrink, (wide, *node.args[1:]), node.kwargs)
        for new in (wide, shrunk):
            new.meta.update(node.meta, val=value.to(torch.float32))
        # The node stays: the signature may hold its name.
        node.target, node.args, node.kwargs = cast, (shrunk, value.dtype), {}
    gm.recompile()
    return program._update(gm, program.graph_signature)
