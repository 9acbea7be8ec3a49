"""Upstream's import path of the helpers for partitioners and backends."""

from executorch_py.exir.backend.debug_map import DelegateMappingBuilder
from executorch_py.exir.backend.graph_checks import is_identical_graph, is_shape_dynamic
from executorch_py.exir.backend.reports import (
    WhyNoPartition,
    WhyNoPartitionReporter,
    format_delegated_graph,
    get_delegated_payload,
    get_delegates,
    get_non_lowered_nodes,
    print_delegated_graph,
)
from executorch_py.exir.backend.tagging import (
    remove_first_quant_and_last_dequant,
    tag_constant_data,
    tag_mutated_buffer,
)

__all__ = [
    "DelegateMappingBuilder",
    "WhyNoPartition",
    "WhyNoPartitionReporter",
    "format_delegated_graph",
    "get_delegated_payload",
    "get_delegates",
    "get_non_lowered_nodes",
    "is_identical_graph",
    "is_shape_dynamic",
    "print_delegated_graph",
    "remove_first_quant_and_last_dequant",
    "tag_constant_data",
    "tag_mutated_buffer",
]
