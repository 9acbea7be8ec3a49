"""Selective builds: bits of the full build, smaller code, costs of operators, errors for others."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from models.vision import build as build_model
from support.paths import ROOT
from support.program_maker import MethodMaker, program_bytes
from support.tolerance import F32_ROUNDING
from support.upstream_peer import Upstream

from executorch_py import _C
from executorch_py.cli.main import main
from executorch_py.exir import to_edge
from executorch_py.runtime import Runtime
from executorch_py.toolchain import selection
from executorch_py.toolchain.custom_sources import read_sources
from executorch_py.toolchain.needs import read_needs
from executorch_py.toolchain.op_library import example_source

GOLDEN = ROOT / "tests" / "golden"
CSRC = ROOT / "csrc"
SHAPE = (1, 3, 64, 64)
F32, F64 = 6, 7


class Halves(torch.nn.Module):
    """A model of kernels that MobileNetV2 does not need.

    The kernels are half precision, integers, softmax, gelu, norms, pools, maxima and minima.
    """

    def forward(self, x: torch.Tensor, n: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = torch.nn.functional.gelu(x.half() * 3).float()
        y = torch.nn.functional.layer_norm(y, (5,))
        pooled = torch.nn.functional.max_pool2d(y[None], 2)
        extremes = (n.amax(0), n.argmin(1), y.amin(0), y.argmax(0), y.var(1), y.cumsum(0))
        return torch.softmax(y, -1), (n * 2 + 1).sum(-1), pooled, torch.cdist(y, y), *extremes


def export(model: torch.nn.Module, inputs: tuple[torch.Tensor, ...], path: Path) -> Path:
    to_edge(torch.export.export(model, inputs)).to_executorch().save(str(path))
    return path


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory, upstream: Upstream) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("programs")
    x = torch.randn(SHAPE, generator=torch.Generator().manual_seed(0))
    halves = (torch.linspace(-2, 2, 15).reshape(3, 5), torch.arange(6).reshape(2, 3))
    double = (x.double(),)
    mobile = build_model("mobilenet_v2", width_mult=0.25, num_classes=10)
    return {
        "mobile": export(mobile, (x,), folder / "mobile.pte"),
        "halves": export(Halves(), halves, folder / "halves.pte"),
        "double": export(torch.nn.Hardtanh(), double, folder / "double.pte"),
        "sine": export(Sine(), (x,), folder / "sine.pte"),
        "upstream": written_by_upstream(upstream, folder),
    }


def written_by_upstream(upstream: Upstream, folder: Path) -> Path:
    """A block of a transformer: layer norms, attention taken apart, gelu."""
    upstream.ask("export", "transformer", folder)
    return folder / "transformer.pte"


class Sine(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sin(x) + x


def make(folder: Path, programs: list[Path], *options: str) -> dict[str, Any]:
    """Figures of a build, made on the command line, and its folder."""
    command = ["build-kernels", "--from", *map(str, programs), "--out", str(folder), "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "executorch_py", *command, *options], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return {**json.loads(done.stdout), "folder": folder}


@pytest.fixture(scope="module")
def made(files: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    programs = [files["mobile"], files["halves"]]
    return make(tmp_path_factory.mktemp("made"), programs, "--no-simd")


@pytest.fixture(scope="module")
def made_simd(files: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A build with the loops of this machine's instruction sets, also for a file of upstream's."""
    programs = [files["mobile"], files["halves"], files["upstream"]]
    return make(tmp_path_factory.mktemp("simd"), programs, "--no-compare")


def run_selected(made: dict[str, Any], program: Path, *arguments: str) -> Any:
    command = [str(made["folder"] / "et_run"), str(program), *arguments]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.mark.parametrize("name", ["mobile", "halves"])
def test_the_small_runtime_gives_the_bits_of_the_full_one(
    made: dict[str, Any], files: dict[str, Path], name: str, tmp_path: Path
) -> None:
    assert_same_bits(made, files, name, tmp_path)


@pytest.mark.parametrize("name", ["mobile", "halves", "upstream"])
def test_a_small_runtime_with_simd_gives_the_bits_of_the_full_one(
    made_simd: dict[str, Any], files: dict[str, Path], name: str, tmp_path: Path
) -> None:
    assert_same_bits(made_simd, files, name, tmp_path)


