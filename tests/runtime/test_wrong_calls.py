"""Wrong files and wrong calls: each is recognised, and answered with the next step."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.paths import GOLDEN, ROOT
from support.program_maker import adder, program_bytes

from executorch_py.cli.main import main
from executorch_py.devtools import BundledProgram
from executorch_py.devtools.bundled_program.config import MethodTestCase, MethodTestSuite
from executorch_py.devtools.bundled_program.serialize import (
    deserialize_from_flatbuffer_to_bundled_program,
    serialize_from_bundled_program_to_flatbuffer,
)
from executorch_py.errors import ExecutorchError, InvalidArgument, InvalidProgram, InvalidState
from executorch_py.exir import to_edge
from executorch_py.extension.pybindings.portable_lib import _load_for_executorch
from executorch_py.runtime import Method, Runtime

X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One file of each kind that is often given for a program."""
    folder = tmp_path_factory.mktemp("files")
    model, x = torch.nn.Linear(3, 2), torch.ones(1, 3)
    exported = torch.export.export(model, (x,))
    program = to_edge(exported, generate_etrecord=True).to_executorch()
    suites = [MethodTestSuite("forward", [MethodTestCase([x], [model(x)])])]
    paths = {name: folder / f"{name}.pte" for name in ("lfs", "empty", "page", "bundle", "record")}
    paths["lfs"].write_text("version https://git-lfs.github.com/spec/v1\noid sha256:12\nsize 9\n")
    paths["empty"].write_bytes(b"")
    paths["page"].write_text("<!DOCTYPE html><html>" + " " * 100)
    bundle = BundledProgram(program, suites)
    paths["bundle"].write_bytes(serialize_from_bundled_program_to_flatbuffer(bundle))
    program.get_etrecord().save(str(paths["record"]))
    for name, save in (
        ("weights", lambda path: torch.save(model.state_dict(), path)),
        ("old", lambda path: torch.save({}, path, _use_new_zipfile_serialization=False)),
        ("archive", lambda path: torch.export.save(exported, path)),
        ("script", lambda path: torch.jit.save(torch.jit.trace(model, x), path)),
    ):
        paths[name] = folder / f"{name}.pt"
        save(paths[name])
    archive = paths["archive"].rename(folder / "archive.pt2")
    return {**paths, "archive": archive, "data": GOLDEN / "external.ptd"}


