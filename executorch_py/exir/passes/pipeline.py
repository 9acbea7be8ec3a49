"""The passes from the edge dialect to a program ready for memory planning, in order, with reasons.

Passes of the user come before, memory planning comes after and is always last. `c` is the
ExecutorchBackendConfig of the method.
"""

from __future__ import annotations

from typing import Any

from executorch_py.exir.ir.tensor_spec import ALIGNMENT
from executorch_py.exir.passes.base import Contract, Fact, FxPass, IfChanged, Pass, facts
from executorch_py.exir.passes.fuse.bf16_products import Bf16Products
from executorch_py.exir.passes.fuse.conv_layouts import ConvLayouts
from executorch_py.exir.passes.fuse.fast_math import FastMath
from executorch_py.exir.passes.fuse.fuse_attention import FuseAttention
from executorch_py.exir.passes.fuse.fuse_batch_norm import FuseBatchNorm
from executorch_py.exir.passes.fuse.fuse_epilogues import FuseEpilogues
from executorch_py.exir.passes.fuse.fuse_rms_norm import FuseRmsNorm
from executorch_py.exir.passes.fuse.prepack_weights import PrepackWeights
from executorch_py.exir.passes.inplace.concat_in_place import ConcatInPlace
from executorch_py.exir.passes.inplace.elide_slice_copies import ElideSliceCopies
from executorch_py.exir.passes.inplace.elide_write_back import ElideWriteBack
from executorch_py.exir.passes.inplace.functional_forms import FunctionalForms
from executorch_py.exir.passes.inplace.init_mutable import SkipLargeZeroStates
from executorch_py.exir.passes.inplace.insert_write_back import InsertWriteBack
from executorch_py.exir.passes.inplace.normalize_view_base import (
    CanonicalizeReshapes,
    NormalizeViewCopyBasePass,
)
from executorch_py.exir.passes.inplace.reinplace import (
    DEFAULT_INPLACEABLE_OPS,
    SLICE_SCATTER,
    Reinplace,
)
from executorch_py.exir.passes.inplace.replace_view_copy import ReplaceViewCopyWithViewPass
from executorch_py.exir.passes.inplace.restore_mutations import RestoreMutations
from executorch_py.exir.passes.inplace.reuse_operand_memory import ReuseOperandMemory
from executorch_py.exir.passes.inplace.separate_loop_state import SeparateLoopState
from executorch_py.exir.passes.lower.external_constants import (
    KeepExternalConstants,
    TagExternalConstants,
    TagMutableWeights,
)
from executorch_py.exir.passes.lower.legalize_portable_dim_order import LegalizePortableDimOrderPass
from executorch_py.exir.passes.lower.name_outputs import NameOutputs
from executorch_py.exir.passes.lower.remove_graph_asserts import RemoveGraphAssertsPass
from executorch_py.exir.passes.lower.replace_edge_with_backend import EdgeToBackendOpsPass
from executorch_py.exir.passes.lower.spec_prop import PropagateSpecs
from executorch_py.exir.passes.lower.weights_to_outputs import WeightsToOutputs
from executorch_py.exir.passes.quantized.commute_quantize import CommuteQuantize
from executorch_py.exir.passes.quantized.decompose_affine import DecomposeAffine
from executorch_py.exir.passes.quantized.join_products import JoinProducts
from executorch_py.exir.passes.quantized.lower_to_integer_ops import LowerToIntegerOps
from executorch_py.exir.passes.quantized.per_token_qparams import PerChannelWeights, PerTokenQparams
from executorch_py.exir.passes.quantized.weight_only_quantization import WeightOnlyQuantization
from executorch_py.exir.passes.runner import Settings, Step, wanted_passes
from executorch_py.exir.passes.settings import (
    planner_alignment,
    plans_buffers,
    plans_inputs,
    plans_outputs,
    uses_default_planner,
)
from executorch_py.exir.passes.simplify.algebraic_simplify import AlgebraicSimplify
from executorch_py.exir.passes.simplify.bmm_to_mm import BmmToMm
from executorch_py.exir.passes.simplify.fold_constants import FoldConstants
from executorch_py.exir.passes.simplify.hoist_loop_constants import HoistLoopConstants
from executorch_py.exir.passes.simplify.simplify_softmax_guards import SimplifySoftmaxGuards
from executorch_py.exir.passes.to_edge.lift_constants import LiftConstants
from executorch_py.exir.passes.to_edge.steps import ATEN_TO_EDGE

