"""The passes of the exporter, by their public names.

Each pass is a module; the orders in which they run are edge_pipeline.py and executorch_pipeline.py.
Names are resolved on first use, so that importing one pass does not import all.
"""

from __future__ import annotations

import importlib
import sys
import types
from typing import Any

_PACKAGE = "executorch_py.exir.passes"
# Public name -> module of this package.
_HOME = {
    "CSEPass": "cse_pass",
    "ConstraintBasedSymShapeEvalPass": "sym_shape_eval_pass",
    "DebugHandleGeneratorPass": "debug_handle_generator",
    "DebugPass": "debug_pass",
    "DimOrderOpsRevertPass": "memory_format_ops",
    "EdgeToBackendOpsPass": "replace_edge_with_backend_pass",
    "ExportPass": "base",
    "FoldRedundantDequantizeQuantizePass": "remove_noop",
    "HintBasedSymShapeEvalPass": "sym_shape_eval_pass",
    "InitializedMutableBufferPass": "init_mutable_pass",
    "LegalizePortableDimOrderPass": "legalize_portable_dim_order_pass",
    "MemoryFormatOpsPass": "memory_format_ops",
    "MemoryPlanningPass": "memory_planning_pass",
    "NormalizeViewCopyBasePass": "normalize_view_copy_base_pass",
    "OpReplacePass": "replace_aten_with_edge",
    "PruneEmptyTensorsPass": "prune_empty_tensors",
    "RemoveGraphAssertsPass": "remove_graph_asserts",
    "RemoveMixedTypeOperators": "remove_mixed_type_operators",
    "RemoveNonCoreAtenOpGraphAssertsPass": "remove_tensor_metadata_asserts",
    "RemoveNoopPass": "remove_noop",
    "RemoveToCopyPass": "remove_noop",
    "ReplaceSymSizeOpPass": "replace_sym_size_ops",
    "ReplaceViewCopyWithViewPass": "replace_view_copy_with_view_pass",
    "ScalarToTensorPass": "scalar_to_tensor",
    "SpecPropPass": "spec_prop_pass",
    "SymToTensorPass": "sym_to_tensor",
    "ToOutVarPass": "to_out_var",
    "aten_to_edge": "replace_aten_with_edge",
    "dead_code_elimination_pass": "dead_code",
    "external_constants_pass": "external_constants_pass",
    "insert_write_back_for_buffers_pass": "insert_write_back_for_buffers_pass",
    "lift_constant_tensor_pass": "lift_constants",
    "remove_unused_parameters_pass": "remove_unused_parameters",
    "weights_to_outputs_pass": "weights_to_outputs_pass",
}

__all__ = sorted(_HOME)


class _Package(types.ModuleType):
    """Lets `passes.some_pass` be the function where the module that defines it has its name."""

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, types.ModuleType) and name in _HOME:
            value = getattr(value, name)
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{_PACKAGE}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
