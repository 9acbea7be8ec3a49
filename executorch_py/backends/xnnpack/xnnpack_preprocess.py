"""Upstream's path to the delegate's part ahead of time; see preprocess.py."""

from executorch_py.backends.xnnpack.preprocess import XnnpackBackend

__all__ = ["XnnpackBackend"]
