"""Files of packed weights: reuse by a second load, damaged files, and memory of the source weights.

tests/c/test_xnnpack_execute.c tests each kind of damage.
"""

from __future__ import annotations

import time
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from support.program_maker import adder, program_bytes
from support.tolerance import F32

from executorch_py import _C
from executorch_py.cli.main import main
from executorch_py.errors import NotFound
from executorch_py.runtime import Program, Runtime, pack_weights
from executorch_py.runtime.file_layout import describe

pytestmark = pytest.mark.skipif(
    "XnnpackBackend" not in _C.backend_names(), reason="this build is without XNNPACK"
)
X = np.linspace(-1, 1, 2 * 48, dtype=np.float32).reshape(2, 48)


def lower(model: torch.nn.Module, file: Path) -> Path:
    from executorch_py.backends.xnnpack import XnnpackPartitioner
    from executorch_py.exir import to_edge_transform_and_lower

    program = torch.export.export(model, (torch.from_numpy(X),))
    edge = to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner()])
    file.write_bytes(edge.to_executorch().buffer)
    return file


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(48, 64), torch.nn.Linear(64, 16)).eval()
    return lower(model, tmp_path_factory.mktemp("packed") / "linear.pte")


def load(path: Path, packed: Path, saves: bool = True) -> Program:
    options = {"packed_cache_path": packed, "save_weight_cache_on_disk": saves}
    return Runtime.get().load_program(path, backend_options={"XnnpackBackend": options})


def run(program: Program) -> NDArray[np.float32]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result: NDArray[np.float32] = program.load_method("forward").execute([X])[0]
    return result


def test_a_second_load_packs_nothing(path: Path, tmp_path: Path) -> None:
    packed = tmp_path / "w"
    first = load(path, packed)
    expected = run(first)
    assert first.packed_weights["packed"] == 2
    second = load(path, packed)
    np.testing.assert_array_equal(run(second), expected)
    facts = second.packed_weights
    assert (facts["packed"], facts["mapped"], facts["shared"], facts["damaged"]) == (0, 2, 2, 0)
    assert facts["mapped_bytes"] == facts["bytes"] == first.packed_weights["bytes"]


