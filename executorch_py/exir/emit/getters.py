"""Constant methods: plans without instructions whose outputs are values fixed at export."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import OutputKind
from torch.utils import _pytree as pytree

from executorch_py.exir import schema
from executorch_py.exir.emit.emit_constants import ConstantStore, dense, tensor_value
from executorch_py.exir.emit.emit_method import WRITTEN_BACK
from executorch_py.exir.emit.emit_signature import tree_json
from executorch_py.exir.emit.emit_values import scalar_value
from executorch_py.exir.error import NotSupportedError
from executorch_py.exir.ir.tensor_spec import TensorSpec


def emit_getters(
    getters: Mapping[str, Any], constants: ConstantStore
) -> list[schema.ExecutionPlan]:
    """One plan per constant method, in the order given."""
    return [_getter(name, value, constants) for name, value in getters.items()]


def _getter(name: str, value: Any, constants: ConstantStore) -> schema.ExecutionPlan:
    leaves, tree = pytree.tree_flatten(value)
    return schema.ExecutionPlan(
        name=name,
        container_meta_type=schema.ContainerMetadata("", tree_json(tree)),
        values=[schema.EValue(_leaf(name, leaf, constants)) for leaf in leaves],
        inputs=[],
        outputs=list(range(len(leaves))),
        chains=[schema.Chain([], [], [], None)],
        operators=[],
        delegates=[],
        non_const_buffer_sizes=[0],
    )


def _leaf(name: str, value: Any, constants: ConstantStore) -> schema.KernelTypes:
    if isinstance(value, torch.Tensor):
        data, dim_order = dense(value)
        spec = TensorSpec(data.dtype, data.shape)
        index = constants.constant(data, name)
        return tensor_value(spec, dim_order=dim_order, data_buffer_idx=index)
    try:
        return scalar_value(value)
    except NotSupportedError as error:
        reason = str(error).partition("]: ")[2]  # without the kind, which stands first again
        raise NotSupportedError(f"constant method '{name}' returns {reason}") from None


def training_getters(methods: Mapping[str, ExportedProgram]) -> dict[str, Any]:
    """Index of the first gradient and of the first parameter among a joint (training) graph's
    outputs, and the parameters' names.

    Upstream: counts values that are written back to buffers, which are no outputs of the method.
    """
    found: dict[str, Any] = {}
    for name, ep in methods.items():
        specs = ep.graph_signature.output_specs
        kinds = [spec.kind for spec in specs if spec.kind not in WRITTEN_BACK]
        if OutputKind.GRADIENT_TO_PARAMETER not in kinds:
            continue
        found[f"__et_training_gradients_index_{name}"] = kinds.index(
            OutputKind.GRADIENT_TO_PARAMETER
        )
        if OutputKind.TOKEN in kinds:
            found[f"__et_training_parameters_index_{name}"] = kinds.index(OutputKind.TOKEN)
        found[f"__et_training_fqn_{name}"] = [
            spec.target for spec in specs if spec.kind is OutputKind.GRADIENT_TO_PARAMETER
        ]
    return found
