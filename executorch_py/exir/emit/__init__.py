"""Emission: graphs after memory planning become the tables of the program format."""

from executorch_py.exir.emit.emitter_output import EmitterOutput, emit_program

__all__ = ["EmitterOutput", "emit_program"]
