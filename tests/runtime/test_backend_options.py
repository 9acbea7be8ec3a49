"""Options for XNNPACK at load: valid ones, errors for others, and equal results under all of them.

Neither shared memory nor packed weights in a file change a result.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from executorch_py import _C, errors
from executorch_py.runtime import Runtime, WorkspaceSharing
from executorch_py.runtime.backend_options import xnnpack_options

GOLDEN = Path(__file__).parent.parent / "golden" / "xnnpack.pte"
HAS_XNNPACK = "XnnpackBackend" in _C.backend_names()


def options(**given: Any) -> dict[str, dict[str, Any]]:
    return {"XnnpackBackend": given}


def test_without_options_the_program_shares_and_keeps_nothing_on_disk() -> None:
    assert xnnpack_options(None) is None
    assert xnnpack_options({}) is None
    assert xnnpack_options(options(weight_cache_enabled=True)) == (1, True, None, True)


def test_options_are_upstreams_keys_and_numbers(tmp_path: Path) -> None:
    given = options(
        workspace_sharing_mode=2, packed_cache_path=tmp_path / "w", save_weight_cache_on_disk=False
    )
    assert xnnpack_options(given) == (2, True, str(tmp_path / "w"), False)
    assert [int(mode) for mode in WorkspaceSharing] == [0, 1, 2]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"CoreMLBackend": {}}, "expected options of 'XnnpackBackend', got options of 'CoreML"),
        (options(workspace_sharing_mode=3), r"expected one of 0 \(Disabled\), .*, got 3"),
        (options(weight_cache_enabled=1), "weight_cache_enabled: expected True or False, got 1"),
        (options(packed_cache_path=1), "packed_cache_path: expected a path, got 1"),
        (options(cache=1), "expected workspace_sharing_mode, .*, got 'cache'"),
        (
            options(weight_cache_enabled=False, packed_cache_path="x"),
            "expected weight_cache_enabled",
        ),
    ],
)
def test_invalid_options_are_errors_that_name_them(given: Any, words: str) -> None:
    with pytest.raises(errors.InvalidArgument, match=words):
        Runtime.get().load_program(GOLDEN, backend_options=given)


@pytest.mark.parametrize("mode", list(WorkspaceSharing))
@pytest.mark.parametrize("enabled", [True, False])
def test_sharing_does_not_change_results(mode: WorkspaceSharing, enabled: bool) -> None:
    given = options(workspace_sharing_mode=mode, weight_cache_enabled=enabled)
    if not HAS_XNNPACK:
        with pytest.raises(errors.NotSupported, match="this build is without XNNPACK"):
            Runtime.get().load_program(GOLDEN, backend_options=given)
        return
    program = Runtime.get().load_program(GOLDEN, backend_options=given)
    method = program.load_method("forward")
    x = np.linspace(-2, 2, 6, dtype=np.float32).reshape(
        method.metadata.input_tensor_meta(0).sizes()
    )
    first = method.execute([x])[0]
    other = Runtime.get().load_program(GOLDEN).load_method("forward").execute([x])[0]
    np.testing.assert_array_equal(first, other)
    assert bool(program.packed_weights) is enabled
