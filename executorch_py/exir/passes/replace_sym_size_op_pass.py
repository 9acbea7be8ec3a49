"""Upstream's path to what is defined in replace_sym_size_ops.py."""

from executorch_py.exir.passes.replace_sym_size_ops import ReplaceSymSizeOpPass

__all__ = ["ReplaceSymSizeOpPass"]
