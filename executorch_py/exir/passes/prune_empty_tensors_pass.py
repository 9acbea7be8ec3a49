"""Upstream's path to what is defined in prune_empty_tensors.py."""

from executorch_py.exir.passes.prune_empty_tensors import PruneEmptyTensorsPass

__all__ = ["PruneEmptyTensorsPass"]
