"""Passes of upstream's that scripts add to pipelines of their own, and that none here needs."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.passes.infra.pass_base import PassResult
from torch.utils._python_dispatch import _disable_current_modes

from executorch_py.exir.ir.op_traits import DEQUANTIZE, QUANTIZE, op_key
from executorch_py.exir.passes.user.export_pass import ExportPass
from executorch_py.exir.passes.user.pass_values import NodeMetadata

__all__ = ["ConstPropPass", "NormalizeTransposePass", "ToDevicePass"]

_CONSTANTS = (float, int, bool, str, torch.Tensor, torch.device, torch.dtype, torch.layout)


class ConstPropPass(ExportPass):
    """Compute calls whose arguments are numbers, tensors and settings; results become constants.

    With `propogate_quant` these are quantize and dequantize calls alone, else all others.
    """

    def __init__(self, propogate_quant: bool = False) -> None:
        super().__init__()
        self.propogate_quant = propogate_quant

    def call_operator(
        self, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any], meta: NodeMetadata
    ) -> Any:
        is_quantization = op_key(op) in QUANTIZE | DEQUANTIZE
        if is_quantization != self.propogate_quant or not _is_constant([args, kwargs]):
            return super().call_operator(op, args, kwargs, meta)
        with _disable_current_modes():
            return op(*args, **kwargs)


def _is_constant(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return all(map(_is_constant, value))
    if isinstance(value, dict):
        return all(map(_is_constant, value.values()))
    return isinstance(value, _CONSTANTS) and not isinstance(value, FakeTensor)


class NormalizeTransposePass(ExportPass):
    """`aten.t`, which returns a view, becomes `aten.t_copy`."""

    def call_operator(
        self, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any], meta: NodeMetadata
    ) -> Any:
        target = torch.ops.aten.t_copy.default if op == torch.ops.aten.t.default else op
        return super().call_operator(target, args, kwargs, meta)


class ToDevicePass(ExportPass):
    """Move a graph's parameters to a device, and its calls that name another device."""

    def __init__(self, device: str | torch.device) -> None:
        super().__init__()
        self.device = torch.device(device)

    def call(self, graph_module: fx.GraphModule) -> PassResult:
        tensors = (*graph_module.parameters(), *graph_module.buffers())
        modified = any(tensor.device != self.device for tensor in tensors)
        moved = graph_module.to(self.device)
        for node in moved.graph.nodes:
            if node.op == "call_function" and node.kwargs.get("device", self.device) != self.device:
                node.update_kwarg("device", self.device)
                modified = True
        moved.recompile()
        return PassResult(moved, modified)
