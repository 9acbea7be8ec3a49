"""Stack of single functions: at most 2 KiB in builds for small devices, on which `-fstack-usage` of
gcc reports it, and in the products of every build.

Small builds (ET_NO_SIMD) keep their buffers short: csrc/kernels/stack.h.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support.c_build import build_c
from support.loop_model import isa_flags, suffix_of
from support.paths import ROOT

LIMIT = 2048
CSRC = ROOT / "csrc"
COMPILERS = {
    "x86-64": ("gcc",),
    "Cortex-M4": ("arm-none-eabi-gcc", "-mcpu=cortex-m4", "-mthumb"),
}
FLAGS = (
    "-std=c11",
    "-Os",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-DET_NO_SIMD=1",
    "-DET_PREPARE_ROOM_BYTES=512u",  # a setting of csrc/runtime/config.h, on the loader's stack
    "-fstack-usage",
)
# Files whose functions hold at most 2 KiB in every build: matrix products and their callers.
PRODUCTS = (
    r"(micro/gemm/gemm|micro/gemm/gemm_narrow|op/gemm_op|op/matmul|op/mixed_mm|op/conv/conv"
    r"|op/conv/conv_stage|op/attention/\w+|lib/flash_attention)\.c$"
)


def frames(text: str) -> Iterator[tuple[str, str, int]]:
    """Source file, function and bytes of the lines of an .su file; no frame is of unknown size."""
    for line in text.splitlines():
        place, used, kind = line.split("\t")
        source, _, _, function = place.rsplit(":", 3)
        assert kind == "static" or "bounded" in kind, f"{place}: a frame of unknown size: {kind}"
        yield source, function, int(used)


def small_sources() -> list[Path]:
    """Sources of a small build: core runtime and kernels, without files of an instruction set."""
    kernels = [p for p in (CSRC / "kernels").rglob("*.c") if "example" not in p.parts]
    runtime = [p for p in (CSRC / "runtime").glob("*.c") if not p.stem.startswith("platform_")]
    return [p for p in kernels + runtime if suffix_of(p) not in isa_flags()]


@pytest.mark.parametrize("machine", COMPILERS)
def test_functions_of_small_builds_hold_two_kib_of_stack(machine: str, tmp_path: Path) -> None:
    compiler, *options = COMPILERS[machine]
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")

    def measure(source: Path) -> list[tuple[str, str, int]]:
        name = "_".join(source.relative_to(CSRC).with_suffix("").parts)
        command = [compiler, *options, *FLAGS, "-I", str(CSRC), "-c", str(source)]
        subprocess.run([*command, "-o", str(tmp_path / f"{name}.o")], check=True)
        return list(frames((tmp_path / f"{name}.su").read_text()))

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = [row for rows in pool.map(measure, small_sources()) for row in rows]
    assert len(found) > 2000
    too_large = [
        f"{source}: {function}: {used} bytes" for source, function, used in found if used > LIMIT
    ]
    assert not too_large, f"expected at most {LIMIT} bytes of stack, got\n" + "\n".join(too_large)


def test_products_of_the_built_library_hold_two_kib_of_stack() -> None:
    folder = build_c("release", "et_kernels") / "CMakeFiles" / "et_kernels.dir" / "kernels"
    found = [row for path in folder.rglob("*.su") for row in frames(path.read_text())]
    cache = (folder.parents[2] / "CMakeCache.txt").read_text()
    compiler = re.search(r"^CMAKE_C_COMPILER:\w+=(.*)$", cache, flags=re.M)
    if compiler is not None and "clang" in compiler[1]:
        pytest.skip("clang writes no .su files; gcc does")
    products = [row for row in found if re.search(PRODUCTS, row[0])]
    assert len(products) > 100
    too_large = [
        f"{source}: {name}: {used} bytes" for source, name, used in products if used > LIMIT
    ]
    assert not too_large, f"expected at most {LIMIT} bytes of stack, got\n" + "\n".join(too_large)