# Facts of an edge program after the user's passes, which may have inserted in-place operators.
GIVEN = facts()


def _choose_file(c: Settings) -> Any:
    """The user's function that names the data file of a constant; None for one file of all."""
    return c.external_constants if callable(c.external_constants) else None


def _attention(c: Settings) -> Pass:
    """Fuse attention if enabled, simplify the guards that are left, then fold new constants."""
    first: list[Pass] = [FuseAttention()] if c.own_operators else []
    first += [SimplifySoftmaxGuards()] if c.remove_redundant else []
    return IfChanged(*first, then=(FoldConstants(),) if c.fold_constants else ())


def _reinplace(c: Settings) -> Pass:
    ops = set(DEFAULT_INPLACEABLE_OPS) | set(c.reinplace_extra_ops or ())
    if c.write_buffers_in_place:
        ops.add(SLICE_SCATTER)
    may_view = c.write_buffers_in_place and plans_buffers(c)
    alignment = max(planner_alignment(c), ALIGNMENT)
    may_return = c.run_reinplace_pass and plans_buffers(c) and plans_outputs(c)
    return Reinplace(
        ops, view_alignment=alignment if may_view else None, may_return_buffers=may_return
    )


def _elide_slice_copies(c: Settings) -> Pass:
    alignment = planner_alignment(c)
    return ElideSliceCopies(plans_inputs(c), plans_outputs(c), plans_buffers(c), alignment)


def _upper_bounds(c: Settings) -> Pass:
    contract = Contract(requires=facts(Fact.SPECS), ensures=facts(Fact.UPPER_BOUNDS))
    return FxPass(c.sym_shape_eval_pass, contract)


def _out_variants(c: Settings) -> Pass:
    may_leave_some = getattr(c.to_out_var_pass, "ignore_to_out_var_failure", False)
    ensures = facts() if may_leave_some else facts(Fact.OUT_VARIANTS)
    requires = facts(Fact.SPECS, Fact.RUNTIME_ARITHMETIC, Fact.UPPER_BOUNDS)
    return FxPass(c.to_out_var_pass, Contract(requires, ensures))


