"""Hot loops of the micro-kernels, as llvm-mca models them, beside their recorded figures.

`make bench-model` prints the figures, `tests/support/loop_record.py` has the rules of comparison.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from support.hot_loops import hot_loops, multiply_adds
from support.loop_model import families, processors, rows_of_all, xnnpack_headers
from support.loop_record import (
    COMMAND,
    FAMILIES,
    Line,
    Record,
    differences,
    existing_files,
    merged,
    missing,
    read,
    record_of,
    worse,
    write,
)

# An outer loop around an inner one that gcc entered in its middle and that may skip a store.
NESTED = """
\t.type\tproduct.constprop.0, @function
product.constprop.0:
.L9:
\tvmulps\t%ymm1, %ymm1, %ymm1
\tjmp\t.L3
.L2:
\tvmovaps\t%ymm2, (%rdi)
.L3:
\tvfmadd231ps\t(%rsi), %ymm0, %ymm2
\tcmpq\t$8, %rdx
\tje\t.L4
\tvfmadd231ps\t32(%rsi), %ymm0, %ymm3
.L4:
\tdecq\t%rax
\tjne\t.L2
\tdecq\t%rcx
\tjne\t.L9
\tret
\t.size\tproduct.constprop.0, .-product.constprop.0
"""
KEY = ("gemm/gemm_avx2.c", "tile_f32__avx2")
VERSIONS = {"llvm": "19", "x86_64": "gcc-12", "aarch64": "gcc-12"}
RECORDED = Record(VERSIONS, {KEY: Line(100, 20, {"skylake": 10.0})}, {"gemm/gemm_avx2.c": 1})


def with_figures(cycles: float, instructions: int = 20, **versions: str) -> Record:
    lines = {KEY: Line(100, instructions, {"skylake": cycles})}
    return Record({**VERSIONS, **versions}, lines, {})


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_loops_are_no_slower_than_recorded(family: str) -> None:
    if family == "tuned" and not xnnpack_headers():
        pytest.skip("the extension is built without XNNPACK, whose headers these kernels need")
    found, recorded = record_of(rows_of_all(families()[family])), read()
    told = worse(found, recorded) + missing(found, recorded)
    note = "\n".join(differences(found, recorded))
    assert not told, "\n".join(told) + f"\n{note}\n`{COMMAND}` records the figures anew."


def test_the_record_has_the_versions_of_this_compiler_and_this_model() -> None:
    differs = differences(with_figures(1.0, **record_of([]).versions), read())
    if differs:
        pytest.skip("; ".join(differs))


def test_the_record_names_files_that_exist() -> None:
    recorded = read()
    assert len(recorded.lines) > 100
    assert {file for file, _ in recorded.lines} <= existing_files()


def test_an_innermost_loop_is_read_along_its_hottest_path() -> None:
    (loop,) = hot_loops(NESTED, "x86_64")
    assert (loop.function, loop.number, loop.multiply_adds) == ("product", 1, 16)
    names = [line.split()[0] for line in loop.instructions]
    assert names == ["vfmadd231ps", "cmpq", "je", "vfmadd231ps", "decq", "jne", "vmovaps"]


@pytest.mark.parametrize(
    ("machine", "instruction", "expected"),
    [
        ("x86_64", "vfmadd231ps\t(%rax){1to16}, %zmm1, %zmm2", 16),
        ("x86_64", "vfnmadd213pd\t%ymm0, %ymm1, %ymm2", 4),
        ("x86_64", "vfmadd231ss\t%xmm0, %xmm1, %xmm2", 0),
        ("x86_64", "vpmaddwd\t%ymm0, %ymm1, %ymm2", 16),
        ("x86_64", "{vex} vpdpbusd\t%ymm0, %ymm1, %ymm2", 32),
        ("x86_64", "vpdpbusd\t%zmm0, %zmm1, %zmm2{%k1}", 64),
        ("x86_64", "vaddps\t%ymm0, %ymm1, %ymm2", 0),
        ("aarch64", "fmla\tv27.4s, v2.4s, v10.s[0]", 4),
        ("aarch64", "smlal2\tv0.4s, v1.8h, v2.8h", 4),
        ("aarch64", "sdot\tv0.4s, v1.16b, v2.4b[0]", 16),
        ("aarch64", "smmla\tv0.4s, v1.16b, v2.16b", 32),
        ("aarch64", "bfmlalt\tv0.4s, v1.8h, v2.h[1]", 4),
        ("aarch64", "fmadd\ts0, s1, s2, s3", 0),
    ],
)
def test_multiply_adds_of_an_instruction(machine: str, instruction: str, expected: int) -> None:
    assert multiply_adds([instruction], machine) == expected


def test_a_widening_sum_of_byte_products_counts_once() -> None:
    products = "vpmaddubsw\t%ymm0, %ymm1, %ymm2"
    assert multiply_adds([products, "vpmaddwd\t%ymm2, %ymm3, %ymm4"], "x86_64") == 32


def test_files_are_modelled_on_processors_that_run_them() -> None:
    assert processors("avx2") == ("skylake", "icelake-server", "znver4")
    assert processors("avx512") == ("skylake-avx512", "icelake-server", "znver4")
    assert processors("neon") == ("cortex-a55", "cortex-a76", "neoverse-n1", "neoverse-v1")


def test_a_loop_may_be_five_percent_worse_than_recorded() -> None:
    assert not worse(with_figures(10.4), RECORDED)
    (told,) = worse(with_figures(10.6), RECORDED)
    assert told == (
        "gemm/gemm_avx2.c tile_f32__avx2, cycles of skylake per multiply-add: expected at most "
        "1.05 × 0.1000, the recorded figure, got 0.1060"
    )


def test_the_mean_of_the_loops_of_another_compiler_may_be_fifteen_percent_worse() -> None:
    assert not worse(with_figures(11.4, x86_64="gcc-14"), RECORDED)
    (told,) = worse(with_figures(11.6, x86_64="gcc-14"), RECORDED)
    assert told == (
        "1 loops by gcc-14, cycles of skylake per multiply-add: expected a mean of 1.15 × the "
        "recorded figures, got 1.16"
    )
    assert worse(with_figures(11.4, aarch64="gcc-14"), RECORDED)  # not this file's compiler
    other = ("gemm/gemm_avx2.c", "tile_f64__avx2")
    two, recorded = with_figures(20.0, x86_64="gcc-14"), dataclasses.replace(RECORDED)
    two.lines[other] = Line(100, 20, {"skylake": 5.0})
    recorded.lines = {**RECORDED.lines, other: Line(100, 20, {"skylake": 10.0})}
    assert not worse(two, recorded)


def test_instructions_are_compared_with_models_of_another_llvm() -> None:
    assert not worse(with_figures(20.0, llvm="20"), RECORDED)
    (told,) = worse(with_figures(10.0, 22, llvm="20"), RECORDED)
    assert "instructions per multiply-add" in told
    (told,) = differences(with_figures(10.0, llvm="20"), RECORDED)
    assert told.startswith("llvm: recorded 19, got 20: instructions")


def test_new_loops_lost_loops_and_new_calls_are_told() -> None:
    nothing = Record(VERSIONS, {}, {})
    (told,) = worse(RECORDED, dataclasses.replace(RECORDED, lines={}))
    assert told.endswith("expected a recorded figure, got none")
    (told,) = worse(RECORDED, dataclasses.replace(RECORDED, calls={}))
    assert told.endswith("hot loops that call functions: expected 0, got 1")
    other = Record(VERSIONS, {(KEY[0], "tile_f64__avx2"): Line(1, 1, {})}, {})
    assert len(missing(other, RECORDED)) == 1 and not missing(nothing, RECORDED)


def test_a_record_is_read_as_written_and_merged(tmp_path: Path) -> None:
    path = tmp_path / "figures.txt"
    write(RECORDED, path)
    assert read(path) == RECORDED
    other = Record(VERSIONS, {("conv/direct_conv_avx2.c", "f"): Line(1, 2, {"znver4": 3.0})}, {})
    assert merged(other, RECORDED, {KEY[0]}).lines == {**other.lines, **RECORDED.lines}
    assert merged(other, RECORDED, set()).lines == other.lines
