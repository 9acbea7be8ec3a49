"""Winograd convolutions of a file, each judged by the bound of its rounding error.

A traced run of the file gives the image that a layer read and its result. The exact result is that
of the layer's convolution and epilogue in float64 on that same image, so errors of layers before do
not count. Relies on file_values.py for the instructions and on winograd_bound.py for the bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from executorch_py.exir.dialects.own_ops import apply_epilogue
from executorch_py.exir.ir.graph import constant_tensors
from executorch_py.exir.ir.match import argument
from executorch_py.exir.ir.op_traits import op_key
from executorch_py.testing.comparison import Comparison
from executorch_py.testing.file_values import TracedFile
from executorch_py.testing.operator_rounding import rounding_limit
from executorch_py.testing.winograd_bound import winograd_bound

if TYPE_CHECKING:
    from executorch_py.exir.program.executorch import ExecutorchProgramManager

_OPERATOR = "executorch_py::winograd_convolution"
_CONVOLUTIONS = frozenset({"aten::convolution", "aten::conv2d", "aten::conv2d.padding"})
# Positions of a call's arguments.
_IMAGE, _TENSORS = 0, 12


@dataclass(frozen=True)
class _Layer:
    """A call: the node of the program's graph, and its constants."""

    node: fx.Node
    weight: torch.Tensor
    bias: torch.Tensor | None

    @property
    def tile(self) -> int:
        return int(argument(self.node, "tile"))

    @property
    def padding(self) -> list[int]:
        return list(argument(self.node, "padding"))


class WinogradLayers:
    """The Winograd convolutions of a method. False if there are none."""

    def __init__(self, program: ExecutorchProgramManager, method: str) -> None:
        self._exported = program.exported_program(method)
        self._file = TracedFile(program, method)

    def __bool__(self) -> bool:
        return bool(self._layers)

    @cached_property
    def _layers(self) -> list[_Layer]:
        nodes = [n for n in self._exported.graph.nodes if _is_layer(n)]
        known = constant_tensors(self._exported) if nodes else {}
        found = []
        for node in nodes:
            weight, bias = argument(node, "weight"), argument(node, "bias")
            found.append(_Layer(node, known[weight.name], bias and known.get(bias.name)))
        return found

    def compare(self, flat: Sequence[Any], sizes: str) -> tuple[list[Comparison], list[str]]:
        """One comparison for each layer whose image the file shows, and a line for each other."""
        found: list[Comparison] = []
        lines: list[str] = []
        indices = self._file.instructions_of(_OPERATOR)
        if len(indices) != len(self._layers):
            return found, ["Winograd convolutions in branches and loops are not compared alone"]
        layers = dict(zip(indices, self._layers, strict=True))
        for index, args, result in self._file.traced(flat):
            if index not in layers:
                continue
            layer, image, tensors = layers[index], args[_IMAGE], args[_TENSORS]
            if image is None or any(t is None for t in tensors):
                lines.append(f"'{layer.node.name}' is not compared: the file shows no input of it")
            else:
                found.append(_compared(layer, image, tensors, result, sizes))
        return found, lines

    def slack(self, node: fx.Node, args: Sequence[Any], value: Any) -> torch.Tensor | None:
        """The bound of a convolution of the model that the file computes by Winograd's method.

        Layers are recognised by their sizes, since the file may scale weights by a batch norm.
        """
        if op_key(node.target) not in _CONVOLUTIONS:
            return None
        for layer in self._layers:
            weight, result = layer.weight, layer.node.kwargs["out"].meta["spec"].shape
            if args[1].shape == weight.shape and tuple(value.shape[2:]) == tuple(result[2:]):
                bias = args[2] if len(args) > 2 else None
                return winograd_bound(args[0], args[1], bias, layer.padding, layer.tile)[1]
        return None


def _is_layer(node: fx.Node) -> bool:
    return node.op == "call_function" and op_key(node.target).split(".")[0] == _OPERATOR


def _compared(
    layer: _Layer,
    image: torch.Tensor,
    tensors: Sequence[torch.Tensor],
    result: torch.Tensor,
    sizes: str,
) -> Comparison:
    exact, limit = winograd_bound(image, layer.weight, layer.bias, layer.padding, layer.tile)
    chain, numbers = argument(layer.node, "chain"), argument(layer.node, "numbers")
    wide = [t.to(torch.float64) for t in tensors]
    after = [apply_epilogue(exact + d, chain, numbers, wide) for d in (0.0, limit, -limit)]
    wanted = after[0]
    limit = torch.maximum((after[1] - wanted).abs(), (after[2] - wanted).abs())
    if chain:
        limit = limit + rounding_limit(wanted.to(torch.float32)).to(torch.float64)
    error = (result.to(torch.float64) - wanted).abs()
    wrong = ~(error <= limit) & image.isfinite().all()
    share = float((error / limit).nan_to_num(0.0).max()) if error.numel() else 0.0
    tile = layer.tile
    return Comparison(
        output=f"'{layer.node.name}' by Winograd's F({tile}x{tile}, 3x3)",
        sizes=sizes,
        max_abs_error=float(error.max()) if error.numel() else 0.0,
        max_rel_error=float((error / wanted.abs().max()).max()) if error.numel() else 0.0,
        mismatched=int(wrong.sum()),
        elements=error.numel(),
        worst=f"the largest error is {share:.3g} times its bound",
        rule="winograd",
        note=f"{share:.2g} of its bound",
    )
