"""The passes of the exporter, by their public names; README.md is the map of the rooms.

Names are looked up on first use, so that importing one pass does not import all.
"""

from __future__ import annotations

import importlib
from typing import Any

from executorch_py._refused_paths import refuse_name

_PACKAGE = "executorch_py.exir.passes"
# Public name -> module of this package.
_HOME = {
    "CSEPass": "simplify.cse",
    "ConstPropPass": "user.upstream_passes",
    "ConstraintBasedSymShapeEvalPass": "lower.sym_shape_eval",
    "DebugHandleGeneratorPass": "lower.debug_handle_generator",
    "DebugPass": "user.debug",
    "DimOrderOpsRevertPass": "to_edge.memory_format_ops",
    "EdgeToBackendOpsPass": "lower.replace_edge_with_backend",
    "ExportPass": "user.export_pass",
    "FoldRedundantDequantizeQuantizePass": "to_edge.remove_noop",
    "HintBasedSymShapeEvalPass": "lower.sym_shape_eval",
    "InitializedMutableBufferPass": "inplace.init_mutable",
    "LegalizePortableDimOrderPass": "user.hooked_passes",
    "MemoryFormatOpsPass": "user.hooked_passes",
    "MemoryPlanningPass": "lower.memory_planning",
    "NormalizeTransposePass": "user.upstream_passes",
    "NormalizeViewCopyBasePass": "inplace.normalize_view_base",
    "OpReplacePass": "to_edge.replace_aten_with_edge",
    "PruneEmptyTensorsPass": "to_edge.prune_empty_tensors",
    "QuantFusionPass": "quantized.quant_fusion",
    "RemoveGraphAssertsPass": "lower.remove_graph_asserts",
    "RemoveMixedTypeOperators": "to_edge.remove_mixed_type_operators",
    "RemoveNonCoreAtenOpGraphAssertsPass": "to_edge.remove_tensor_metadata_asserts",
    "RemoveNoopPass": "to_edge.remove_noop",
    "RemoveToCopyPass": "to_edge.remove_noop",
    "ReplaceSymSizeOpPass": "to_edge.replace_sym_size_ops",
    "ReplaceViewCopyWithViewPass": "inplace.replace_view_copy",
    "ScalarToTensorPass": "user.hooked_passes",
    "SpecPropPass": "lower.spec_prop",
    "SymToTensorPass": "user.hooked_passes",
    "ToDevicePass": "user.upstream_passes",
    "ToOutVarPass": "lower.to_out_var",
    "aten_to_edge": "to_edge.replace_aten_with_edge",
    "checked_pipeline": "runner",
    "dead_code_elimination_pass": "simplify.dead_code",
    "external_constants_pass": "lower.external_constants",
    "insert_write_back_for_buffers_pass": "inplace.insert_write_back",
    "lift_constant_tensor_pass": "to_edge.lift_constants",
    "propagate_dynamic_shape": "shape_passes",
    "remove_unused_parameters_pass": "to_edge.remove_unused_parameters",
    "weights_to_outputs_pass": "lower.weights_to_outputs",
}
# Functions that upstream defines in modules of the same name. Python sets an attribute of the
# package when such a module is first imported, and never again: it is imported and removed here,
# so that the name always is the function.
_MODULES_OF_THE_SAME_NAME = (
    "external_constants_pass",
    "remove_unused_parameters_pass",
    "weights_to_outputs_pass",
)
for _name in _MODULES_OF_THE_SAME_NAME:
    importlib.import_module(f"{_PACKAGE}.{_name}")
    del globals()[_name]

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        refuse_name(__name__, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{_PACKAGE}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
