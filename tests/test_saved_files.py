"""Every function and command that saves a file, on a full disk: the old file stays whole.

The disk is full after some bytes: by a file that says so, by a limit of the process, and by
/dev/full behind a link.
"""

from __future__ import annotations

import errno
import io
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import IO, Any

import pytest
import torch
from support.paths import ROOT
from support.program_maker import adder, program_bytes

from executorch_py import atomic_file, exir
from executorch_py.cli.main import main
from executorch_py.devtools import generate_etrecord
from executorch_py.exir import ExecutorchBackendConfig, to_edge
from executorch_py.extension.export_util.utils import save_pte_program
from executorch_py.util.activation_memory_profiler import generate_memory_trace

Save = Callable[[Path], Any]


@cache
def exported() -> Any:
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU())
    return torch.export.export(model.eval(), (torch.ones(1, 64),))


@cache
def edge() -> Any:
    return to_edge(exported())


@cache
def manager() -> Any:
    return edge().to_executorch(ExecutorchBackendConfig(external_constants=True))


@cache
def whole() -> Any:
    return edge().to_executorch()


def run_and_save(path: Path) -> None:
    program = path.parent.parent / "add.pte"
    program.write_bytes(program_bytes(adder()))
    status = main(["run", str(program), "--ones", "--threads", "1", "--output", str(path)])
    if status != 0:
        raise OSError(errno.ENOSPC, "the command failed")


def save_data(path: Path) -> None:
    manager().write_tensor_data_to_file(path.parent)


def save_in_folder(path: Path) -> None:
    save_pte_program(whole(), path.name, str(path.parent))


# A name for a file, and a function that saves it there.
WRITERS: dict[str, tuple[str, Save]] = {
    "program": ("model.pte", lambda path: whole().save(path)),
    "program in a folder": ("model.pte", save_in_folder),
    "external weights": ("_default_external_constant.ptd", save_data),
    "exported program": ("model.pt2", lambda path: exir.save(exported(), path)),
    "edge program": ("model.bin", lambda path: exir.save(edge().exported_program(), path)),
    "record": ("record.bin", lambda path: generate_etrecord(path, edge(), whole())),
    "memory trace": ("trace.json", lambda path: generate_memory_trace(whole(), path)),
    "outputs": ("outputs.npz", run_and_save),
}
every_writer = pytest.mark.parametrize("writer", WRITERS.values(), ids=WRITERS)


class SmallDisk(io.FileIO):
    """A file on a disk that has room for some bytes only."""

    def __init__(self, file: IO[bytes], room: int) -> None:
        super().__init__(os.dup(file.fileno()), "wb")
        file.close()
        self.room = room

    def write(self, data: Any) -> int:
        self.room -= memoryview(data).nbytes
        if self.room < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().write(data)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "folder").mkdir()
    return tmp_path / "folder"


@every_writer
@pytest.mark.parametrize("room", [0, 150])
def test_a_full_disk_leaves_the_old_file_and_no_other(
    writer: tuple[str, Save], room: int, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, save = writer
    path = folder / name
    save(path)
    old, names = path.read_bytes(), sorted(os.listdir(folder))
    assert len(old) > 150
    create = atomic_file._create
    monkeypatch.setattr(atomic_file, "_create", lambda target: SmallDisk(create(target), room))
    with pytest.raises(OSError) as caught:
        save(path)
    assert caught.value.errno == errno.ENOSPC
    assert path.read_bytes() == old
    assert sorted(os.listdir(folder)) == names


@every_writer
def test_a_full_device_behind_a_link_is_an_error(writer: tuple[str, Save], folder: Path) -> None:
    name, save = writer
    (folder / name).symlink_to("/dev/full")
    with pytest.raises(OSError) as caught:
        save(folder / name)
    assert caught.value.errno == errno.ENOSPC
    assert (folder / name).is_symlink()


@pytest.mark.parametrize("name", sorted(set(WRITERS) - {"external weights", "outputs"}))
def test_a_missing_folder_is_named(name: str, folder: Path) -> None:
    file, save = WRITERS[name]
    with pytest.raises(FileNotFoundError, match="expected an existing folder"):
        save(folder / "absent" / file)


def test_the_command_line_names_a_missing_folder(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(OSError):
        run_and_save(folder / "absent" / "outputs.npz")
    message = capsys.readouterr().err
    assert "expected an existing folder" in message and message.count("\n") == 1


@every_writer
def test_a_saved_file_can_be_read_by_others(writer: tuple[str, Save], folder: Path) -> None:
    name, save = writer
    save(folder / name)
    mask = os.umask(0)
    os.umask(mask)
    assert (folder / name).stat().st_mode & 0o777 == 0o666 & ~mask


@pytest.mark.parametrize("ending", ["limit", "kill"])
def test_a_program_is_whole_after_its_process_has_ended_in_a_save(
    ending: str, tmp_path: Path
) -> None:
    path = tmp_path / "model.pte"
    path.write_bytes(b"old")
    code = """
        import os, resource, sys
        import torch
        from executorch_py import exir
        from executorch_py.exir.serialize.cord import Cord

        ending, path = sys.argv[1:]
        ep = torch.export.export(torch.nn.Linear(64, 64), (torch.ones(1, 64),))
        manager = exir.to_edge(ep).to_executorch()
        if ending == "limit":
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
        else:
            write = Cord.write_to_file
            def killed(cord, file):
                write(cord, file)
                file.flush()
                os.kill(os.getpid(), 9)
            Cord.write_to_file = killed
        for save in (manager.save, lambda path: exir.save(ep, path)):
            try:
                save(path)
            except OSError as error:
                print(error)
        """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), ending, str(path)],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert path.read_bytes() == b"old"
    if ending == "kill":
        assert done.returncode == -signal.SIGKILL
        return
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("File too large") == 2
    assert os.listdir(tmp_path) == ["model.pte"]


def test_an_error_of_a_given_file_is_raised_and_does_not_end_the_process() -> None:
    class Full(io.BytesIO):
        def write(self, data: Any) -> int:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(OSError, match="No space left"):
        exir.save(exported(), Full())


def test_weights_are_not_copied_while_a_program_is_saved(folder: Path) -> None:
    """Bytes of the largest part that any one write is given; a copy would be a `bytes` object."""
    given: list[Any] = []
    program = whole()

    class Witness(io.RawIOBase):
        def write(self, data: Any) -> int:
            given.append(data)
            return memoryview(data).nbytes

    program.write_to_file(Witness())
    largest = max(given, key=lambda data: memoryview(data).nbytes)
    assert isinstance(largest, memoryview)


def test_a_record_holds_programs_that_load(folder: Path) -> None:
    from executorch_py.devtools import parse_etrecord

    generate_etrecord(folder / "record.bin", edge(), whole())
    read = parse_etrecord(folder / "record.bin")
    assert read.edge_dialect_program is not None
