"""Both pipelines as data: every step is a pass with a contract that earlier passes meet."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from executorch_py.exir import EdgeCompileConfig, ExecutorchBackendConfig, edge_to_executorch_passes
from executorch_py.exir.passes import HintBasedSymShapeEvalPass, SpecPropPass
from executorch_py.exir.passes.base import Facts, FxPass, GraphPass, IfChanged, Pass
from executorch_py.exir.passes.pipeline import GIVEN, TO_EXECUTORCH
from executorch_py.exir.passes.runner import wanted_passes
from executorch_py.exir.passes.to_edge.steps import DECOMPOSED, TO_EDGE

SWITCHES = (
    "fold_constants",
    "own_operators",
    "remove_redundant",
    "remove_view_copy",
    "share_windows",
    "write_buffers_in_place",
)


def backend_settings() -> Iterator[ExecutorchBackendConfig]:
    for chosen in itertools.product((False, True), repeat=len(SWITCHES)):
        yield ExecutorchBackendConfig(**dict(zip(SWITCHES, chosen, strict=True)))  # type: ignore[arg-type]
    yield ExecutorchBackendConfig(own_operators=True, precision="bf16")
    yield ExecutorchBackendConfig(target="executorch-1.5", external_constants=True)
    yield ExecutorchBackendConfig(sym_shape_eval_pass=HintBasedSymShapeEvalPass())
    yield ExecutorchBackendConfig(external_mutable_weights=True, run_reinplace_pass=True)
    yield ExecutorchBackendConfig(do_quant_fusion_and_const_prop=True)


def all_settings() -> Iterator[tuple[Any, Any, Facts]]:
    for config in backend_settings():
        yield TO_EXECUTORCH, config, GIVEN
    for skip in (False, True):
        yield TO_EDGE, EdgeCompileConfig(_skip_dim_order=skip), DECOMPOSED


def test_every_requirement_is_met_by_a_pass_before() -> None:
    for steps, settings, given in all_settings():
        holds = given
        for one in wanted_passes(steps, settings):
            holds = after(one, holds, settings)


def after(one: Pass, holds: Facts, settings: Any) -> Facts:
    """The facts that hold after a pass, whose requirements and those of its parts are met."""
    missing = one.contract.requires - holds
    assert not missing, f"{type(one).__name__} lacks {missing} with {settings}"
    if isinstance(one, IfChanged):
        inside = holds
        for part in (*one.first, *one.then):
            inside = after(part, inside, settings)
    return one.contract.after(holds)


def passes_of(one: Pass) -> Iterator[Pass]:
    yield one
    if isinstance(one, IfChanged):
        for inner in (*one.first, *one.then):
            yield from passes_of(inner)


def test_every_step_is_a_pass_with_one_sentence_and_a_contract_of_its_own() -> None:
    for steps, settings, _ in all_settings():
        for step in wanted_passes(steps, settings):
            for one in passes_of(step):
                assert isinstance(one, Pass)
                assert type(one).__doc__, type(one)
                assert "contract" in vars(type(one)) | vars(one), type(one)


@pytest.mark.parametrize("field", ["sym_shape_eval_pass", "to_out_var_pass"])
def test_a_pass_of_the_user_takes_its_place_in_the_pipeline(field: str) -> None:
    def own(gm: Any) -> None:
        """A function as a pass, as in upstream's scripts."""

    config = dataclasses.replace(ExecutorchBackendConfig(), **{field: own})
    found = [p for p in wanted_passes(TO_EXECUTORCH, config) if isinstance(p, FxPass)]
    assert own in [one.graph_pass for one in found]


def test_the_public_list_holds_passes_of_graph_modules_in_order() -> None:
    first = SpecPropPass()
    passes = edge_to_executorch_passes(ExecutorchBackendConfig(passes=[first]))
    assert passes[0] is first
    assert [type(one).__name__ for one in passes[1:]] == [
        "SeparateLoopState",
        "RemoveGraphAssertsPass",
        "SpecPropPass",
        "EdgeToBackendOpsPass",
        "CanonicalizeReshapes",
        "NormalizeViewCopyBasePass",
        "ReplaceViewCopyWithViewPass",
        "ElideSliceCopies",
        "ConcatInPlace",
        "ConstraintBasedSymShapeEvalPass",
        "ToOutVarPass",
        "ElideWriteBack",
        "ReuseOperandMemory",
    ]
    assert not any(isinstance(one, Pass) and not isinstance(one, GraphPass) for one in passes)
