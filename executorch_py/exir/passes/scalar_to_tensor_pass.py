"""Upstream's path to what is defined in scalar_to_tensor.py."""

from executorch_py.exir.passes.scalar_to_tensor import ScalarToTensorPass

__all__ = ["ScalarToTensorPass"]
