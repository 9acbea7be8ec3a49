"""The passes from the edge dialect to a program that can be emitted, as data, in order.

Two lists: steps that need the whole program (signature, constants), then rewrites of its graph. A
step is left out when its condition on the settings does not hold. Memory planning follows, and is
always last.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch.export import ExportedProgram

from executorch_py.exir.ir.tensor_spec import ALIGNMENT
from executorch_py.exir.memory.planning import MemoryPlanningAlgorithmSuite, best
from executorch_py.exir.passes.fuse.conv_layouts import choose_layouts
from executorch_py.exir.passes.fuse.fuse_attention import fuse_attention
from executorch_py.exir.passes.fuse.fuse_batch_norm import fuse_batch_norm
from executorch_py.exir.passes.fuse.fuse_epilogues import fuse_chains
from executorch_py.exir.passes.inplace.concat_in_place import JoinInPlacePass
from executorch_py.exir.passes.inplace.elide_slice_copies import ShareWindowsPass
from executorch_py.exir.passes.inplace.elide_write_back import ElideWriteBackPass
from executorch_py.exir.passes.inplace.init_mutable import skip_large_zero_states
from executorch_py.exir.passes.inplace.insert_write_back import write_back_buffers
from executorch_py.exir.passes.inplace.normalize_view_base import (
    CanonicalizeReshapesPass,
    NormalizeViewCopyBasePass,
)
from executorch_py.exir.passes.inplace.reinplace import (
    DEFAULT_INPLACEABLE_OPS,
    SLICE_SCATTER,
    reinplace_pass,
)
from executorch_py.exir.passes.inplace.replace_view_copy import ReplaceViewCopyWithViewPass
from executorch_py.exir.passes.inplace.restore_mutations import restore_mutations
from executorch_py.exir.passes.inplace.reuse_operand_memory import OverwriteOperandsPass
from executorch_py.exir.passes.inplace.separate_loop_state import SeparateLoopStatePass
from executorch_py.exir.passes.lower.legalize_portable_dim_order import LegalizePortableDimOrderPass
from executorch_py.exir.passes.lower.memory_planning import MemoryPlanningPass
from executorch_py.exir.passes.lower.remove_graph_asserts import RemoveGraphAssertsPass
from executorch_py.exir.passes.lower.replace_edge_with_backend import EdgeToBackendOpsPass
from executorch_py.exir.passes.lower.spec_prop import SpecPropPass
from executorch_py.exir.passes.lower.weights_to_outputs import weights_to_outputs_pass
from executorch_py.exir.passes.quantized.commute_quantize import move_quantized
from executorch_py.exir.passes.quantized.decompose_affine import decompose_affine
from executorch_py.exir.passes.quantized.lower_to_integer_ops import fuse_quantized
from executorch_py.exir.passes.quantized.per_token_qparams import row_scales, scale_rows_of_weights
from executorch_py.exir.passes.quantized.weight_only_quantization import integer_weights
from executorch_py.exir.passes.simplify.algebraic_simplify import remove_redundant
from executorch_py.exir.passes.simplify.bmm_to_mm import share_matrices
from executorch_py.exir.passes.simplify.constant_prop import constant_prop_pass
from executorch_py.exir.passes.simplify.fold_constants import fold_constants
from executorch_py.exir.passes.simplify.hoist_loop_constants import fold_body_constants
from executorch_py.exir.passes.simplify.simplify_softmax_guards import shorten_guards
from executorch_py.exir.passes.to_edge.lift_constants import lift_constant_tensor_pass
from executorch_py.exir.passes.to_edge.steps import ATEN_TO_EDGE

if TYPE_CHECKING:
    from executorch_py.exir.program.config import ExecutorchBackendConfig

Config = Any
Condition = Callable[["ExecutorchBackendConfig"], bool]


@dataclass(frozen=True)
class ProgramStep:
    """A change to a whole program, in place; what it returns is not used."""

    run: Callable[[ExportedProgram, Config], object]
    when: Condition = lambda config: True


@dataclass(frozen=True)
class GraphStep:
    """A pass over a graph module; `make` gets the settings of the method."""

    make: Callable[[Config], Any]
    when: Condition = lambda config: True


def _reinplace(ep: ExportedProgram, config: Config) -> None:
    ops = set(DEFAULT_INPLACEABLE_OPS) | set(config.reinplace_extra_ops or ())
    if config.write_buffers_in_place:
        ops.add(SLICE_SCATTER)
    planner = config.memory_planning_pass
    planned = config.write_buffers_in_place and _plans(config, "mutable_buffers")
    alignment = max(getattr(planner, "alignment", ALIGNMENT), ALIGNMENT)
    reinplace_pass(ep, ops, window_alignment=alignment if planned else None)


def _rewrite_attention(ep: ExportedProgram, config: Config) -> None:
    """Whole where that is asked for; then the guards of what is left, and the constants made."""
    changed = fuse_attention(ep) if config.own_operators else False
    if config.remove_redundant:
        changed |= shorten_guards(ep)
    if changed and config.fold_constants:
        fold_constants(ep)


def _decompose_affine(ep: ExportedProgram, config: Config) -> None:
    """Quantization that nothing computes whole, in operators of the edge dialect."""
    if decompose_affine(ep):
        for make in ATEN_TO_EDGE:
            make().apply(ep.graph_module)
        lift_constant_tensor_pass(ep)


def _plans(config: Config, what: str) -> bool:
    """Whether the planner is known to plan inputs, outputs or mutable buffers."""
    planner = config.memory_planning_pass
    return isinstance(planner, MemoryPlanningPass) and bool(getattr(planner, f"alloc_{what}"))


def _plans_as_it_likes(config: Config) -> bool:
    """Whether the planner is the default one, of which no particular plan is expected."""
    planner = config.memory_planning_pass
    suite = planner.memory_planning_algo if isinstance(planner, MemoryPlanningPass) else None
    return isinstance(suite, MemoryPlanningAlgorithmSuite) and suite.algo_list == [best]


def _replace_views(config: Config) -> ReplaceViewCopyWithViewPass:
    return ReplaceViewCopyWithViewPass(_plans(config, "graph_output"))


def _share_windows(config: Config) -> ShareWindowsPass:
    return ShareWindowsPass(
        _plans(config, "graph_input"),
        _plans(config, "graph_output"),
        _plans(config, "mutable_buffers"),
        getattr(config.memory_planning_pass, "alignment", ALIGNMENT),
    )


def _join_in_place(config: Config) -> JoinInPlacePass:
    alignment = getattr(config.memory_planning_pass, "alignment", ALIGNMENT)
    return JoinInPlacePass(_plans(config, "graph_output"), alignment)


PROGRAM_STEPS: tuple[ProgramStep, ...] = (
    # Before folding, which would otherwise compute with the weights that a norm scales.
    ProgramStep(lambda ep, _: fuse_batch_norm(ep), lambda c: c.fold_constants),
    # Before folding, which would store a matrix as often as it is used.
    ProgramStep(lambda ep, _: share_matrices(ep), lambda c: c.remove_redundant),
    # Before folding, which sees the top graph only.
    ProgramStep(lambda ep, _: fold_body_constants(ep), lambda c: c.fold_constants),
    ProgramStep(lambda ep, _: fold_constants(ep), lambda c: c.fold_constants),
    ProgramStep(lambda ep, _: constant_prop_pass(ep), lambda c: c.do_quant_fusion_and_const_prop),
    # After folding, which makes constants of the zeros and ones that it looks for.
    ProgramStep(lambda ep, _: remove_redundant(ep), lambda c: c.remove_redundant),
    ProgramStep(lambda ep, _: row_scales(ep)),
    ProgramStep(lambda ep, _: scale_rows_of_weights(ep), lambda c: c.own_operators),
    # After the rules above, which drop what hides the pattern and make constants of masks.
    ProgramStep(_rewrite_attention, lambda c: c.own_operators or c.remove_redundant),
    # After attention, whose views are of floats; before chains, which would take activations.
    ProgramStep(lambda ep, _: move_quantized(ep), lambda c: c.own_operators),
    ProgramStep(lambda ep, _: fuse_quantized(ep), lambda c: c.own_operators),
    # What is left then; after all folding, which would widen the weights in the file.
    ProgramStep(lambda ep, _: integer_weights(ep)),
    # What neither of those took; before chains, which fuse its arithmetic.
    ProgramStep(_decompose_affine),
    # Before chains, whose tensors must lie alike.
    ProgramStep(lambda ep, _: choose_layouts(ep), lambda c: c.choose_layouts and c.own_operators),
    # On what is left then, and while nothing writes to what a chain reads.
    ProgramStep(lambda ep, _: fuse_chains(ep), lambda c: c.own_operators),
    ProgramStep(lambda ep, _: restore_mutations(ep)),
    # In-place operators first, so that write-back sees which buffers need no copy.
    ProgramStep(
        _reinplace,
        lambda c: (
            c.write_buffers_in_place or c.run_reinplace_pass or c.reinplace_extra_ops is not None
        ),
    ),
    ProgramStep(lambda ep, _: weights_to_outputs_pass(ep)),
    ProgramStep(lambda ep, _: write_back_buffers(ep)),
    ProgramStep(lambda ep, _: skip_large_zero_states(ep)),
)

GRAPH_STEPS: tuple[GraphStep, ...] = (
    GraphStep(
        lambda c: LegalizePortableDimOrderPass(),
        lambda c: c.target != "executorch_py",
    ),
    GraphStep(lambda c: SeparateLoopStatePass()),
    # Assertions go before specs are made: they have no value, and hold symbols without bounds.
    GraphStep(lambda c: RemoveGraphAssertsPass()),
    GraphStep(lambda c: SpecPropPass()),
    GraphStep(lambda c: EdgeToBackendOpsPass()),
    # Views: one name, then one base, then no copy. Constants must be known to be constant by then.
    GraphStep(lambda c: CanonicalizeReshapesPass(), lambda c: c.remove_view_copy),
    GraphStep(lambda c: NormalizeViewCopyBasePass(), lambda c: c.remove_view_copy),
    GraphStep(_replace_views, lambda c: c.remove_view_copy),
    # After whole views, so that a part of a view is a part of what the view shows.
    GraphStep(_share_windows, lambda c: c.remove_view_copy and c.share_windows),
    # After windows, which would otherwise look for bases that moved.
    GraphStep(_join_in_place, lambda c: c.remove_view_copy and c.share_windows),
    # Out variants allocate at upper bounds.
    GraphStep(lambda c: c.sym_shape_eval_pass),
    GraphStep(lambda c: c.to_out_var_pass),
    GraphStep(lambda c: ElideWriteBackPass(), lambda c: c.write_buffers_in_place),
    # Last: it asks which storages are alive together, and only planning may follow.
    GraphStep(
        lambda c: OverwriteOperandsPass(_plans(c, "graph_output")),
        lambda c: c.overwrite_operands and _plans_as_it_likes(c),
    ),
)
