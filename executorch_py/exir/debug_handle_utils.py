"""Upstream's path to the facts about debug handles; see passes/debug_handle_generator.py."""

from executorch_py.exir.passes.debug_handle_generator import (
    DEBUG_HANDLE_KEY,
    FROM_NODE_KEY,
    UNSET_DEBUG_HANDLE,
    get_greatest_ancestor_node_identifier,
)

__all__ = [
    "DEBUG_HANDLE_KEY",
    "FROM_NODE_KEY",
    "UNSET_DEBUG_HANDLE",
    "get_greatest_ancestor_node_identifier",
]
