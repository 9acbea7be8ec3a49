"""Checks that keep nodes out of partitions, by operator, by node name or by module."""

from __future__ import annotations

from typing import Any

from torch import fx
from torch.fx.passes.operator_support import OperatorSupportBase


def _matches(exact: bool, wanted: str | None, found: str) -> bool:
    if not wanted:
        return False
    return wanted == found if exact else wanted in found


class _Rejecting(OperatorSupportBase):
    """Supports every node that `_rejects` does not reject, and records the rejected ones."""

    def __init__(self) -> None:
        self._rejected_nodes: list[fx.Node] = []

    def _rejects(self, node: fx.Node) -> bool:
        raise NotImplementedError

    def is_node_supported(self, submodules: Any, node: fx.Node) -> bool:
        if self._rejects(node):
            self.reject_node(node)
            return False
        return True

    def reject_node(self, node: fx.Node) -> None:
        self._rejected_nodes.append(node)

    def rejected_nodes(self) -> list[fx.Node]:
        return self._rejected_nodes

    def has_rejected_node(self) -> bool:
        return bool(self._rejected_nodes)

    def num_rejected(self) -> int:
        return len(self._rejected_nodes)


class DontPartition(_Rejecting):
    """Keeps operators out: given as edge or torch overloads, or as strings such as "aten.add"."""

    def __init__(self, *targets: Any, exact: bool = True) -> None:
        super().__init__()
        self.targets = targets
        self.exact = exact

    def _rejects(self, node: fx.Node) -> bool:
        if node.target in self.targets:
            return True
        original = node.meta.get("original_aten")
        return original is not None and any(
            _matches(self.exact, str(target), str(original)) for target in self.targets
        )


class DontPartitionName(_Rejecting):
    """Keeps nodes out by their name in the graph."""

    def __init__(self, *targets: str, exact: bool = True) -> None:
        super().__init__()
        self.targets = targets
        self.exact = exact

    def _rejects(self, node: fx.Node) -> bool:
        return any(_matches(self.exact, target, node.name) for target in self.targets)


class DontPartitionModule(_Rejecting):
    """Keeps the nodes of modules out, by class (with its file's module if dotted) or instance."""

    def __init__(
        self,
        *,
        module_name: str | None = None,
        instance_name: str | None = None,
        exact: bool = True,
    ) -> None:
        super().__init__()
        self.module_name = module_name
        self.instance_name = instance_name
        self.exact = exact
        self._dotted = module_name is None or "." in module_name

    def _rejects(self, node: fx.Node) -> bool:
        for instance, module in node.meta.get("nn_module_stack", {}).values():
            name = str(module) if self._dotted else str(module).split(".")[-1]
            if _matches(self.exact, self.instance_name, str(instance)):
                return True
            if _matches(self.exact, self.module_name, name):
                return True
        return False
