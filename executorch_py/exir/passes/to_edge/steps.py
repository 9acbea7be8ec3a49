"""The passes from the decomposed ATen graph to the edge dialect, in order, with reasons."""

from __future__ import annotations

from executorch_py.exir.passes.base import Fact, facts
from executorch_py.exir.passes.lower.debug_handle_generator import DebugHandleGeneratorPass
from executorch_py.exir.passes.runner import Step
from executorch_py.exir.passes.simplify.dead_code import EliminateDeadCode
from executorch_py.exir.passes.to_edge.convert_constant_dim_order import ConvertConstantDimOrder
from executorch_py.exir.passes.to_edge.lift_constants import LiftConstants
from executorch_py.exir.passes.to_edge.memory_format_ops import MemoryFormatOpsPass
from executorch_py.exir.passes.to_edge.names import NameSignature, RenameBuiltins
from executorch_py.exir.passes.to_edge.output_values import RecordOutputValues
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
from executorch_py.exir.passes.to_edge.remove_unused_parameters import RemoveUnusedParameters
from executorch_py.exir.passes.to_edge.replace_aten_with_edge import OpReplacePass
from executorch_py.exir.passes.to_edge.replace_sym_size_ops import ReplaceSymSizeOpPass
from executorch_py.exir.passes.to_edge.replace_views import ReplaceViewsWithCopiesPass
from executorch_py.exir.passes.to_edge.scalar_to_tensor import ScalarToTensorPass
from executorch_py.exir.passes.to_edge.sym_to_tensor import SymToTensorPass

# Facts of a program that was decomposed.
DECOMPOSED = facts(Fact.ATEN, Fact.FUNCTIONAL)

# Rewrites of torch operators. They leave edge operators alone, so that passes of later stages may
# insert torch operators and convert them with these.
ATEN_TO_EDGE: tuple[Step, ...] = (
    Step(RemoveNonCoreAtenOpGraphAssertsPass),
    Step(ReplaceViewsWithCopiesPass),
    Step(ReplaceSymSizeOpPass),
    # Tensor slots first hold tensors, then tensors of one dtype.
    Step(ScalarToTensorPass),
    Step(SymToTensorPass),
    # Views are copies by now, so that a slice of everything is recognised.
    Step(RemoveNoopPass),
    Step(PruneEmptyTensorsPass),
    Step(RemoveToCopyPass),
    Step(FoldRedundantDequantizeQuantizePass),
    Step(RemoveMixedTypeOperators),
    # Nothing after this line may look for torch operators.
    Step(OpReplacePass),
)

TO_EDGE: tuple[Step, ...] = (
    # First, so that other passes do no work on unused parameters.
    Step(RemoveUnusedParameters),
    Step(RenameBuiltins),
    *ATEN_TO_EDGE,
    Step(MemoryFormatOpsPass, lambda c: not c._skip_dim_order),
    # Nodes have their final names; lifting inserts placeholders by the signature.
    Step(NameSignature),
    Step(LiftConstants),
    Step(ConvertConstantDimOrder),
    # After all that leaves calls unused, and before nodes are numbered.
    Step(EliminateDeadCode),
    Step(RecordOutputValues),
    Step(DebugHandleGeneratorPass),
)
