"""Upstream's import path of DynamicMemoryPlanningMode; see program/config.py."""

from executorch_py.exir.program.config import DynamicMemoryPlanningMode

__all__ = ["DynamicMemoryPlanningMode"]
