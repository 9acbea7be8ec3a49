"""Upstream's path to what is defined in sym_to_tensor.py."""

from executorch_py.exir.passes.sym_to_tensor import SymToTensorPass

__all__ = ["SymToTensorPass"]
