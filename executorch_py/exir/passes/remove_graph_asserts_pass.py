"""Upstream's path to what is defined in remove_graph_asserts.py."""

from executorch_py.exir.passes.remove_graph_asserts import RemoveGraphAssertsPass
from executorch_py.exir.passes.remove_tensor_metadata_asserts import (
    RemoveNonCoreAtenOpGraphAssertsPass,
)

__all__ = ["RemoveGraphAssertsPass", "RemoveNonCoreAtenOpGraphAssertsPass"]