KINDS = [
    ("lfs", "pointer of Git LFS, .* `git lfs pull`"),
    ("empty", "empty file"),
    ("page", "HTML page"),
    ("bundle", r"bundled program \(\.bpte\).*deserialize_from_flatbuffer_to_bundled_program"),
    ("record", r"\.etrecord.*parse_etrecord\(path\)"),
    ("weights", r"torch\.save.*torch\.load\(path\)"),
    ("old", r"torch\.save.*torch\.load\(path\)"),
    ("archive", r"torch\.export \(\.pt2\).*`executorch_py export"),
    ("script", "TorchScript"),
    ("data", r"external weights \(\.ptd\), no program: .*data_path .*--data"),
]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(("name", "message"), KINDS)
def test_a_file_of_another_kind_is_named_with_the_next_step(
    files: dict[str, Path], name: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = files[name]
    for opened in (path, str(path), path.read_bytes(), io.BytesIO(path.read_bytes())):
        with pytest.raises(
            ExecutorchError, match=rf"expected a program \(\.pte\), got .*{message}"
        ):
            Runtime.get().load_program(opened)
    with pytest.raises(ExecutorchError, match=message):
        _load_for_executorch(path)
    for command in (["run", str(path), "--ones"], ["inspect", str(path)]):
        assert main(command) == 1
        error = capsys.readouterr().err
        assert f"'{path}': expected a program (.pte), got" in error
        assert error.count("\n") == 1


def test_the_next_step_for_a_bundle_and_a_record_works(files: dict[str, Path]) -> None:
    from executorch_py.devtools.etrecord import parse_etrecord

    bundle = deserialize_from_flatbuffer_to_bundled_program(files["bundle"].read_bytes())
    assert Runtime.get().load_program(bundle.program).method_names == {"forward"}
    assert parse_etrecord(str(files["record"])).exported_program is not None


def test_external_weights_are_asked_for_and_other_files_in_their_place_are_named(
    files: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    program = GOLDEN / "external.pte"
    with pytest.raises(InvalidState, match=r"none was given: give load_program its data_path"):
        Runtime.get().load_program(program).load_method("forward")
    for name, message in (("weights", r"torch\.save"), ("lfs", "Git LFS"), ("empty", "empty")):
        with pytest.raises(ExecutorchError, match=rf"external weights \(\.ptd\), got .*{message}"):
            Runtime.get().load_program(program, data_path=files[name])
    with pytest.raises(ExecutorchError, match=r"got a program \(\.pte\): give it as the program"):
        Runtime.get().load_program(program, data_path=program)


def test_bytes_of_no_known_kind_keep_the_runtimes_message(tmp_path: Path) -> None:
    with pytest.raises(
        InvalidProgram, match="expected the identifier 'ET12', got bytes 78 78 78 78"
    ):
        Runtime.get().load_program(b"x" * 100)
    broken = tmp_path / "broken.pte"
    broken.write_bytes(b"PK\x03\x04" + b"x" * 100)
    with pytest.raises(InvalidProgram, match="expected the identifier 'ET12'"):
        Runtime.get().load_program(broken)


def test_reading_kinds_imports_nothing_before_a_failure() -> None:
    code = "import sys, executorch_py.runtime; assert 'zipfile' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=60)


@pytest.fixture
def method() -> Method:
    model = torch.nn.Bilinear(3, 3, 2)
    program = to_edge(torch.export.export(model, (torch.ones(2, 3),) * 2)).to_executorch()
    return Runtime.get().load_program(program.buffer).load_method("forward")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: m.execute(X, X), r"one list of all inputs, got 2 arguments: .*method\(a, b\)"),
        (lambda m: m(X, imput2=X), r"expected inputs \['input1', 'input2'\], got 'imput2'"),
        (lambda m: m(X), r"expected 2 inputs \['input1', 'input2'\], got \['input1'\]"),
        (lambda m: m(input2=X), r"expected 2 inputs .*, got \['input2'\]"),
        (lambda m: m(X, X, X), r"expected 2 inputs .*, got 3"),
        (lambda m: m([X, X]), r"got one list of 2: write method\(\*inputs\)"),
        (lambda m: m(X, X, input1=X), "expected input 'input1' once, got it by position and by n"),
        (lambda m: m.profile([X, X], runs="3"), "expected 1 or more runs, got '3'"),
        (lambda m: m.profile([X, X], runs=True), "expected 1 or more runs, got True"),
        (lambda m: m.seed("3"), "seed: expected a whole number, got '3'"),
    ],
)
def test_a_wrong_call_names_the_given_and_the_expected_inputs(
    method: Method, call: Any, message: str
) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        call(method)
    assert method(input2=X, input1=X).shape == (2, 2)


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"n_threads": "2"}, TypeError, "n_threads: expected a whole number, got '2'"),
        ({"n_threads": 2.5}, TypeError, "n_threads: expected a whole number, got 2.5"),
        ({"n_threads": -1}, InvalidArgument, "n_threads: expected 0"),
        ({"backend_options": 3}, InvalidArgument, "expected a dict of options by backend, got 3"),
        (
            {"backend_options": {"XnnpackBackend": 3}},
            InvalidArgument,
            "XnnpackBackend: expected a dict of options, got 3",
        ),
    ],
)
def test_wrong_options_of_load_program_are_named(
    options: dict[str, Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        Runtime.get().load_program(program_bytes(adder()), **options)


def test_a_manager_in_place_of_its_bytes_and_a_method_that_is_no_name() -> None:
    program = to_edge(torch.export.export(torch.nn.ReLU(), (torch.ones(2),))).to_executorch()
    with pytest.raises(TypeError, match=r"got ExecutorchProgramManager: pass data\.buffer"):
        Runtime.get().load_program(program)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="a method's name: expected str, got 3"):
        Runtime.get().load_program(program.buffer).load_method(3)  # type: ignore[arg-type]


def test_a_program_is_saved_to_names_and_open_files_only(tmp_path: Path) -> None:
    program = to_edge(torch.export.export(torch.nn.ReLU(), (torch.ones(2),))).to_executorch()
    wrong: Any = 3
    with pytest.raises(TypeError, match=r"path: expected the name of a \.pte file, got 3"):
        program.save(wrong)
    with pytest.raises(TypeError, match=r"open_file: .*, got 'x\.pte': write to a path with save"):
        program.write_to_file("x.pte")  # type: ignore[arg-type]
    with (tmp_path / "x").open("w") as text, pytest.raises(TypeError, match="got text: open 'wb'"):
        program.write_to_file(text)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="outdir: expected the name of a folder, got 3"):
        program.write_tensor_data_to_file(wrong)
    assert [path.name for path in tmp_path.iterdir()] == ["x"]