def assert_same_bits(
    made: dict[str, Any], files: dict[str, Path], name: str, tmp_path: Path
) -> None:
    method = Runtime.get().load_program(files[name]).load_method("forward")
    random = np.random.default_rng(0)
    arguments = ["--output", str(tmp_path / "out")]
    inputs = []
    for i, argument in enumerate(method.signature.inputs):
        shape = tuple(int(n) for n in argument.shape or ())  # type: ignore[call-overload]
        array = (8 * random.standard_normal(shape)).astype(argument.dtype)
        array.tofile(tmp_path / f"in{i}")
        arguments += ["--input", f"{i}={tmp_path / f'in{i}'}"]
        inputs.append(array)
    done = run_selected(made, files[name], *arguments)
    assert done.returncode == 0, done.stderr
    for i, expected in enumerate(method.execute(inputs)):
        found = np.fromfile(tmp_path / f"out{i}.bin", expected.dtype)
        np.testing.assert_array_equal(found, expected.ravel())


def test_each_operator_and_the_whole_are_measured_and_smaller_than_the_full_build(
    made: dict[str, Any],
) -> None:
    operators = made["operators"]
    assert {"aten::convolution.out", "aten::gelu.out", "aten::sum.IntList_out"} <= set(operators)
    for name, figures in operators.items():
        assert 0 <= figures["own"] <= figures["with_shared"] > 0, name
    alone = {name for name, figures in operators.items() if figures["own"] > 0}
    assert set(operators) - alone <= {"aten::mul.Scalar_out", "aten::mul.out"}  # one function
    selected, full = made["selected"], made["full"]
    assert max(f["with_shared"] for f in operators.values()) < selected["kernels"]
    assert selected["kernels"] < 0.4 * full["kernels"]
    assert selected["table"] < 0.1 * full["table"]
    assert selected["runtime"] == full["runtime"]


def test_each_programs_share_is_reported(made: dict[str, Any], files: dict[str, Path]) -> None:
    first, second = made["programs"]
    assert re.fullmatch(rf"{files['mobile']}: \d+ operators; .*f32.*", first)
    assert re.fullmatch(rf"{files['halves']}: \d+ operators, \d+ of them new; .*f16.*", second)


def test_a_program_with_another_operator_is_refused_by_name(
    made: dict[str, Any], files: dict[str, Path]
) -> None:
    done = run_selected(made, files["sine"])
    assert done.returncode == 1
    assert "OperatorMissing" in done.stderr
    assert "no kernel for: aten::sin.out(f32, f32)" in done.stderr


def test_a_program_with_another_type_is_refused_at_load(
    made: dict[str, Any], files: dict[str, Path]
) -> None:
    done = run_selected(made, files["double"])
    assert done.returncode == 1
    assert "NotSupported" in done.stderr
    assert re.search(r"hardtanh|clamp", done.stderr)
    assert "the kernel does not support element type f64" in done.stderr


def test_code_of_types_that_no_program_uses_is_left_out(made: dict[str, Any]) -> None:
    symbols = subprocess.run(
        ["nm", str(made["folder"] / "et_run")], capture_output=True, text=True, check=True
    ).stdout
    names = {line.split()[-1] for line in symbols.splitlines()}
    assert "op_convolution_out" in names
    assert "op_sin_out" not in names and "sin_f32" not in names
    assert "gelu_f32" in names and "gelu_f64" not in names
    assert "cast_f16_f32" in names and not any("cast_i16_" in name for name in names)
    assert "tile_f32__scalar" in names and "tile_f64__scalar" not in names
    assert "normalize_f32__scalar" in names and "normalize_f64__scalar" not in names
    assert "fold_i64__scalar" in names or "max_f32__scalar" in names
    assert "max_f64__scalar" not in names


def test_the_folder_builds_again_by_make_alone(
    made: dict[str, Any], files: dict[str, Path], tmp_path: Path
) -> None:
    folder = tmp_path / "moved"
    shutil.copytree(made["folder"], folder)
    assert subprocess.run(["make", "-q", "-C", str(folder)]).returncode == 0
    for name in ("obj/ops_selected.o", "obj/kernels/op/pool/pool.o", "libet_selected.a", "et_run"):
        (folder / name).unlink(missing_ok=True)
    subprocess.run(["make", "-C", str(folder)], check=True, capture_output=True)
    done = run_selected({"folder": folder}, files["mobile"])
    assert done.returncode == 0, done.stderr


def test_a_users_program_links_with_the_library(
    made: dict[str, Any], files: dict[str, Path], tmp_path: Path
) -> None:
    command = ["cc", "-std=c11", f"-I{made['folder'] / 'src'}", "-o", str(tmp_path / "own")]
    command += [str(ROOT / "tests" / "c" / "example_embedding.c")]
    command += [str(made["folder"] / "libet_selected.a"), "-Wl,--gc-sections", "-lm", "-lpthread"]
    subprocess.run(command, check=True, capture_output=True)
    own = [str(tmp_path / "own"), str(files["mobile"])]
    done = subprocess.run(own, check=True, capture_output=True, text=True)
    assert done.stdout.startswith("output 0: 10 elements, the first is ")