@pytest.mark.parametrize("saves", [True, False])
def test_damaged_weights_are_reported_by_the_first_run_and_repaired(
    path: Path, tmp_path: Path, saves: bool
) -> None:
    packed = tmp_path / "w"
    expected = run(load(path, packed))
    content = bytearray(packed.read_bytes())
    content[len(content) // 2] ^= 1
    packed.write_bytes(content)
    program = load(path, packed, saves)
    method = program.load_method("forward")
    with pytest.warns(RuntimeWarning, match=r"w': 1 of them are damaged and were packed anew"):
        first = method.execute([X])[0]
    np.testing.assert_array_equal(first, expected)
    assert program.packed_weights["damaged"] == program.packed_weights["packed"] == 1
    np.testing.assert_array_equal(method.execute([X])[0], expected)
    assert (packed.read_bytes() == bytes(content)) is not saves
    if saves:
        np.testing.assert_array_equal(run(load(path, packed)), expected)


def test_another_file_is_replaced_with_a_warning(path: Path, tmp_path: Path) -> None:
    packed = tmp_path / "w"
    packed.write_bytes(b"x" * 5000)
    with pytest.warns(RuntimeWarning, match="not used and will be packed anew"):
        program = load(path, packed)
    run(program)
    assert program.packed_weights["packed"] == 2
    assert load(path, packed).packed_weights["mapped"] == 2


def forged(path: Path, file: Path) -> Path:
    """The program with other weights under the same names."""
    data = bytearray(path.read_bytes())
    (named,) = (
        segment
        for segment in describe(bytes(data))["segments"]
        if segment["nbytes"] == X.itemsize * 48 * 64
    )
    start = named["offset"]
    data[start : start + named["nbytes"]] = bytes(named["nbytes"])
    file.write_bytes(data)
    return file


@pytest.mark.parametrize("honest_first", [True, False])
def test_a_program_with_the_names_of_another_changes_only_its_own_results(
    path: Path, tmp_path: Path, honest_first: bool
) -> None:
    false = forged(path, tmp_path / "forged.pte")
    expected = {p: run(load(p, tmp_path / f"{p.name}.packed", saves=False)) for p in (path, false)}
    assert not np.array_equal(expected[path], expected[false])
    paths = [path, false] if honest_first else [false, path]
    programs = [Runtime.get().load_program(p) for p in paths]  # in memory at the same time
    for program, p in zip(programs, paths, strict=True):
        np.testing.assert_array_equal(run(program), expected[p])


def age(file: Path) -> None:
    """Wait until a file has an identity: its last change is then 4 seconds ago."""
    wait = file.stat().st_ctime + 4.1 - time.time()
    if wait > 0:
        time.sleep(wait)


def test_programs_from_one_unchanged_file_pack_its_weights_once(path: Path) -> None:
    age(path)
    first = Runtime.get().load_program(path)
    expected, before = run(first), first.packed_weights
    second = Runtime.get().load_program(path)
    np.testing.assert_array_equal(run(second), expected)
    assert second.packed_weights["shared"] == before["shared"] + 2
    assert second.packed_weights["repacked"] == before["repacked"]


def test_loads_trust_the_file_after_a_program_without_an_identity_is_gone(
    path: Path, tmp_path: Path
) -> None:
    file = tmp_path / "model.pte"
    file.write_bytes(path.read_bytes())
    program = Runtime.get().load_program(file)  # has just changed: no identity
    expected, repacked = run(program), []
    age(file)
    for _ in range(3):  # each outlives the one before it
        newer = Runtime.get().load_program(file)
        np.testing.assert_array_equal(run(newer), expected)
        program, counts = newer, newer.packed_weights
        repacked.append(counts["repacked"])
    assert program.packed_weights["shared"] >= 6
    assert repacked[1] == repacked[0] and repacked[2] == repacked[0]


def test_a_file_that_was_replaced_under_its_path_packs_its_own_weights(
    path: Path, tmp_path: Path
) -> None:
    file = tmp_path / "model.pte"
    file.write_bytes(path.read_bytes())
    age(file)
    first = Runtime.get().load_program(file)
    expected = run(first)
    forged(path, tmp_path / "new.pte").replace(file)
    assert not np.array_equal(run(Runtime.get().load_program(file)), expected)


def test_a_file_that_changes_twice_in_one_tick_of_the_clock_packs_its_own_weights(
    path: Path, tmp_path: Path
) -> None:
    file = tmp_path / "model.pte"
    file.write_bytes(path.read_bytes())
    first = Runtime.get().load_program(file)
    expected = run(first)
    with file.open("r+b") as stream:  # in place: the inode and the size stay
        stream.write(forged(path, tmp_path / "new.pte").read_bytes())
    assert not np.array_equal(run(Runtime.get().load_program(file)), expected)


def test_a_file_keeps_no_weights_with_false_names(path: Path, tmp_path: Path) -> None:
    false, packed = forged(path, tmp_path / "forged.pte"), tmp_path / "w"
    expected = run(load(path, tmp_path / "other"))
    with pytest.warns(RuntimeWarning, match="expected the SHA-256 .* got other names for 1 in "):
        load(false, packed).load_method("forward").execute([X])
    second = load(path, packed)
    assert second.packed_weights["mapped"] == 1  # the second layer's, which are honest
    np.testing.assert_array_equal(run(second), expected)


def resident_bytes(path: Path) -> int:
    """Resident bytes of this process's mappings of a file."""
    total, is_here = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if line.endswith("kB"):
            total += int(line.split()[1]) * 1024 if is_here and line.startswith("Rss:") else 0
        elif not line.startswith("VmFlags"):
            is_here = line.endswith(str(path))
    return total


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="needs Linux's /proc/self/smaps")
def test_pages_of_packed_weights_in_a_mapped_file_are_discarded(
    tmp_path: Path,
) -> None:
    model = torch.nn.Linear(48, 80_000).eval()
    path = lower(model, tmp_path / "large.pte")
    data = path.read_bytes()
    expected = model(torch.from_numpy(X)).detach().numpy()
    options = {"XnnpackBackend": {"weight_cache_enabled": False}}
    for source in (path, data):
        program = Runtime.get().load_program(source, backend_options=options)
        method = program.load_method("forward")
        np.testing.assert_allclose(method.execute([X])[0], expected, *F32)
        if source is path:
            assert resident_bytes(path) < len(data) // 3  # a huge page or two may stay
    assert data == path.read_bytes()


def test_weights_that_are_packed_ahead_are_mapped_by_a_load_that_writes_nothing(
    path: Path, tmp_path: Path
) -> None:
    expected = run(Runtime.get().load_program(path))
    for packed in (tmp_path / "w", None):
        facts = pack_weights(path, packed)
        file = path.with_suffix(".packed") if packed is None else packed
        assert facts["path"] == str(file) and facts["packed"] == 2
        before = file.read_bytes()
        program = load(path, file, saves=False)
        np.testing.assert_array_equal(run(program), expected)
        assert (program.packed_weights["packed"], program.packed_weights["mapped"]) == (0, 2)
        assert file.read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["w"]


def test_packing_ahead_replaces_what_is_there(path: Path, tmp_path: Path) -> None:
    packed = tmp_path / "w"
    packed.write_bytes(b"x" * 5000)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert pack_weights(path, packed)["packed"] == 2
    assert load(path, packed).packed_weights["mapped"] == 2


def test_a_program_whose_bytes_differ_packs_its_own_weights(path: Path, tmp_path: Path) -> None:
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(48, 64), torch.nn.Linear(64, 16)).eval()
    other = lower(model, tmp_path / "other.pte")
    pack_weights(path, tmp_path / "w")
    program = load(other, tmp_path / "w", saves=False)
    np.testing.assert_array_equal(run(program), run(Runtime.get().load_program(other)))
    assert program.packed_weights["packed"] == 2


def test_packing_ahead_needs_a_delegate(tmp_path: Path) -> None:
    (tmp_path / "add.pte").write_bytes(program_bytes(adder()))
    with pytest.raises(NotFound, match="expected a program with weights that XNNPACK packs"):
        pack_weights(tmp_path / "add.pte")
    assert [p.name for p in tmp_path.iterdir()] == ["add.pte"]


def test_the_command_says_what_it_packed_and_for_which_machine(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["pack", str(path), "-o", str(tmp_path / "w")]) == 0
    said = capsys.readouterr().out
    assert (
        "w': 2 weights, " in said
        and f"for XNNPACK {_C.system_info()['xnnpack']['version']}" in said
    )
