"""Upstream's second path to the summaries of delegation; see exir/inspect.py."""

from executorch_py.exir.inspect import (
    DelegationBreakdown,
    DelegationInfo,
    get_delegation_info,
    print_delegation_info,
)

__all__ = [
    "DelegationBreakdown",
    "DelegationInfo",
    "get_delegation_info",
    "print_delegation_info",
]
