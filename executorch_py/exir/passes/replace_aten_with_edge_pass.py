"""Upstream's path to what is defined in replace_aten_with_edge.py."""

from executorch_py.exir.passes.replace_aten_with_edge import (
    OpReplacePass,
    aten_to_edge,
    should_lower_to_edge,
)

__all__ = ["OpReplacePass", "aten_to_edge", "should_lower_to_edge"]
