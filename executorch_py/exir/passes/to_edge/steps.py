"""The passes from the decomposed ATen graph to the edge dialect, as data, in order.

Each entry names a rewrite; comments say why it stands where it stands.
"""

from __future__ import annotations

from executorch_py.exir.passes.base import GraphRewrite
from executorch_py.exir.passes.to_edge.memory_format_ops import MemoryFormatOpsPass
from executorch_py.exir.passes.to_edge.prune_empty_tensors import PruneEmptyTensorsPass
from executorch_py.exir.passes.to_edge.remove_mixed_type_operators import RemoveMixedTypeOperators
from executorch_py.exir.passes.to_edge.remove_noop import (
    FoldRedundantDequantizeQuantizePass,
    RemoveNoopPass,
    RemoveToCopyPass,
)
from executorch_py.exir.passes.to_edge.remove_tensor_metadata_asserts import (
    RemoveNonCoreAtenOpGraphAssertsPass,
)
from executorch_py.exir.passes.to_edge.replace_aten_with_edge import OpReplacePass
from executorch_py.exir.passes.to_edge.replace_sym_size_ops import ReplaceSymSizeOpPass
from executorch_py.exir.passes.to_edge.replace_views import ReplaceViewsWithCopiesPass
from executorch_py.exir.passes.to_edge.scalar_to_tensor import ScalarToTensorPass
from executorch_py.exir.passes.to_edge.sym_to_tensor import SymToTensorPass

ATEN_TO_EDGE: tuple[type[GraphRewrite], ...] = (
    RemoveNonCoreAtenOpGraphAssertsPass,
    ReplaceViewsWithCopiesPass,
    ReplaceSymSizeOpPass,
    # Tensor slots first hold tensors, then tensors of one dtype.
    ScalarToTensorPass,
    SymToTensorPass,
    # Views are copies by now, so that a slice of everything is recognised.
    RemoveNoopPass,
    PruneEmptyTensorsPass,
    RemoveToCopyPass,
    FoldRedundantDequantizeQuantizePass,
    RemoveMixedTypeOperators,
    # Nothing after this line may look for torch operators.
    OpReplacePass,
)

# Only in dim-order mode.
DIM_ORDER: tuple[type[GraphRewrite], ...] = (MemoryFormatOpsPass,)
