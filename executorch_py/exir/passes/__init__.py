"""The passes of the exporter, by their public names.

Each pass is a module; the orders in which they run are edge_pipeline.py and pipeline.py. Names are
resolved on first use, so that importing one pass does not import all.
"""

from __future__ import annotations

import importlib
from typing import Any

_PACKAGE = "executorch_py.exir.passes"
# Public name -> module of this package.
_HOME = {
    "DebugHandleGeneratorPass": "debug_handle_generator",
    "DimOrderOpsRevertPass": "memory_format_ops",
    "EdgeToBackendOpsPass": "edge_to_backend_ops",
    "ExportPass": "base",
    "MemoryFormatOpsPass": "memory_format_ops",
    "OpReplacePass": "replace_aten_with_edge",
    "PruneEmptyTensorsPass": "prune_empty_tensors",
    "RemoveGraphAssertsPass": "remove_graph_asserts",
    "RemoveMixedTypeOperators": "remove_mixed_type_operators",
    "RemoveNonCoreAtenOpGraphAssertsPass": "remove_tensor_metadata_asserts",
    "RemoveNoopPass": "remove_noop",
    "RemoveToCopyPass": "remove_noop",
    "ReplaceSymSizeOpPass": "replace_sym_size_ops",
    "ScalarToTensorPass": "scalar_to_tensor",
    "SpecPropPass": "spec_prop",
    "SymToTensorPass": "sym_to_tensor",
    "ToOutVarPass": "to_out_var",
    "dead_code_elimination_pass": "dead_code",
    "remove_unused_parameters_pass": "remove_unused_parameters",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{_PACKAGE}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
