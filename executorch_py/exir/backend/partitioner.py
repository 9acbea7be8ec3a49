"""Partitioner, the base of partitioners: tags the nodes for a backend and names the backend.

A tag is `node.meta["delegation_tag"]`; all nodes with one tag become one delegate. Partitioners
change nothing else. Knows nothing of how tagged nodes are lowered.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

import torch
from torch.export import ExportedProgram

from executorch_py.exir.schema import CompileSpec

_NO_SPEC: Mapping[str | int | float | bool, object] = MappingProxyType({})


class DelegationSpec(NamedTuple):
    """The backend of a partition and the settings it gets."""

    backend_id: str
    compile_specs: list[CompileSpec]


@dataclass
class PartitionResult:
    """The tagged program and, for each tag, where its nodes go."""

    tagged_exported_program: ExportedProgram
    partition_tags: dict[str, DelegationSpec]


class Partitioner(ABC):
    """Base class of partitioners; implement `partition`."""

    # True if ops_to_not_decompose reads the program that it is given. The program is then made
    # functional first, which costs a second tracing. The check that it returns always sees a
    # functional graph.
    asks_functional_graph = True

    def __init__(self, spec: Mapping[str | int | float | bool, object] = _NO_SPEC) -> None:
        self._spec = spec

    def __call__(self, exported_program: ExportedProgram) -> PartitionResult:
        return self.partition(exported_program)

    @property
    def spec(self) -> Mapping[str | int | float | bool, object]:
        return self._spec

    @abstractmethod
    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        """Tag the nodes of an edge program that should be delegated, and nothing else."""

    def ops_to_not_decompose(
        self, ep: ExportedProgram
    ) -> tuple[list[torch._ops.OpOverload], Callable[[torch.fx.Node], bool] | None]:
        """Operators to keep whole for this backend, and a check of nodes (None: keep all)."""
        return ([], None)

    def transform_for_pre_decomposition(self, exported_program: ExportedProgram) -> ExportedProgram:
        """Change an ATen program before it is decomposed; called by to_edge_transform_and_lower."""
        return exported_program

    def transform_before_partition(self, edge_program: ExportedProgram) -> ExportedProgram:
        """Change an edge program before it is partitioned; it is this partitioner's own copy."""
        return edge_program


def check_is_partitioner(given: object) -> None:
    """Raise TypeError, with a remedy, for anything but a partitioner object."""
    if isinstance(given, Partitioner):
        return
    if isinstance(given, type):
        hint = f"call it: {given.__name__}()"
    else:
        hint = "pass an object of a class that derives from Partitioner"
    raise TypeError(f"partitioner: expected a Partitioner object, got {given!r}; {hint}")
