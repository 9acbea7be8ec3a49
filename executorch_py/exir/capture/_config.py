"""Upstream's path to the configurations; see program/config.py."""

from executorch_py.exir.capture import CaptureConfig
from executorch_py.exir.program.config import EdgeCompileConfig, ExecutorchBackendConfig

__all__ = ["CaptureConfig", "EdgeCompileConfig", "ExecutorchBackendConfig"]
