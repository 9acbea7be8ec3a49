"""Builds same_bits for each machine, runs it, and compares its bits with hashes.txt.

    python tests/bits/machines.py                    # builds and runs all, compares with hashes.txt
    python tests/bits/machines.py aarch64 wasm32     # some
    python tests/bits/machines.py --write            # rewrites hashes.txt: after a change of
                                                     # calls, or of what an operator computes

--write takes the hashes from the scalar loops of this machine; the operator tests verify that the
numbers are right. A line has a call and, for each element type that replaces f32, the hash of its
results.
"""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
CALLS = (FOLDER.parent / "fuzz" / "calls.txt", FOLDER / "calls.txt")
HASHES = FOLDER / "hashes.txt"
HERE = {"x86_64": "x86-64", "AMD64": "x86-64", "arm64": "aarch64"}.get(
    platform.machine(), platform.machine()
)

AMX_SUFFIX = "_amx"  # of programs with emulated tiles (csrc/cmake/amx_emulated.cmake)


class MachineError(Exception):
    """A machine that cannot be built or run, with what to install."""


@dataclass(frozen=True)
class Machine:
    name: str
    preset: str
    levels: tuple[str, ...]  # instruction sets that the machine must compare
    is_emulated: bool = False
    emulator: str = ""
    tools: tuple[tuple[str, str], ...] = ()  # program, Debian package
    files: tuple[tuple[str, str], ...] = ()
    program: str = "same_bits"


def cpu_flags() -> set[str]:
    """The features of this processor, as Linux names them; none on other systems."""
    info = Path("/proc/cpuinfo")
    return set(info.read_text().split()) if info.exists() else set()


def can_emulate_amx() -> bool:
    """Whether this processor has all instructions of kernels on tiles of AMX but those of tiles,
    which programs named *_amx have in C (tests/c/amx_emulated.h)."""
    needed = {"avx2", "avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512_vnni", "avx512_bf16"}
    return needed <= cpu_flags()


def levels_here() -> tuple[str, ...]:
    """The instruction sets of this processor for which the kernels have code."""
    flags = cpu_flags()
    if HERE == "aarch64":
        has_dot = "asimddp" in flags
        has_i8mm = has_dot and "i8mm" in flags
        has = {"neondot": has_dot, "neoni8mm": has_i8mm, "neonbf16": "bf16" in flags}
        return ("scalar", "neon", *(name for name in has if has[name]))
    has_avx2 = {"avx2", "fma", "f16c"} <= flags
    has_avx512 = has_avx2 and {"avx512f", "avx512bw", "avx512dq", "avx512vl"} <= flags
    has = {
        "avx2": has_avx2,
        "avx512": has_avx512,
        "avxvnni": has_avx2 and "avx_vnni" in flags,
        "avx512vnni": has_avx512 and "avx512_vnni" in flags,
        "amx": has_avx512 and {"avx512_vnni", "amx_tile", "amx_int8"} <= flags,
        "avx512bf16": has_avx512 and "avx512_bf16" in flags,
    }
    return ("scalar", *(name for name in has if has[name]))


def emulated(name: str, prefix: str, libc: str, levels: tuple[str, ...]) -> Machine:
    emulator = f"qemu-{prefix.split('-')[0]}"
    tools = ((emulator, "qemu-user"), (f"{prefix}-gcc", f"gcc-{prefix}"))
    files = ((f"/usr/{prefix}/lib/libc.a", libc),)
    return Machine(name, f"same-bits-{name}", levels, True, emulator, tools, files)


def with_emulated_amx(levels: tuple[str, ...]) -> tuple[Machine, ...]:
    """This machine with tiles of AMX in C, if it has the other instructions of these kernels."""
    if not can_emulate_amx():
        return ()
    at = levels.index("avx512vnni") + 1
    found = (*levels[:at], "amx", *(name for name in levels[at:] if name != "amx"))
    name = "x86-64, emulated AMX"
    return (Machine(name, "release", found, is_emulated=True, program=f"same_bits{AMX_SUFFIX}"),)


MACHINES = {
    m.name: m
    for m in (
        Machine(f"{HERE}, gcc", "release", levels_here()),
        Machine(f"{HERE}, clang", "same-bits-clang", levels_here(), tools=(("clang", "clang"),)),
        emulated(
            "aarch64",
            "aarch64-linux-gnu",
            "libc6-dev-arm64-cross",
            ("scalar", "neon", "neondot", "neoni8mm", "neonbf16"),
        ),
        emulated("riscv64", "riscv64-linux-gnu", "libc6-dev-riscv64-cross", ("scalar",)),
        Machine("wasm32", "same-bits-wasm32", ("scalar",), is_emulated=True),
        *with_emulated_amx(levels_here()),
    )
}
REFERENCE = next(iter(MACHINES))


def check_tools(machine: Machine) -> None:
    missing = [package for tool, package in machine.tools if shutil.which(tool) is None]
    missing += [package for path, package in machine.files if not Path(path).exists()]
    if missing:
        names = " ".join(missing)
        raise MachineError(
            f"{machine.name}: not installed: {names}. Run `apt-get install {names}` as root, or "
            "`make test` as root, which does."
        )


