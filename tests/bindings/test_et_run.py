"""The command-line runner in C: its output, and independence of its runs."""

from __future__ import annotations

import os
import resource
import stat
import subprocess
from pathlib import Path

import pytest
import torch
from support.c_build import build_c
from support.program_maker import MethodMaker, adder, program_bytes

from executorch_py.exir import to_edge


@pytest.fixture(scope="module")
def et_run() -> Path:
    return build_c("release", "et_run") / "et_run"


def said(*command: object, status: int = 0) -> str:
    done = subprocess.run([*map(str, command)], capture_output=True, text=True)
    assert done.returncode == status, done.stderr
    return done.stdout + done.stderr


def doubled(path: Path, dtype: str = "float32") -> Path:
    """A program of x + x, written over x."""
    maker = MethodMaker()
    x = maker.tensor([2, 2], dtype=dtype)
    maker.add(x, x, x)
    maker.inputs.append(x)
    maker.outputs.append(x)
    path.write_bytes(program_bytes(maker))
    return path


def test_every_run_starts_with_the_inputs_that_were_given(et_run: Path, tmp_path: Path) -> None:
    program = doubled(tmp_path / "doubled.pte")
    assert "= 2 2 2 2" in said(et_run, program)
    assert "= 2 2 2 2" in said(et_run, program, "--repeat", 5)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_types_are_filled_and_printed(et_run: Path, tmp_path: Path, dtype: str) -> None:
    printed = said(et_run, doubled(tmp_path / "half.pte", dtype), "--input", "0=random")
    values = [float(word) for word in printed.rpartition("= ")[2].split()]
    assert len(set(values)) == 4 and all(0 <= value < 2 for value in values)


def test_the_manual_is_printed_on_request_and_where_no_program_is_named(et_run: Path) -> None:
    assert said(et_run, "--help").startswith("usage: et_run model.pte [--method M]")
    assert "no model; usage: et_run" in said(et_run, status=2)


def saved(et_run: Path, folder: Path, status: int = 0, limit: int | None = None) -> str:
    """Output of a run that saves its result as out0.bin in a folder, with a limit of file sizes."""

    def limited() -> None:
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    program = doubled(folder.parent / "doubled.pte")
    done = subprocess.run(
        [str(et_run), str(program), "--output", str(folder / "out")],
        capture_output=True,
        text=True,
        preexec_fn=limited,
    )
    assert done.returncode == status, done.stderr
    return done.stderr


def test_a_saved_output_replaces_the_old_file_whole(et_run: Path, tmp_path: Path) -> None:
    folder, place = tmp_path / "folder", tmp_path / "folder" / "out0.bin"
    folder.mkdir()
    mask = os.umask(0)
    os.umask(mask)
    saved(et_run, folder)
    assert len(place.read_bytes()) == 16
    assert stat.S_IMODE(place.stat().st_mode) == 0o666 & ~mask
    place.write_bytes(b"old")
    place.chmod(0o640)
    assert "cannot write" in saved(et_run, folder, status=2, limit=8)
    assert place.read_bytes() == b"old"
    assert os.listdir(folder) == ["out0.bin"]
    saved(et_run, folder)
    assert len(place.read_bytes()) == 16
    assert stat.S_IMODE(place.stat().st_mode) == 0o640
    assert os.listdir(folder) == ["out0.bin"]


def test_a_saved_output_follows_links_and_is_written_to_devices(
    et_run: Path, tmp_path: Path
) -> None:
    folder, place = tmp_path / "folder", tmp_path / "folder" / "out0.bin"
    folder.mkdir()
    target = tmp_path / "target"
    for _ in range(2):  # a new file, then an old one
        place.unlink(missing_ok=True)
        place.symlink_to(target)
        saved(et_run, folder)
        assert place.is_symlink() and len(target.read_bytes()) == 16
    place.unlink()
    place.symlink_to("/dev/full")
    assert "cannot write" in saved(et_run, folder, status=2)
    assert "cannot write" in saved(et_run, folder / "absent", status=2)


def test_an_input_file_of_another_size_is_refused(et_run: Path, tmp_path: Path) -> None:
    program, given = doubled(tmp_path / "doubled.pte"), tmp_path / "x.bin"
    for n, found in ((15, "15"), (17, "17 or more")):
        given.write_bytes(bytes(n))
        printed = said(et_run, program, "--input", given, status=2)
        assert f"x.bin: expected exactly 16 bytes, got {found}\n" in printed
    assert "option: expected a value after it, got none: --input" in said(
        et_run, program, "--input", status=2
    )


HOSTILE = "x\x1b[31m\r\x08\x7f\x9b\u202e\u2066\u200f\u2028é名🙂"
SHOWN = r"x\x1b[31m\x0d\x08\x7f\x9b\u202e\u2066\u200f\u2028é名🙂"


def test_names_are_printed_without_control_characters(et_run: Path, tmp_path: Path) -> None:
    program = tmp_path / "named.pte"
    maker = adder(name=HOSTILE)
    maker.outputs.append(maker.scalar(HOSTILE + "<bytes>"))
    program.write_bytes(program_bytes(maker).replace(b"<bytes>", b"\xff\xed\xa0\x80\xfe\xc0\x80"))
    printed = said(et_run, program, "--method", HOSTILE)
    assert f"method {SHOWN}, 1 instructions" in printed
    assert SHOWN + r"\xff\xed\xa0\x80\xfe\xc0\x80" in printed
    maker = adder()
    maker.operators[0] = type(maker.operators[0])(HOSTILE, "out")
    program.write_bytes(program_bytes(maker))
    printed = said(et_run, program, status=1)
    assert SHOWN in printed and all(c.isprintable() or c == "\n" for c in printed)


class Scores(torch.nn.Module):
    def forward(self, tokens: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"logits": tokens * 2, "größe": tokens + 1}


def test_outputs_are_listed_with_the_names_of_the_model(et_run: Path, tmp_path: Path) -> None:
    exported = torch.export.export(Scores(), (torch.ones(2),))
    to_edge(exported).to_executorch().save(str(tmp_path / "scores.pte"))
    printed = said(et_run, tmp_path / "scores.pte")
    assert "output 0 logits: f32 [2] = 2 2" in printed
    assert "output 1 größe: f32 [2] = 2 2" in printed


def test_a_long_name_is_shortened(et_run: Path, tmp_path: Path) -> None:
    program = tmp_path / "named.pte"
    name = "é" * 5000
    maker = adder()
    maker.outputs.append(maker.scalar(name))
    program.write_bytes(program_bytes(maker))
    assert "é… (10000 bytes) …é" in said(et_run, program)
