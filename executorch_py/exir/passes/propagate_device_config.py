"""Upstream's import path of PropagateDeviceConfig; see program/config.py."""

from executorch_py.exir.program.config import PropagateDeviceConfig

__all__ = ["PropagateDeviceConfig"]
