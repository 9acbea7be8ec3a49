"""Payloads of the XNNPACK delegate on our own runtime: every operator and pattern that the exporter
writes gives eager torch's numbers, in float32, float16 and with sizes that vary.
"""

from __future__ import annotations

import pytest
import torch
from backends.test_xnnpack_payloads import close, groups
from backends.xnnpack_group import expected, flat_inputs, lowered

from executorch_py import _C
from executorch_py.runtime import Runtime

pytestmark = pytest.mark.skipif(
    "XnnpackBackend" not in _C.backend_names(), reason="built without XNNPACK"
)


@pytest.mark.parametrize("name", ["f32", "f16", "dynamic"])
def test_our_runtime_gives_eagers_numbers(name: str) -> None:
    cases = groups()[name]
    program = Runtime.get().load_program(lowered(cases).to_executorch().buffer, n_threads=2)
    method = program.load_method("forward")
    wrong: list[str] = []
    for i in range(max(len(case.inputs) for case in cases)):
        results = iter(method.execute(flat_inputs(cases, i)))
        for case in cases:
            wanted = expected(case, case.inputs[min(i, len(case.inputs) - 1)])
            found = [next(results) for _ in wanted]
            try:
                for ours, eagers in zip(found, wanted, strict=True):
                    assert isinstance(ours, torch.Tensor)
                    close(ours, eagers)
            except AssertionError as problem:
                wrong.append(f"{case.name}, inputs {i}: {problem}")
    assert not wrong, "\n".join(wrong)
