"""Stack traces of graph nodes, which torch.export notes: frames, and their statements."""

from __future__ import annotations

import ast
import functools
import linecache
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import fx

__all__ = ["TraceFrame", "assigned_variable", "is_users", "trace_frames"]

_TORCH = str(Path(torch.__file__).parent) + os.sep
_FRAME = re.compile(r'\s*File "(?P<file>.*)", line (?P<line>\d+), in (?P<function>.*)$')


class TraceFrame(NamedTuple):
    """One frame of a trace; `code` is its line of source, or empty."""

    file: str
    line: int
    function: str
    code: str

    @property
    def where(self) -> str:
        """The frame without its code, as Python prints it."""
        return f'File "{self.file}", line {self.line}, in {self.function}'


def trace_frames(node: fx.Node) -> list[TraceFrame]:
    """Frames of a node's trace, outermost first; empty for a node without one."""
    lines = str(node.meta.get("stack_trace") or "").splitlines()
    found = []
    for line, following in zip(lines, [*lines[1:], ""], strict=False):
        match = _FRAME.match(line)
        if match is not None:
            code = "" if _FRAME.match(following) else following.strip()
            found.append(TraceFrame(match["file"], int(match["line"]), match["function"], code))
    return found


def is_users(frame: TraceFrame) -> bool:
    """Whether a frame lies in a file outside torch."""
    return not frame.file.startswith((_TORCH, "<"))


def assigned_variable(frame: TraceFrame) -> str | None:
    """The variable that the statement of a frame assigns, on however many lines.

    Without the source file the frame's line has to be the whole statement; one that ends in a
    comma is an argument.
    """
    lines = linecache.getlines(frame.file)
    if 0 < frame.line <= len(lines) and lines[frame.line - 1].strip() == frame.code:
        return _variables("".join(lines)).get(frame.line)
    return None if frame.code.endswith(",") else _variables(frame.code).get(1)


@functools.lru_cache(maxsize=16)
def _variables(source: str) -> dict[int, str]:
    """The variable that is assigned on each line of a source; the innermost statement counts."""
    try:
        body: Sequence[ast.AST] = ast.parse(source).body
    except (SyntaxError, ValueError):
        return {}
    found: dict[int, str] = {}
    # Outer statements come before inner ones, which overwrite the lines they cover.
    for statement in (node for top in body for node in ast.walk(top)):
        if not isinstance(statement, ast.stmt):
            continue
        targets: Sequence[ast.AST] = ()
        if isinstance(statement, ast.Assign):
            targets = statement.targets
        elif isinstance(statement, ast.AnnAssign):
            targets = [statement.target]
        name = targets[0].id if targets and isinstance(targets[0], ast.Name) else None
        for line in range(statement.lineno, (statement.end_lineno or statement.lineno) + 1):
            found.pop(line, None)
            if name is not None:
                found[line] = name
    return found
