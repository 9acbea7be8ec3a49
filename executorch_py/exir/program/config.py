"""Settings of the exporter's stages, as dataclasses with upstream's names and defaults.

Fields that upstream does not have are marked; their defaults suit files for our runtime. Objects
that are defaults are made per config, so that two configs never share state.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import torch

from executorch_py.exir.passes.lower.memory_planning import MemoryPlanningPass
from executorch_py.exir.passes.lower.sym_shape_eval import ConstraintBasedSymShapeEvalPass
from executorch_py.exir.passes.lower.to_out_var import ToOutVarPass
from executorch_py.exir.settings_check import (
    expect_flags,
    expect_list_of_callables,
    expect_power_of_two,
    names_its_settings,
)

TARGETS = ("executorch_py", "executorch-1.5")
PRECISIONS = ("f32", "bf16")
MATH = ("exact", "fast")


class DynamicMemoryPlanningMode(Enum):
    """Planning of tensors of dynamic size; the runtime supports upper bounds only."""

    UPPER_BOUND = 0
    RUNTIME = 1


@dataclass
class PropagateDeviceConfig:
    """Copies between host and device that may be left out; no effect on CPU-only programs."""

    skip_h2d_for_method_inputs: bool | dict[str, bool] = False
    skip_d2h_for_method_outputs: bool | dict[str, bool] = False


@names_its_settings
@dataclass
class EdgeCompileConfig:
    """Settings of the conversion of a program to the edge dialect."""

    _check_ir_validity: bool = True
    _skip_dim_order: bool = False
    _core_aten_ops_exception_list: list[torch._ops.OpOverload] = field(default_factory=list)
    preserve_ops: list[torch._ops.OpOverload] = field(default_factory=list)

    def __post_init__(self) -> None:
        exceptions: Any = self._core_aten_ops_exception_list
        if exceptions is None:  # as some of upstream's scripts say that there are none
            self._core_aten_ops_exception_list = []
        expect_flags(self)
        kind = "operators such as torch.ops.aten.linear.default"
        for name in ("_core_aten_ops_exception_list", "preserve_ops"):
            expect_list_of_callables(name, getattr(self, name), kind)


@names_its_settings
@dataclass
class ExecutorchBackendConfig:
    """Settings of the lowering of edge programs to a file."""

    passes: list[Any] = field(default_factory=list)
    memory_planning_pass: Any = field(default_factory=MemoryPlanningPass)
    propagate_device_config: PropagateDeviceConfig | dict[str, PropagateDeviceConfig] = field(
        default_factory=PropagateDeviceConfig
    )
    to_out_var_pass: Any = field(default_factory=ToOutVarPass)
    dynamic_memory_planning_mode: DynamicMemoryPlanningMode = DynamicMemoryPlanningMode.UPPER_BOUND
    emit_stacktrace: bool = False
    extract_delegate_segments: bool = True
    segment_alignment: int = 128
    constant_tensor_alignment: int | None = None
    delegate_alignment: int | None = None
    sym_shape_eval_pass: Any = field(default_factory=ConstraintBasedSymShapeEvalPass)
    remove_view_copy: bool = True
    external_constants: bool | Callable[[torch.fx.Node], str | None] = False
    external_mutable_weights: bool = False
    emit_mutable_buffer_names: bool = False
    do_quant_fusion_and_const_prop: bool = False
    run_reinplace_pass: bool = False
    enable_non_cpu_memory_planning: bool = True
    reinplace_extra_ops: frozenset[Any] | None = None
    # Not upstream's. The runtime that the file is for, with its kernels and layout rules.
    target: str = "executorch_py"
    # Not upstream's. Compute at export what depends on constants only; fold batch norms into
    # convolutions; write mutable buffers in place where that is provably the same.
    fold_constants: bool = True
    write_buffers_in_place: bool = True
    # Not upstream's. Make slices, selections and splits along the outermost dimension views of
    # their input instead of copies, wherever planned memory makes that provably the same.
    share_windows: bool = True
    # Not upstream's. Let element-wise results reuse the memory of operands that nothing reads
    # afterwards (with the default planner; `greedy` and others plan as upstream does).
    overwrite_operands: bool = True
    # Not upstream's. Drop calls whose result is, to the last bit, a tensor that exists already.
    remove_redundant: bool = True
    # Not upstream's. Use operators of the library `executorch_py` where they are faster. Off by
    # default, because only the runtime of this project has them.
    own_operators: bool = False
    # Not upstream's. With own_operators: let convolutions work on channels-last images where that
    # is faster; upstream's kernels refuse some of those calls.
    choose_layouts: bool = True
    # Not upstream's. With own_operators: "bf16" rounds the operands of f32 linear layers and
    # convolutions to bfloat16 and adds in f32. Faster, at about three significant digits; weights
    # take half the bytes.
    precision: str = "f32"
    # Not upstream's. With own_operators: "fast" lets 3 x 3 convolutions round their sums in other
    # places (Winograd's method) where that is faster; "exact" keeps every bit.
    math: str = "exact"
    # Not upstream's. With own_operators: store f32 weights in the panels that the kernels read.
    # Nothing is packed in the first run, and processes share the pages of the file. False stores
    # them as the model has them.
    prepack: bool = True

    def __post_init__(self) -> None:
        expect_flags(self)
        expect_power_of_two("segment_alignment", self.segment_alignment)
        for name in ("constant_tensor_alignment", "delegate_alignment"):
            if getattr(self, name) is not None:
                expect_power_of_two(name, getattr(self, name))
        self._check_passes()
        if not (isinstance(self.external_constants, bool) or callable(self.external_constants)):
            raise TypeError(
                "external_constants: expected True, False or a function from a node to the name "
                f"of its data file, got {self.external_constants!r}"
            )
        if self.target not in TARGETS:
            expected = ", ".join(TARGETS)
            raise ValueError(f"target: expected one of {expected}, got {self.target!r}")
        if self.own_operators and self.target != "executorch_py":
            raise ValueError(
                f"own_operators=True: expected target 'executorch_py', got {self.target!r}; leave "
                "one of them at its default"
            )
        self._check_precision()
        self._check_math()
        if self.dynamic_memory_planning_mode is not DynamicMemoryPlanningMode.UPPER_BOUND:
            raise ValueError(
                "dynamic_memory_planning_mode: expected UPPER_BOUND, as no runtime grows memory, "
                f"got {self.dynamic_memory_planning_mode!r}"
            )

    def _check_precision(self) -> None:
        if self.precision not in PRECISIONS:
            expected = ", ".join(map(repr, PRECISIONS))
            raise ValueError(f"precision: expected one of {expected}, got {self.precision!r}")
        if self.precision != "f32" and not self.own_operators:
            raise ValueError(
                f"precision={self.precision!r}: expected own_operators=True, got False; only the "
                "operators of this project compute in it"
            )

    def _check_math(self) -> None:
        if self.math not in MATH:
            expected = ", ".join(map(repr, MATH))
            raise ValueError(f"math: expected one of {expected}, got {self.math!r}")
        if self.math == "fast" and not self.own_operators:
            raise ValueError(
                "math='fast': expected own_operators=True, whose kernels it chooses, got False"
            )

    def _check_passes(self) -> None:
        """Passes are callable; those that may differ by method may be a dict by method."""
        if not (self.passes is None or callable(self.passes)):
            expect_list_of_callables("passes", self.passes, "passes")
        if self.reinplace_extra_ops is not None:
            kind = "operators such as torch.ops.aten.add.Tensor"
            expect_list_of_callables("reinplace_extra_ops", self.reinplace_extra_ops, kind)
        for name in ("memory_planning_pass", "sym_shape_eval_pass", "to_out_var_pass"):
            value = getattr(self, name)
            for one in value.values() if isinstance(value, dict) else [value]:
                if isinstance(one, type) or not (callable(one) or hasattr(one, "run")):
                    raise TypeError(f"{name}: expected a pass, an object to call, got {one!r}")
        settings = self.propagate_device_config
        for each in settings.values() if isinstance(settings, dict) else [settings]:
            if not isinstance(each, PropagateDeviceConfig):
                raise TypeError(
                    f"propagate_device_config: expected PropagateDeviceConfig(…), got {each!r}"
                )
