"""Partitioner configs: kinds of arithmetic and single operators that a partitioner is limited to.

Names and values are upstream's. A config names an operator; the limits of its delegation are in the
capability table (support/capability.py). Scripts derive from configs to delegate less.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram

from executorch_py.backends.xnnpack.support.capability import GraphFacts, reason
from executorch_py.backends.xnnpack.support.node_facts import (
    ConfigPrecisionType,
    NodeFacts,
    Options,
)
from executorch_py.exir.backend.canonical_partitioners.config_partitioner import (
    PartitionerConfig,
    format_target_name,
)
from executorch_py.exir.ir.graph import constant_tensors


class XNNPartitionerConfig(PartitionerConfig):
    """One operator that a partitioner may delegate, and its kinds of arithmetic.

    A derived class can exclude a node: its `check_constraints` returns False, or its
    `get_node_and_deps` returns no nodes. It cannot include a node that XNNPACK does not compute.
    """

    precisions: tuple[ConfigPrecisionType, ...] = (ConfigPrecisionType.FP32,)
    whole: str = ""
    """The namespace of the operator, `aten`, if it must not be decomposed before partitioning."""
    _known: Mapping[fx.Node, NodeFacts] | None = None
    """The facts of the graph that a partitioner is asking about, which it makes once."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__()
        self.enabled_precision_types = self.supported_precision_types()
        self.force_non_static_weights_for_f32_linear = bool(
            kwargs.get("force_non_static_weights_for_f32_linear", False)
        )
        self.enable_bf16 = bool(kwargs.get("enable_bf16", False))
        self._floats_only = False

    def supported_precision_types(self) -> list[ConfigPrecisionType]:
        """The kinds of arithmetic of the operator."""
        return list(self.precisions)

    def set_enabled_precision_types(
        self, precision_types: Sequence[ConfigPrecisionType] | None
    ) -> None:
        """Limit the kinds of arithmetic to these; None or an empty list is no limit."""
        if precision_types:
            supported = self.supported_precision_types()
            self.enabled_precision_types = [p for p in precision_types if p in supported]
            self._floats_only = set(precision_types) == {ConfigPrecisionType.FP32}

    def get_original_aten(self) -> torch._ops.OpOverload | None:
        """The operator to keep whole; None if it may be decomposed."""
        if not self.whole:
            return None
        if self.whole == "torchao":
            import torchao.quantization.quant_primitives  # noqa: F401
        found: Any = torch.ops
        for part in (self.whole, *self.target_name.split(".")):
            found = getattr(found, part)
        op: torch._ops.OpOverload = found
        return op

    def check_common_constraints(self, node: fx.Node, ep: ExportedProgram) -> bool:
        """Whether XNNPACK computes the node and a kind of arithmetic is enabled."""
        return bool(self.enabled_precision_types) and reason(self._facts(node, ep)) is None

    def _facts(self, node: fx.Node, ep: ExportedProgram) -> NodeFacts:
        """The facts of a node: those of the partitioner that is asking, if it has our options."""
        options = Options(bf16=self.enable_bf16, floats_only=self._floats_only)
        if self._known is not None and self._known[node].options == options:
            return self._known[node]
        return GraphFacts(constant_tensors(ep), options)[node]

    def check_constraints(self, node: fx.Node, ep: ExportedProgram) -> bool:
        return self.check_common_constraints(node, ep)

    def get_node_and_deps(self, node: fx.Node, ep: ExportedProgram) -> list[fx.Node]:
        """The node; the partitioner finds the nodes that are delegated with it."""
        return [node]

    def get_partition(self, node: fx.Node, ep: ExportedProgram) -> list[fx.Node]:
        return self.get_node_and_deps(node, ep)

    def takes(self, facts: NodeFacts, ep: ExportedProgram) -> bool:
        """Whether no method of a derived class excludes a node that XNNPACK computes."""
        self._known = facts.around
        try:
            return self._accepts(facts.node, ep)
        finally:
            self._known = None  # the graph may change between two questions

    def _accepts(self, node: fx.Node, ep: ExportedProgram) -> bool:
        if self._derives("check_constraints") and not self.check_constraints(node, ep):
            return False
        grows = self._derives("get_partition") or self._derives("get_node_and_deps")
        return not grows or bool(self.get_partition(node, ep))

    def _derives(self, method: str) -> bool:
        return getattr(type(self), method) is not getattr(XNNPartitionerConfig, method)


def operator_config(
    module: str,
    base: type[XNNPartitionerConfig],
    name: str,
    target_name: str,
    precisions: tuple[ConfigPrecisionType, ...] = (),
    whole: str = "",
) -> type[XNNPartitionerConfig]:
    """Make the config class for an operator; `precisions` are those of its base by default."""
    return type(
        name,
        (base,),
        {
            "__module__": module,
            "target_name": target_name,
            "precisions": precisions or base.precisions,
            "whole": whole,
        },
    )


def config_key(target_name: str) -> str:
    """The target name of an operator in configs: `add.Tensor` of `aten::add.Tensor`."""
    name = target_name.split("::")[-1]
    return name if "." in name else f"{name}.default"


__all__ = [
    "ConfigPrecisionType",
    "XNNPartitionerConfig",
    "config_key",
    "format_target_name",
    "operator_config",
]
