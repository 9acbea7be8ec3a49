"""Upstream's path to the first capture path; see capture/__init__.py."""

from executorch_py.exir.capture import CaptureConfig, capture

__all__ = ["CaptureConfig", "capture"]
