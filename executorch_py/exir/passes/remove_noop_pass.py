"""Upstream's path to what is defined in remove_noop.py."""

from executorch_py.exir.passes.remove_noop import RemoveNoopPass, RemoveToCopyPass

__all__ = ["RemoveNoopPass", "RemoveToCopyPass"]
