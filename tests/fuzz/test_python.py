"""Damaged programs in Python: describing, loading and running any file raises this package's
exceptions and nothing else, and so does `executorch_py inspect`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fuzz.damage import damaged
from fuzz.program_tables import LAYOUTS, encoded, subject

from executorch_py import errors
from executorch_py.cli.inspect import collect, text
from executorch_py.runtime import MethodMeta, Runtime

MAX_BYTES = 1 << 20  # of an input that the test makes


def inputs(meta: MethodMeta) -> list[Any] | None:
    """Ones for tensors and a number for the rest; None when that would take too much memory."""
    given: list[Any] = []
    for i, kind in enumerate(meta.input_kinds):
        if kind != "Tensor":
            given.append(1)
            continue
        info = meta.input_tensor_meta(i)
        if info.nbytes() > MAX_BYTES:
            return None
        dtype = np.bool_ if info.dtype_name == "bool" else np.float32
        given.append(np.ones(info.sizes(), dtype))
    return given


def use(data: bytes) -> int:
    """Describes all methods and runs them; returns how many ran."""
    n_run = 0
    program = Runtime.get().load_program(data)
    for name in sorted(program.method_names):
        meta = program.metadata(name)
        signature = program.method_signature(name)
        assert repr(meta) and str(signature) is not None and meta.operators is not None
        method = program.load_method(name)
        assert method.name == name
        given = inputs(meta)
        if given is not None:
            method.execute(given)
            n_run += 1
    return n_run


# The second number is the minimum of runs. Inputs of "scalars" are seldom the traced ones.
@pytest.mark.parametrize(
    ("name", "least"), [("add_mul", 50), ("methods", 50), ("scalars", 1), ("rare", 50)]
)
def test_a_damaged_program_raises_only_the_errors_of_this_package(
    name: str, least: int, tmp_path: Path
) -> None:
    program, segments = subject(name)
    n_files = n_run = n_shown = 0
    for other in damaged(LAYOUTS, program, {}):
        data = encoded(other, segments)
        if data is None:
            continue
        n_files += 1
        try:
            n_run += use(data)
        except errors.ExecutorchError as e:
            assert str(e)
        if n_files % 5 == 0:
            path = tmp_path / "damaged.pte"
            path.write_bytes(data)
            try:
                n_shown += len(text(str(path), collect(str(path)))) > 0
            except errors.ExecutorchError as e:
                assert str(e)
    assert n_run >= least
    assert n_shown > 20
