"""The user's stack trace of a graph node as the file's frame list."""

from __future__ import annotations

from torch import fx

from executorch_py.exir import schema
from executorch_py.exir.ir.stack_trace import trace_frames


def frames_of(node: fx.Node) -> schema.FrameList:
    """Frames outermost first; empty for a node without a trace."""
    return schema.FrameList([schema.Frame(*frame) for frame in trace_frames(node)])