# ---- with custom operators


@pytest.fixture(scope="module")
def with_custom(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A build with two C files of a user, for two programs that call their operators."""
    folder = tmp_path_factory.mktemp("custom")
    (folder / "softcap.c").write_text('#include "half/factor.h"\n' + example_source())
    (folder / "half").mkdir()
    (folder / "half" / "factor.h").write_text("#define FACTOR 0.5f\n")
    halve = example_source().replace("softcap", "halve").replace("tanhf(", "FACTOR * (")
    (folder / "halve.c").write_text('#include "half/factor.h"\n' + halve)
    for name in ("softcap", "halve"):
        maker = MethodMaker()
        x, y, z = maker.tensor([2, 3]), maker.tensor([2, 3]), maker.tensor([2, 3])
        maker.inputs.append(x)
        maker.call(f"mylib::{name}.out", x, maker.scalar(2.0), y, y)
        maker.add(y, x, z)
        maker.outputs.append(z)
        (folder / f"{name}.pte").write_bytes(program_bytes(maker))
    programs = [folder / "softcap.pte", folder / "halve.pte"]
    files = ["--ops", str(folder / "halve.c"), str(folder / "softcap.c")]
    found = make(folder / "out", programs, *files, "--no-simd", "--no-compare")
    return {**found, "programs_folder": folder}


@pytest.mark.parametrize("name", ["softcap", "halve"])
def test_a_custom_kernel_is_linked_in_and_runs(
    with_custom: dict[str, Any], name: str, tmp_path: Path
) -> None:
    x = np.linspace(-3, 3, 6, dtype=np.float32)
    x.tofile(tmp_path / "x")
    program = with_custom["programs_folder"] / f"{name}.pte"
    options = ["--input", f"0={tmp_path / 'x'}", "--output", str(tmp_path / "out")]
    done = run_selected(with_custom, program, *options)
    assert done.returncode == 0, done.stderr
    wanted = 2 * np.tanh(x / 2) if name == "softcap" else x / 2
    found = np.fromfile(tmp_path / "out0.bin", np.float32)
    np.testing.assert_allclose(found, wanted + x, *F32_ROUNDING)


def test_each_custom_file_is_measured_beside_the_operators(
    with_custom: dict[str, Any],
) -> None:
    operators = with_custom["operators"]
    assert set(operators) == {
        "aten::add.out",
        "halve.c: mylib::halve.out",
        "softcap.c: mylib::softcap.out",
    }
    for figures in operators.values():
        assert 0 < figures["own"] <= figures["with_shared"]


def test_a_folder_with_custom_files_builds_again_by_make_alone(
    with_custom: dict[str, Any], tmp_path: Path
) -> None:
    folder = tmp_path / "moved"
    shutil.copytree(with_custom["folder"], folder)
    assert subprocess.run(["make", "-q", "-C", str(folder)]).returncode == 0
    for name in ("obj/ops_selected.o", "obj/custom/halve.o", "obj/custom/softcap.o"):
        (folder / name).unlink()
    subprocess.run(["make", "-C", str(folder)], check=True, capture_output=True)
    program = with_custom["programs_folder"] / "halve.pte"
    done = run_selected({"folder": folder}, program, "--input", "0=random")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "no such C file"),
        ("int x;\n", "and ET_OP_LIBRARY, got no operator"),
        (
            'const char *n[] = {"my::b.out", "my::a"};\n',
            "binary search: my::a, my::b.out, got my::b.out, my::a",
        ),
        ('#include "absent.h"\n', "absent.h"),
    ],
)
def test_a_file_that_cannot_be_linked_is_refused_with_the_reason(
    text: str | None, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if text is not None:
        (tmp_path / "mine.c").write_text(text)
    command = ["build-kernels", "--from", str(GOLDEN / "add_mul.pte"), "--out", str(tmp_path / "o")]
    assert main([*command, "--ops", str(tmp_path / "mine.c")]) == 1
    assert message in capsys.readouterr().err
    assert not (tmp_path / "o").exists()


def test_two_files_with_one_name_or_one_operator_are_refused(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    paths = [tmp_path / "a.c", tmp_path / "b.c", tmp_path / "below" / "a.c"]
    for path in paths:
        path.write_text('const char *n = "my::a";\n')
    with pytest.raises(ValueError, match=r"my::a: defined in .*a\.c and in .*b\.c"):
        read_sources([str(paths[0]), str(paths[1])], ["cc"])
    with pytest.raises(ValueError, match="the same name: rename one"):
        read_sources([str(paths[0]), str(paths[2])], ["cc"])


# ---- without an operating system


@pytest.fixture
def no_system(tmp_path: Path) -> Iterator[str]:
    """A compiler for a machine without operating system, or a wrapper that reports one."""
    found = shutil.which("arm-none-eabi-gcc")
    if found is not None:
        yield f"{found} -mcpu=cortex-m4 -mthumb"
        return
    wrapper = tmp_path / "none-gcc"
    wrapper.write_text('#!/bin/sh\n[ "$1" = -dumpmachine ] && echo none && exit\nexec gcc "$@"\n')
    wrapper.chmod(0o755)
    yield str(wrapper)


def test_a_build_without_operating_system_is_a_library(
    no_system: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "bare"
    program = str(GOLDEN / "add_mul.pte")
    command = ["build-kernels", "--from", program, "--out", str(out), "--cc", no_system]
    assert main([*command, "--no-messages", "--no-compare"]) == 0
    said = capsys.readouterr().out
    assert re.search(r"^aten::add\.out +[\d,]+ +[\d,]+  f32$", said, re.M), said
    assert (out / "libet_selected.a").is_file()
    assert not any("platform" in path.name for path in (out / "src" / "runtime").glob("*.c"))


# ---- errors, and the parts


def test_an_operator_without_a_kernel_is_an_error_with_a_remedy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "mine.pte"
    program.write_bytes((GOLDEN / "add_mul.pte").read_bytes().replace(b"aten::mul", b"mine::mul"))
    command = ["build-kernels", "--from", str(program), "--out", str(tmp_path / "out")]
    assert main(command) == 1
    said = capsys.readouterr().err
    assert f"no kernel for: mine::mul.out ({program})" in said
    assert "executorch_py build-ops --example" in said
    assert "--ops my_op.c" in said and "--elsewhere mine::mul.out" in said
    assert not (tmp_path / "out").exists()


def test_a_delegated_program_is_refused_by_its_backends_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["build-kernels", "--from", str(GOLDEN / "xnnpack.pte"), "--out", str(tmp_path)]
    assert main(command) == 1
    said = capsys.readouterr().err
    assert "no such backend in this library: XnnpackBackend" in said
    assert "export without its partitioner, or build all of csrc with CMake" in said


def test_every_row_of_the_operator_table_is_understood() -> None:
    rows = selection.read_rows(CSRC / "kernels" / "ops.inc.h")
    assert set(rows) == set(_C.kernel_manifest())
    assert rows["aten::add.out"].functions == ["op_add_out", "prepare_add_out"]
    pooled = rows["aten::adaptive_max_pool2d.out"]
    assert pooled.rest == (".max_rank = 4", ".writes = 3u << 2")
    assert pooled.text(1 << F32).endswith("& 0x40u, .max_rank = 4, .writes = 3u << 2)")


def test_needs_are_read_from_lists_and_all_methods() -> None:
    needs = read_needs(str(GOLDEN / "lists.pte"))
    manifest = _C.kernel_manifest()
    assert needs.operators and set(needs.operators) <= set(manifest)
    methods = read_needs(str(GOLDEN / "methods.pte"))
    program = _C.open_program(str(GOLDEN / "methods.pte"))
    called = {
        op["name"] for m in program.method_names() for op in program.method_info(m)["operators"]
    }
    assert set(methods.operators) == called


def test_types_are_closed_under_types_of_computation() -> None:
    f16, i64, b8, i8, i16, u8 = 5, 4, 11, 1, 2, 0
    assert selection.closure({F32}) == {F32, b8}
    assert selection.closure({f16}) == {f16, F32, b8}
    assert selection.closure({u8, i8}) == {u8, i8, i16, i64, F32, b8}
    assert selection.closure({9, F64}) == {9, 10, F64, F32, b8}


def test_files_that_call_entries_of_the_tables_say_so() -> None:
    """A selective build leaves out every table entry that no file names in ETI_USES."""
    names = selection.loop_names(CSRC / "kernels" / "micro" / "eltwise" / "eltwise.h")
    assert ("unary", "exp") in names and ("rows", "row_sum") in names
    silent = []
    for path in [*(CSRC / "kernels" / "lib").glob("*.c"), *(CSRC / "kernels" / "op").rglob("*.c")]:
        text = path.read_text()
        for kind, name in names:
            call = rf"->{name}\b" if kind == "rows" else rf"\b{kind}(?:_f64)?\.{name}\b"
            said = f"ETI_USES({kind}, {name})" in text or f" USES({name})" in text
            if re.search(call, text) and not said:
                silent.append(f"{path.name}: {kind}.{name}")
    assert not silent, silent
