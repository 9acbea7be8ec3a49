"""Kernels on tiles of AMX, in programs where tiles are C: their C tests pass, so that processors
without AMX test them too.
"""

from __future__ import annotations

import subprocess

import pytest
from support.c_build import build_c

from bits.machines import AMX_SUFFIX, can_emulate_amx

# C tests of which some run only with AMX.
TESTS = (
    "test_bgemm",
    "test_qgemm_groups",
    "test_xnnpack_conv_stem",
    "test_xnnpack_gemm_amx",
    "test_xnnpack_memory_bound",
)


@pytest.mark.skipif(not can_emulate_amx(), reason="this processor lacks AVX-512 VNNI or BF16")
@pytest.mark.parametrize("name", TESTS)
def test_kernels_on_emulated_tiles_pass_their_c_tests(name: str) -> None:
    target = f"{name}{AMX_SUFFIX}"
    program = build_c("release", target) / target
    done = subprocess.run([program], capture_output=True, text=True)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
