"""ConfigerationBasedPartitioner: partitioning by configs, one per operator. A config names the
nodes that it accepts and the nodes that are lowered with them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable

import torch
from torch import fx
from torch._export.utils import is_buffer, is_lifted_tensor_constant, is_param
from torch.export import ExportedProgram
from torch.fx.passes.infra.partitioner import Partition

from executorch_py.exir.backend.canonical_partitioners.pattern_op_partitioner import (
    generate_grouped_partitions_from_list_of_nodes,
)
from executorch_py.exir.backend.partitioner import (
    DelegationSpec,
    Partitioner,
    PartitionResult,
)


def is_constant_data(ep: ExportedProgram, node: fx.Node) -> bool:
    """Whether the node is a parameter, buffer or constant of the program."""
    checks = (is_param, is_buffer, is_lifted_tensor_constant)
    return any(check(ep, node) for check in checks)


def format_target_name(target_name: str) -> str:
    """The operator's name without its namespace: `aten.linear.default` is `linear.default`."""
    names = target_name.split(".")
    return ".".join(names[1:] if len(names) > 2 else names)


class PartitionerConfig(ABC):
    """A backend's rules for one operator."""

    target_name: str = ""
    """Name as format_target_name gives it, such as `linear.default`."""

    @abstractmethod
    def check_constraints(self, node: fx.Node, ep: ExportedProgram) -> bool:
        """Whether the backend accepts this node."""

    @abstractmethod
    def get_original_aten(self) -> torch._ops.OpOverload | None:
        """The operator that must not be decomposed before partitioning, if there is one."""

    @abstractmethod
    def get_partition(self, node: fx.Node, ep: ExportedProgram) -> list[fx.Node]:
        """The node and those that must be lowered with it; empty to reject it after all."""


def _target_name(node: fx.Node) -> str:
    return format_target_name(getattr(node.target, "__name__", str(node.target)))


class ConfigerationBasedPartitioner(Partitioner):
    """Tags the nodes that its configs accept; overlapping sets of nodes become one partition."""

    def __init__(
        self, delegation_spec: DelegationSpec, partitioner_configs: Iterable[PartitionerConfig]
    ) -> None:
        super().__init__()
        self.delegation_spec = delegation_spec
        self.target_partitioner_configs: dict[str, PartitionerConfig] = {}
        for config in partitioner_configs:
            other = self.target_partitioner_configs.setdefault(config.target_name, config)
            if other is not config:
                raise RuntimeError(
                    f"PartitionerConfig: {config} and {other} have the same target_name: "
                    f"{config.target_name}"
                )

    def ops_to_not_decompose(
        self, ep: ExportedProgram
    ) -> tuple[list[torch._ops.OpOverload], Callable[[fx.Node], bool] | None]:
        kept = [c.get_original_aten() for c in self.target_partitioner_configs.values()]

        def accepts(node: fx.Node) -> bool:
            if node.op != "call_function":
                return False
            config = self.target_partitioner_configs.get(_target_name(node))
            return (
                config is not None
                and config.get_original_aten() is not None
                and config.check_constraints(node, ep)
            )

        return [op for op in kept if op is not None], accepts

    def get_matched_nodes_from_configs(self, ep: ExportedProgram) -> list[list[fx.Node]]:
        """Sets of accepted nodes and of those lowered with them; overlapping sets are merged."""
        group_of: dict[fx.Node, list[fx.Node]] = {}
        for node in ep.graph_module.graph.nodes:
            config = self.target_partitioner_configs.get(_target_name(node))
            if node.op != "call_function" or config is None:
                continue
            if not config.check_constraints(node, ep):
                continue
            joined: list[fx.Node] = []
            for member in config.get_partition(node, ep):
                known = group_of.get(member)
                if known is not None and is_constant_data(ep, member):
                    continue  # constants are copied to each partition and merge none
                if known is None:
                    known = group_of[member] = [member]
                if known is joined:
                    continue
                joined += known
                for moved in known:
                    group_of[moved] = joined
        groups = {id(group): group for group in group_of.values()}
        return list(groups.values())

    def generate_partitions(self, ep: ExportedProgram) -> list[Partition]:
        """The partitions of a program, before tagging."""
        groups = self.get_matched_nodes_from_configs(ep)
        return generate_grouped_partitions_from_list_of_nodes(ep.graph_module, groups)

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        tags: dict[str, DelegationSpec] = {}
        for partition in self.generate_partitions(exported_program):
            tag = f"tag{partition.id}"
            for node in partition.nodes:
                if "delegation_tag" in node.meta:
                    raise RuntimeError(
                        f"node '{node}' is in partition {node.meta['delegation_tag']} and in {tag}"
                    )
                node.meta["delegation_tag"] = tag
            tags[tag] = self.delegation_spec
        return PartitionResult(exported_program, tags)
