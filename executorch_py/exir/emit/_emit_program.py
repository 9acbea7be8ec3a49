"""Upstream's import path of emission; see emit/program.py."""

from executorch_py.exir.emit.program import EmitterOutput, emit_program

__all__ = ["EmitterOutput", "emit_program"]
