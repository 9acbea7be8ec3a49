"""WeightOnlyQuantization: low-bit weights stay integers in the file and are dequantized by kernels.

    embedding(dequantize(table), i)     embedding_byte, _4bit or _2bit, on the rows that they read
    x @ dequantize(weight)ᵀ + bias      mixed_linear, for 8 bits and an x of one row
    dequantize(weight), otherwise       an embedding of all rows, or arithmetic if it is no matrix

Integers are packed, two or four to a byte, and scales are kept in bfloat16 if that is exact;
upstream's runtime has all the kernels. Dequantize nodes with a kernel of their own stay where no
rule is better. Runs after constants are folded, which leaves quantization alone. Relies on
`meta["val"]`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram

from executorch_py.exir.dialects.quantized_ops import register_quantized_ops
from executorch_py.exir.ir.constants import add_constants, drop_unused_constants
from executorch_py.exir.ir.fake_values import evaluate, fake_evaluation, fake_mode_of
from executorch_py.exir.ir.graph import constant_tensors, erase_dead_nodes, foldable_constants
from executorch_py.exir.ir.low_bit import AFFINE, PER_GROUP, Integers, integers_of
from executorch_py.exir.ir.match import argument, is_call
from executorch_py.exir.ir.op_traits import DEQUANTIZE, RESHAPES, op_key
from executorch_py.exir.passes.base import Contract, Fact, Pass, facts

_WITHOUT_KERNEL = (PER_GROUP, AFFINE)
_TRANSPOSES = ("aten::permute_copy", "aten::t_copy", "aten::transpose_copy.int")
_PACKET = {8: "embedding_byte", 4: "embedding_4bit", 2: "embedding_2bit"}


class WeightOnlyQuantization(Pass):
    """Replace dequantization of constant weights by operators that read the integers."""

    contract = Contract(requires=facts(Fact.FUNCTIONAL))

    def run(self, program: ExportedProgram) -> bool:
        constants = constant_tensors(program)
        graph = program.graph_module.graph
        mode = fake_mode_of(program.graph_module)
        changed = False
        for node in list(graph.nodes) if mode is not None else []:
            found = integers_of(node, constants) if node.op == "call_function" else None
            if found is not None and node.users:
                register_quantized_ops()
                changed |= _Rewrite(program, node, found, mode).run()
        if changed:
            erase_dead_nodes(graph)
            drop_unused_constants(program, set(foldable_constants(program)))
        return changed


def _is_one(size: Any) -> bool:
    return isinstance(size, int) and size == 1


class _Rewrite:
    """The rewrite of one dequantize node of a constant, and of its readers."""

    def __init__(self, ep: ExportedProgram, node: fx.Node, found: Integers, mode: Any) -> None:
        self.ep, self.graph, self.node, self.found = ep, ep.graph_module.graph, node, found
        self._mode = mode
        self._made: dict[str, fx.Node] = {}

    def run(self) -> bool:
        changed = False
        if self.found.is_table:
            for user in list(self.node.users):
                if is_call(user, "aten::embedding") and user.args[0] is self.node:
                    self._replace(user, partial(self._embedding, user.args[1]))
                    changed = True
                elif is_call(user, *_TRANSPOSES):
                    changed |= self._products(user)
        if self.node.users and op_key(self.node.target) in _WITHOUT_KERNEL:
            self._replace(self.node, self._all_rows if self.found.is_table else self._dequantized)
            changed = True
        return changed

    def _products(self, transposed: fx.Node) -> bool:
        """Replace products with the transposed matrix; its other readers stay."""
        changed = False
        for user in list(transposed.users):
            is_addmm = is_call(user, "aten::addmm")
            if not is_addmm and not is_call(user, "aten::mm"):
                continue
            bias, x, weight = user.args[:3] if is_addmm else (None, *user.args[:2])
            factors = [argument(user, name) for name in ("beta", "alpha")] if is_addmm else []
            if weight is not transposed or x is transposed or any(f != 1 for f in factors):
                continue
            if user.meta["val"].dtype is torch.float32 and self._has_better_product(x):
                self._replace(user, partial(self._product, x, bias))
                changed = True
        return changed

    def _has_better_product(self, x: fx.Node) -> bool:
        """Whether no other kernel dequantizes the weights, or mixed_linear takes float operands."""
        if op_key(self.node.target) in _WITHOUT_KERNEL:
            return True
        while op_key(x.target) in RESHAPES and isinstance(x.args[0], fx.Node):
            x = x.args[0]
        is_float = op_key(x.target) not in DEQUANTIZE
        return is_float and self.found.bits == 8 and self.found.zeros is None

    def _product(self, x: fx.Node, bias: fx.Node | None) -> fx.Node:
        # For more rows the kernel would dequantize the weights again for each row.
        is_mixed = self.found.bits == 8 and self.found.zeros is None
        if not is_mixed or not _is_one(x.meta["val"].shape[0]):
            return self._call(torch.ops.aten.linear.default, x, self._all_rows(), bias)
        operator = torch.ops.quantized_decomposed.mixed_linear.default
        integers = self._constant("integers", self.found.values)
        product = self._call(operator, x, integers, self._scales(self.found.scales), None)
        return product if bias is None else self._call(torch.ops.aten.add.Tensor, product, bias)

    def _all_rows(self) -> fx.Node:
        n_rows = len(self.found.values)
        arange = torch.ops.aten.arange.start_step
        rows = self._call(arange, 0, n_rows, 1, dtype=torch.int64, device=torch.device("cpu"))
        return self._embedding(rows)

    def _embedding(self, indices: Any) -> fx.Node:
        found, bits = self.found, self.found.bits
        half = 2 ** (bits - 1)
        parts = [found.scales] if found.zeros is None else [found.scales, found.zeros]
        small = all(torch.equal(p, p.to(torch.bfloat16).to(torch.float32)) for p in parts)
        dtype = torch.bfloat16 if small else torch.float32
        scales = self._scales(found.scales.to(dtype))
        zeros = None if found.zeros is None else self._scales(found.zeros.to(dtype), "zeros")
        packet = getattr(torch.ops.quantized_decomposed, _PACKET[bits])
        operands = (self._packed(bits), scales, zeros, -half, half - 1, indices)
        if not small:
            return self._call(packet.default, *operands)
        return self._call(packet.dtype, *operands, dtype=torch.float32)

    def _dequantized(self) -> fx.Node:
        """Weights of any rank: dequantized with scale 1, then scaled block by block."""
        found, library = self.found, torch.ops.quantized_decomposed
        between, scaled = [], []
        for n, b in zip(found.values.shape, found.block, strict=True):
            between += [n // b, b]
            scaled += [n // b, 1]
        blocks = self._constant("blocks", found.values.reshape(between))
        numbers = (1.0, 0, -128, 127, torch.int8)
        wide = self._call(library.dequantize_per_tensor.default, blocks, *numbers)
        if found.zeros is not None:
            zeros = self._constant("zeros", found.zeros.reshape(scaled))
            wide = self._call(torch.ops.aten.sub.Tensor, wide, zeros)
        scales = self._constant("scales", found.scales.reshape(scaled))
        wide = self._call(torch.ops.aten.mul.Tensor, wide, scales)
        return self._call(torch.ops.aten.view_copy.default, wide, list(found.values.shape))

    def _packed(self, bits: int) -> fx.Node:
        values = self.found.values
        if bits == 8:
            return self._constant("integers", values)
        per_byte = 8 // bits
        codes = (values.to(torch.int16) + 2 ** (bits - 1)).to(torch.uint8)
        parts = codes.reshape(len(codes), -1, per_byte)
        shifts = (4, 0) if bits == 4 else (0, 2, 4, 6)
        packed = torch.zeros_like(parts[..., 0])
        for i, shift in enumerate(shifts):
            packed |= parts[..., i] << shift
        return self._constant(f"packed{bits}", packed)

    def _scales(self, values: torch.Tensor, name: str = "scales") -> fx.Node:
        """Scales or zero points: a vector for one per row, a matrix for groups of a row."""
        text = f"{name}_{str(values.dtype).removeprefix('torch.')}"
        return self._constant(text, values.squeeze(1) if values.shape[1] == 1 else values)

    def _constant(self, what: str, value: torch.Tensor) -> fx.Node:
        if what not in self._made:
            value = value.contiguous()
            example = self._mode.from_tensor(value, static_shapes=True)
            (made,) = add_constants(
                self.ep, [(f"{self.found.name}_{what}", value, example, self._meta())]
            )
            self._made[what] = made
        return self._made[what]

    def _meta(self) -> dict[str, object]:
        """Meta that the new constant inherits: the data file that the integers go to."""
        source = self.node.args[0]
        assert isinstance(source, fx.Node)
        return {key: source.meta[key] for key in ("custom",) if key in source.meta}

    def _call(self, target: Any, *args: Any, **kwargs: Any) -> fx.Node:
        made = self.graph.call_function(target, args, kwargs)
        with fake_evaluation(self._mode):
            made.meta["val"] = evaluate(made)
        return made

    def _replace(self, node: fx.Node, make: Callable[[], fx.Node]) -> None:
        with self.graph.inserting_before(node):
            made = make()
        made.meta.update({k: v for k, v in node.meta.items() if k not in ("val", "spec")})
        node.replace_all_uses_with(made)