TO_EXECUTORCH: tuple[Step, ...] = (
    # First, as the passes below know functional operators.
    Step(FunctionalForms),
    # Before folding, as the file of a constant decides whether it may be folded.
    Step(lambda c: KeepExternalConstants(_choose_file(c)), lambda c: bool(c.external_constants)),
    # Before folding, which would otherwise compute with the weights that a norm scales.
    Step(FuseBatchNorm, lambda c: c.fold_constants),
    # Before folding, which would store a matrix as often as it is used.
    Step(BmmToMm, lambda c: c.remove_redundant),
    # Before folding, which sees the top graph only.
    Step(HoistLoopConstants, lambda c: c.fold_constants),
    # The same pass by our setting and by upstream's, which are independent.
    Step(FoldConstants, lambda c: c.fold_constants),
    Step(FoldConstants, lambda c: c.do_quant_fusion_and_const_prop),
    # After folding, which makes constants of the zeros and ones that it looks for.
    Step(AlgebraicSimplify, lambda c: c.remove_redundant),
    # After folding; before the passes that know the operators which these choose.
    Step(PerTokenQparams),
    Step(PerChannelWeights, lambda c: c.own_operators),
    # After the rules above, which drop calls that hide the pattern, and fold masks to constants.
    Step(_attention, lambda c: c.own_operators or c.remove_redundant),
    # Before epilogues, which would take some of its calls.
    Step(FuseRmsNorm, lambda c: c.own_operators),
    # After attention, whose views are of floats; before epilogues, which would take activations.
    Step(CommuteQuantize, lambda c: c.own_operators),
    Step(LowerToIntegerOps, lambda c: c.own_operators),
    # After all folding, which would dequantize the weights in the file.
    Step(WeightOnlyQuantization),
    # After all passes that know these operators; before epilogues, which fuse its arithmetic.
    Step(lambda c: IfChanged(DecomposeAffine(), then=_to_edge(c))),
    # Before epilogues, whose tensors must have one layout.
    Step(ConvLayouts, lambda c: c.choose_layouts and c.own_operators),
    # After the passes that match single operators; before writes to tensors that epilogues read.
    Step(FuseEpilogues, lambda c: c.own_operators),
    # After epilogues, whose steps it merges with two products.
    Step(JoinProducts, lambda c: c.own_operators),
    # After layouts and epilogues, which know operators of f32.
    Step(Bf16Products, lambda c: c.precision == "bf16"),
    # After epilogues, which the convolutions that it replaces have then.
    Step(FastMath, lambda c: c.own_operators and c.math == "fast"),
    # After all passes that know operators on plain weights.
    Step(PrepackWeights, lambda c: c.own_operators and c.prepack),
    # From here on operators write to their operands; rules for functional graphs end above.
    Step(RestoreMutations),
    # In-place operators before write-back, which then sees the buffers that need no copy.
    Step(_reinplace, lambda c: c.write_buffers_in_place or _asks_in_place(c)),
    # For training programs: outputs are complete before write-back replaces some of them.
    Step(WeightsToOutputs),
    # After in-place operators; from here on the graph itself does what the signature describes.
    Step(InsertWriteBack),
    # Marks buffers for emission; after all passes that add or drop constants.
    Step(SkipLargeZeroStates),
    # Before specs, which record the layouts that it inserts.
    Step(LegalizePortableDimOrderPass, lambda c: c.target != "executorch_py"),
    # Before specs, by which a loop and its body share memory.
    Step(SeparateLoopState),
    # Before specs: assertions have no value, and hold symbols without bounds.
    Step(RemoveGraphAssertsPass),
    # All passes below read or change specs; values no longer change.
    Step(PropagateSpecs),
    # After specs, which the operators on sizes that it inserts inherit.
    Step(EdgeToBackendOpsPass),
    # Views: one operator, then one base, then no copy; specs say which bases are constants.
    Step(CanonicalizeReshapes, lambda c: c.remove_view_copy),
    Step(NormalizeViewCopyBasePass, lambda c: c.remove_view_copy),
    Step(
        lambda c: ReplaceViewCopyWithViewPass(plans_outputs(c)),
        lambda c: c.remove_view_copy,
    ),
    # After whole views, so that a part of a view is a part of what the view shows.
    Step(_elide_slice_copies, lambda c: c.remove_view_copy and c.share_windows),
    # After slices, which would otherwise look for bases that moved.
    Step(
        lambda c: ConcatInPlace(plans_outputs(c), planner_alignment(c)),
        lambda c: c.remove_view_copy and c.share_windows,
    ),
    # Before out variants, which allocate at upper bounds.
    Step(_upper_bounds),
    # After views, which need no memory and therefore no out variant.
    Step(_out_variants),
    # After out variants, whose out argument it replaces by the buffer.
    Step(ElideWriteBack, lambda c: c.write_buffers_in_place),
    # Last of those that change specs, as it compares the lifetimes of storages.
    Step(
        lambda c: ReuseOperandMemory(plans_outputs(c)),
        lambda c: c.overwrite_operands and uses_default_planner(c),
    ),
    # Tags are set at the end once more: passes made constants, and nodes that produce outputs.
    Step(lambda c: TagExternalConstants(_choose_file(c)), lambda c: bool(c.external_constants)),
    Step(TagMutableWeights, lambda c: c.external_mutable_weights),
    Step(NameOutputs),
)


def _to_edge(c: Settings) -> tuple[Pass, ...]:
    """Passes that bring torch operators of a later stage to the edge dialect."""
    return (*wanted_passes(ATEN_TO_EDGE, c), LiftConstants())


def _asks_in_place(c: Settings) -> bool:
    return c.run_reinplace_pass or c.reinplace_extra_ops is not None
