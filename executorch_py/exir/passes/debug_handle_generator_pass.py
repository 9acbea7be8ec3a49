"""Upstream's path to what is defined in debug_handle_generator.py."""

from executorch_py.exir.passes.debug_handle_generator import (
    DebugHandleGeneratorPass,
    generate_missing_debug_handles,
)

__all__ = ["DebugHandleGeneratorPass", "generate_missing_debug_handles"]
