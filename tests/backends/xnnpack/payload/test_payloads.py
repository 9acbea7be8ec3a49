"""Payloads of the XNNPACK delegate on upstream's runtime and ours, compared with eager torch.

All operators and patterns are run in float32, in float16 and with dynamic sizes; the number of
permutations is checked.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import pytest
import torch
from support.tolerance import EXACT, PAYLOAD, assert_near
from support.upstream_peer import Upstream
from support.xnnpack_cases import CASES, Case
from support.xnnpack_group import expected, flat_inputs, lowered, lowered_whole
from support.xnnpack_payloads import payloads_of
from support.xnnpack_quantized_cases import QUANTIZED, Quantized
from torch.utils import _pytree as pytree

from executorch_py import _C
from executorch_py.backends.xnnpack.payload.payload_flatbuffer import NodeKind, XNNGraph
from executorch_py.backends.xnnpack.preprocess import XnnpackBackend
from executorch_py.runtime import Runtime


def _in_half(case: Case) -> Case:
    inputs = tuple(tuple(x.half() for x in one) for one in case.inputs)
    return replace(case, module=copy.deepcopy(case.module).half(), inputs=inputs)


@cache
def groups() -> dict[str, list[Case]]:
    static = [case for case in CASES if case.dynamic is None]
    return {
        "f32": static,
        "f16": [_in_half(case) for case in static if case.half],
        "dynamic": [case for case in CASES if case.dynamic is not None],
    }


@dataclass
class Ran:
    """An exported group: its payloads, and the results of every set of inputs, by case."""

    program: bytes
    payloads: list[XNNGraph]
    results: list[list[list[torch.Tensor]]]


def _run(name: str, upstream: Upstream, folder: Path) -> Ran:
    cases = groups()[name]
    manager = lowered(cases)
    n_sets = max(len(case.inputs) for case in cases)
    (folder / f"{name}.pte").write_bytes(manager.to_executorch().buffer)
    torch.save([flat_inputs(cases, i) for i in range(n_sets)], folder / f"{name}.inputs.pt")
    upstream.ask("run_inputs", name, folder)
    results = [_by_case(cases, flat) for flat in torch.load(folder / f"{name}.pt")]
    return Ran((folder / f"{name}.pte").read_bytes(), payloads_of(manager), results)


def _by_case(cases: list[Case], flat: list[torch.Tensor]) -> list[list[torch.Tensor]]:
    rest = iter(flat)
    return [[next(rest) for _ in expected(case, case.inputs[0])] for case in cases]


@pytest.fixture(scope="module")
def ran(upstream: Upstream, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Ran]:
    folder = tmp_path_factory.mktemp("xnnpack")
    return {name: _run(name, upstream, folder) for name in groups()}


@pytest.fixture(scope="module")
def ran_here(ran: dict[str, Ran]) -> dict[str, list[list[list[torch.Tensor]]]]:
    """The same programs on our runtime."""
    results = {}
    for name, cases in groups().items():
        method = Runtime.get().load_program(ran[name].program).load_method("forward")
        n_sets = max(len(case.inputs) for case in cases)
        flat = [list(method.execute(flat_inputs(cases, i))) for i in range(n_sets)]
        results[name] = [_by_case(cases, one) for one in flat]
    return results


def close(found: torch.Tensor, wanted: torch.Tensor) -> None:
    """Check results within the tolerance of the element type; whole numbers exactly."""
    assert_near(found, wanted.contiguous(), PAYLOAD.get(wanted.dtype, EXACT))


ROWS = [(name, i) for name in groups() for i in range(len(groups()[name]))]


@pytest.mark.interop
@pytest.mark.parametrize(
    ("group", "i"), ROWS, ids=[f"{groups()[name][i].name}-{name}" for name, i in ROWS]
)
def test_upstreams_runtime_gives_eagers_numbers(group: str, i: int, ran: dict[str, Ran]) -> None:
    case = groups()[group][i]
    for inputs, results in zip(case.inputs, ran[group].results, strict=False):
        wanted = expected(case, inputs)
        assert len(results[i]) == len(wanted)
        for found, value in zip(results[i], wanted, strict=True):
            close(found, value)
    if case.transposes is not None:
        kinds = [node.kind for node in ran[group].payloads[i].xnodes]
        assert kinds.count(NodeKind.STATIC_TRANSPOSE) == case.transposes, kinds


@pytest.mark.interop
@pytest.mark.skipif("XnnpackBackend" not in _C.backend_names(), reason="built without XNNPACK")
@pytest.mark.parametrize("group", groups())
def test_our_runtime_gives_eagers_numbers(
    group: str, ran_here: dict[str, list[list[list[torch.Tensor]]]]
) -> None:
    for i, case in enumerate(groups()[group]):
        for inputs, results in zip(case.inputs, ran_here[group], strict=False):
            for found, value in zip(results[i], expected(case, inputs), strict=True):
                close(found, value)


@pytest.fixture(scope="module")
def ran_quantized(
    upstream: Upstream, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, tuple[XNNGraph, list[torch.Tensor], list[torch.Tensor]]]:
    folder, found = tmp_path_factory.mktemp("quantized"), {}
    for case in QUANTIZED:
        module = case.make()
        with torch.no_grad():
            wanted = list(pytree.tree_leaves(module(*case.inputs)))
        manager = lowered_whole(module, case.inputs)
        (payload,) = payloads_of(manager)
        (folder / f"{case.name}.pte").write_bytes(manager.to_executorch().buffer)
        torch.save([case.inputs], folder / f"{case.name}.inputs.pt")
        upstream.ask("run_inputs", case.name, folder)
        found[case.name] = (payload, torch.load(folder / f"{case.name}.pt")[0], wanted)
    return found


@pytest.mark.interop
@pytest.mark.parametrize("case", QUANTIZED, ids=lambda case: case.name)
def test_quantized_modules_compute_with_quantized_values(
    case: Quantized,
    ran_quantized: dict[str, tuple[XNNGraph, list[torch.Tensor], list[torch.Tensor]]],
) -> None:
    payload, results, wanted = ran_quantized[case.name]
    for found, value in zip(results, wanted, strict=True):
        assert (found - value).abs().max() <= case.tolerance * value.abs().max()
    kinds = [node.kind for node in payload.xnodes]
    assert kinds.count(NodeKind.CONVERT) == case.conversions, kinds
    assert case.datatypes <= {value.tensor.datatype for value in payload.xvalues}


def test_the_backend_is_found_by_its_id() -> None:
    assert XnnpackBackend.__name__ == "XnnpackBackend"


def test_the_same_program_gives_the_same_bytes() -> None:
    cases = groups()["f32"][:40]
    first, second = (bytes(lowered(cases).to_executorch().buffer) for _ in range(2))
    assert first == second
