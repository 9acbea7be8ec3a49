"""Queries of ExecutorchBackendConfig for passes: which memory is planned, and how.

A pass may share memory only if the plan is sure to hold. The user chooses the memory planner, and
an unknown planner guarantees nothing.
"""

from __future__ import annotations

from typing import Any

from executorch_py.exir.ir.tensor_spec import ALIGNMENT
from executorch_py.exir.memory.planning import MemoryPlanningAlgorithmSuite, best
from executorch_py.exir.passes.lower.memory_planning import MemoryPlanningPass

Config = Any  # ExecutorchBackendConfig, a floor above


def plans_inputs(config: Config) -> bool:
    """Whether the planner is known to give the method's inputs memory."""
    return _plans(config, "alloc_graph_input")


def plans_outputs(config: Config) -> bool:
    """Whether the planner is known to give the method's outputs memory."""
    return _plans(config, "alloc_graph_output")


def plans_buffers(config: Config) -> bool:
    """Whether the planner is known to give mutable buffers memory."""
    return _plans(config, "alloc_mutable_buffers")


def _plans(config: Config, option: str) -> bool:
    planner = config.memory_planning_pass
    return isinstance(planner, MemoryPlanningPass) and bool(getattr(planner, option))


def planner_alignment(config: Config) -> int:
    """Alignment of planned tensors in bytes."""
    return int(getattr(config.memory_planning_pass, "alignment", ALIGNMENT))


def uses_default_planner(config: Config) -> bool:
    """Whether the planner is the default one, of which no particular plan is expected."""
    planner = config.memory_planning_pass
    suite = planner.memory_planning_algo if isinstance(planner, MemoryPlanningPass) else None
    return isinstance(suite, MemoryPlanningAlgorithmSuite) and suite.algo_list == [best]
