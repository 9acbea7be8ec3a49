"""The user's stack trace of a graph node as the file's frame list."""

from __future__ import annotations

import re

from torch import fx

from executorch_py.exir import schema

_FRAME = re.compile(r'^\s*File "(?P<file>.*)", line (?P<line>\d+), in (?P<name>.*)$')


def frames_of(node: fx.Node) -> schema.FrameList:
    """Frames outermost first; empty for a node without a trace."""
    lines = str(node.meta.get("stack_trace") or "").splitlines()
    frames = []
    for i, line in enumerate(lines):
        match = _FRAME.match(line)
        if match is None:
            continue
        following = lines[i + 1] if i + 1 < len(lines) else ""
        context = "" if _FRAME.match(following) else following.strip()
        frames.append(schema.Frame(match["file"], int(match["line"]), match["name"], context))
    return schema.FrameList(frames)
