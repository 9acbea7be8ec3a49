"""Upstream's name of remove_unused_parameters.py."""

from executorch_py.exir.passes.remove_unused_parameters import remove_unused_parameters_pass

__all__ = ["remove_unused_parameters_pass"]
