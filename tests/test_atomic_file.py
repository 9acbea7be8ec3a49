"""Files that are replaced in one step, under full disks, kills, links and permissions."""

from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
import sys
import tempfile
import textwrap
import threading
from pathlib import Path

import pytest
from support.paths import ROOT

from executorch_py import atomic_file
from executorch_py.atomic_file import copy_file, replacing, staged, write_text

ENOSPC = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def python(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT)


def only(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def old(tmp_path: Path) -> Path:
    path = tmp_path / "old.bin"
    path.write_bytes(b"old")
    return path


def test_a_file_is_made_and_replaced(tmp_path: Path) -> None:
    path = tmp_path / "new.bin"
    for data in (b"first", b"second"):
        with replacing(path) as file:
            file.write(data)
        assert path.read_bytes() == data
    assert only(tmp_path) == ["new.bin"]


def test_readers_keep_the_old_file(old: Path) -> None:
    with old.open("rb") as reader:
        with replacing(str(old)) as file:
            file.write(b"new")
            assert old.read_bytes() == b"old"
        assert reader.read() == b"old"
    assert old.read_bytes() == b"new"


@pytest.mark.parametrize("error", [ENOSPC, ValueError("midway"), KeyboardInterrupt()])
def test_an_exception_leaves_the_old_file_and_no_other(old: Path, error: BaseException) -> None:
    def midway() -> None:
        with replacing(old) as file:
            file.write(b"n" * 100000)
            raise error

    with pytest.raises(type(error)):
        midway()
    assert old.read_bytes() == b"old"
    assert only(old.parent) == ["old.bin"]


def test_a_full_disk_is_an_error_that_names_the_file(
    old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(atomic_file.os, "fsync", full)
    with pytest.raises(OSError, match=r"No space left on device: '.*old\.bin'"):
        write_text(old, "new")
    assert old.read_bytes() == b"old"
    assert only(old.parent) == ["old.bin"]


def test_a_limit_of_file_sizes_leaves_the_old_file(old: Path) -> None:
    done = python(
        """
        import resource, sys
        from executorch_py.atomic_file import replacing
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
        with replacing(sys.argv[1]) as file:
            file.write(bytes(100000))
        """,
        old,
    )
    assert done.returncode == 1
    assert f"File too large: '{old}'" in done.stderr
    assert old.read_bytes() == b"old"
    assert only(old.parent) == ["old.bin"]


def test_a_killed_process_leaves_the_old_file(old: Path) -> None:
    done = python(
        """
        import os, sys
        from executorch_py.atomic_file import replacing
        with replacing(sys.argv[1]) as file:
            file.write(b"n" * 100000)
            file.flush()
            os.kill(os.getpid(), 9)
        """,
        old,
    )
    assert done.returncode == -signal.SIGKILL
    assert old.read_bytes() == b"old"


def test_permissions_are_those_of_the_umask_or_of_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "new.bin"
    before = os.umask(0o027)
    try:
        write_text(path, "a")
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
        for mode in (0o600, 0o666, 0o755):
            path.chmod(mode)
            write_text(path, "b")
            assert stat.S_IMODE(path.stat().st_mode) == mode
    finally:
        os.umask(before)


def test_nobody_reads_more_of_the_temporary_file_than_of_the_old_one(old: Path) -> None:
    old.chmod(0o600)
    with replacing(old):
        modes = [stat.S_IMODE(path.stat().st_mode) for path in old.parent.iterdir()]
    assert modes == [0o600, 0o600]


def test_a_file_that_may_not_be_written_is_refused() -> None:
    """Root may write every file, so a child process is an ordinary user if the tests are root."""
    nobody = 65534
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "old.bin"
        path.write_bytes(b"old")
        path.chmod(0o444)
        Path(folder).chmod(0o777)
        child = os.fork()
        if child == 0:
            code = 2
            try:
                if os.geteuid() == 0:
                    os.setuid(nobody)
                with replacing(path) as file:
                    file.write(b"new")
                code = 1
            except PermissionError:
                code = 0
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert path.read_bytes() == b"old" and os.listdir(folder) == ["old.bin"]


def test_links_are_followed(old: Path) -> None:
    folder = old.parent / "folder"
    folder.mkdir()
    (folder / "second").symlink_to("../old.bin")
    link = old.parent / "first"
    link.symlink_to("folder/second")
    write_text(link, "new")
    assert old.read_bytes() == b"new"
    assert link.is_symlink() and (folder / "second").is_symlink()
    dangling = old.parent / "dangling"
    dangling.symlink_to("folder/made")
    write_text(dangling, "made")
    assert (folder / "made").read_bytes() == b"made"
    assert only(folder) == ["made", "second"]


def test_a_circle_of_links_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError, match="symbolic links"), replacing(tmp_path / "a"):
        pass


def test_devices_and_pipes_are_written_directly(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No space left on device: '/dev/full'"):
        write_text("/dev/full", "x" * 100000)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    found: list[bytes] = []
    reader = threading.Thread(target=lambda: found.append(pipe.read_bytes()))
    reader.start()
    write_text(pipe, "through")
    reader.join()
    assert found == [b"through"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_standard_output_is_written_directly(tmp_path: Path) -> None:
    code = """
        from executorch_py.atomic_file import write_text
        write_text("/dev/stdout", "in the file")
        """
    assert python(code).stdout == "in the file"
    path = tmp_path / "stdout"
    with path.open("wb") as file:
        command = [sys.executable, "-c", textwrap.dedent(code)]
        subprocess.run(command, check=True, stdout=file, cwd=ROOT)
        assert os.fstat(file.fileno()).st_ino == path.stat().st_ino
    assert path.read_text() == "in the file"
    assert only(tmp_path) == ["stdout"]


def test_a_missing_folder_is_one_clear_sentence(tmp_path: Path) -> None:
    path = tmp_path / "absent" / "model.pte"
    with pytest.raises(FileNotFoundError) as caught, replacing(path):
        pass
    assert caught.value.errno == errno.ENOENT
    assert f"cannot write '{path}': expected an existing folder" in str(caught.value)
    assert "\n" not in str(caught.value)
    with pytest.raises(IsADirectoryError), replacing(tmp_path):
        pass


def test_a_program_may_open_the_file_itself(old: Path) -> None:
    def by_name(ends: str) -> None:
        with staged(old) as name:
            Path(name).write_bytes(b"new")
            if ends == "fails":
                raise RuntimeError(ends)

    with pytest.raises(RuntimeError):
        by_name("fails")
    assert old.read_bytes() == b"old"
    by_name("ends")
    assert old.read_bytes() == b"new"
    assert only(old.parent) == ["old.bin"]


def test_a_copy_keeps_times(old: Path) -> None:
    os.utime(old, (1, 1))
    copy_file(old, old.parent / "copy")
    assert (old.parent / "copy").stat().st_mtime == 1


def test_the_longest_name_of_a_file_is_written(tmp_path: Path) -> None:
    path = tmp_path / ("n" * 255)
    write_text(path, "text")
    assert path.read_text() == "text"