def zig() -> Path:
    try:
        import wasmtime
        import ziglang
    except ImportError as error:
        raise MachineError(
            f"wasm32: {error}. Run `python -m pip install ziglang wasmtime`, or `make test`, which "
            "does."
        ) from None
    assert wasmtime.__file__ is not None and ziglang.__file__ is not None
    return Path(ziglang.__file__).parent / "zig"


def build(machine: Machine) -> Path:
    """The program same_bits for that machine."""
    from support.c_build import build_c

    check_tools(machine)
    settings = [f"-DET_ZIG={zig()}"] if machine.name == "wasm32" else []
    folder = build_c(machine.preset, machine.program, *settings)
    return folder / (machine.program + (".wasm" if machine.name == "wasm32" else ""))


def run_wasm(program: Path, arguments: Sequence[str], text: str) -> str:
    import wasmtime

    engine = wasmtime.Engine()
    store = wasmtime.Store(engine)
    linker = wasmtime.Linker(engine)
    linker.define_wasi()
    with tempfile.TemporaryDirectory() as folder:
        given, found = Path(folder, "in"), Path(folder, "out")
        given.write_text(text)
        wasi = wasmtime.WasiConfig()
        wasi.argv = ["same_bits", *arguments]
        wasi.stdin_file = str(given)
        wasi.stdout_file = str(found)
        store.set_wasi(wasi)
        instance = linker.instantiate(store, wasmtime.Module.from_file(engine, str(program)))
        start = instance.exports(store)["_start"]
        assert isinstance(start, wasmtime.Func)
        try:
            start(store)
        except wasmtime.ExitTrap as end:
            if end.code not in (0, 1):
                raise MachineError(f"wasm32: same_bits ended with code {end.code}") from None
        return found.read_text()


def run(machine: Machine, program: Path) -> str:
    """The output of same_bits for all calls. An exit code of 1 means differences within the
    machine, which the output lists. Emulated processors are slow, so they run each call in two ways
    of the four."""
    arguments = ["--quick"] if machine.is_emulated else []
    text = "".join(path.read_text() for path in CALLS)
    if machine.name == "wasm32":
        return run_wasm(program, arguments, text)
    command = [*([machine.emulator] if machine.emulator else []), str(program), *arguments]
    done = subprocess.run(command, input=text, capture_output=True, text=True)
    if done.returncode not in (0, 1):
        end = "\n".join(done.stdout.splitlines()[-2:])
        raise MachineError(f"{machine.name}: ended with {done.returncode}:\n{end}\n{done.stderr}")
    return done.stdout


def table_of(text: str) -> dict[str, dict[str, str]]:
    """call -> element type -> hash"""
    table = {}
    for line in text.splitlines():
        found = re.fullmatch(r"(\w+::.*) =((?: \w+ [0-9a-f]{16})*)", line)
        if found:
            words = found[2].split()
            table[found[1]] = dict(zip(words[::2], words[1::2], strict=True))
    return table


def differences(text: str, expected: dict[str, dict[str, str]]) -> list[str]:
    """Differences between a machine's output and the table."""
    wrong = [line for line in text.splitlines() if line.startswith("differs")]
    found = table_of(text)
    for call in expected.keys() | found.keys():
        ours, theirs = found.get(call), expected.get(call)
        if ours is None or theirs is None:
            wrong.append(f"{call}: {'missing' if ours is None else 'not in hashes.txt'}")
            continue
        types = [t for t in ours.keys() | theirs.keys() if ours.get(t) != theirs.get(t)]
        if types:
            wrong.append(f"{call}: other results as {', '.join(sorted(types))}")
    return sorted(wrong)


def main(arguments: Sequence[str]) -> int:
    if "--write" in arguments:
        machine = MACHINES[REFERENCE]
        text = run(machine, build(machine))
        lines = [f"{line}\n" for line in text.splitlines() if table_of(line)]
        HASHES.write_text("".join(lines))
        wrong = differences(text, table_of(text))
        print(f"{HASHES.name}: {len(lines)} calls", *wrong[:20], sep="\n  ")
        return min(len(wrong), 1)
    unknown = [name for name in arguments if name not in MACHINES]
    if unknown:
        print(f"no such machine: {unknown[0]!r}: expected --write or some of {list(MACHINES)}")
        return 2
    failed = 0
    for name in arguments or MACHINES:
        machine = MACHINES[name]
        try:
            wrong = differences(run(machine, build(machine)), table_of(HASHES.read_text()))
        except MachineError as error:
            print(error)
            failed += 1
            continue
        print(f"{name}: {len(wrong)} differences", *wrong[:20], sep="\n  ")
        failed += len(wrong) > 0
    return min(failed, 1)


if __name__ == "__main__":
    sys.path.insert(0, str(FOLDER.parent))
    sys.exit(main(sys.argv[1:]))
