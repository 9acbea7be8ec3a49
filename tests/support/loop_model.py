"""Static performance model of the hot loops of the micro-kernels: gcc's assembly, run by llvm-mca.

A figure is cycles per multiply-add, without cache misses and mispredicted branches. The port limit
is the time that the busiest execution port, or the dispatch of micro-operations, takes. The
multiplier limit is the port limit of the multiplications alone.
"""

from __future__ import annotations

import functools
import json
import os
import platform
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.c_build import configuration
from support.hot_loops import HotLoop, hot_loops, hottest, multiplications
from support.paths import ROOT

CSRC = ROOT / "csrc"
MICRO = CSRC / "kernels" / "micro"
TUNED = CSRC / "backends" / "xnnpack" / "tuned"
PACKAGES = {"x86_64": "gcc", "aarch64": "gcc-aarch64-linux-gnu libc6-dev-arm64-cross"}
# The flags of csrc/CMakeLists.txt and of csrc/cmake/warnings.cmake that change the code.
FLAGS = ("-std=c11", "-O3", "-DNDEBUG", "-fPIC", "-fvisibility=hidden", "-ffp-contract=off")
FLAGS += ("-fno-math-errno", "-fno-trapping-math")
ITERATIONS = 400
# LLVM has the A57's model for the A76, with half its multipliers. The N1 has the A76's pipelines.
MODELLED_AS = {"cortex-a76": "neoverse-n1"}


@dataclass(frozen=True)
class Figure:
    """Cycles of one iteration of a loop."""

    cycles: float
    port_limit: float
    multiplier_limit: float


@dataclass(frozen=True)
class Row:
    """A loop and its figures, by processor; one that calls functions has none."""

    file: str
    loop: HotLoop
    hottest: bool  # of its function
    figures: dict[str, Figure]


# ---- tools


def compiler(machine: str) -> str:
    names = [f"{machine}-linux-gnu-gcc"] + ["gcc"] * (platform.machine() == machine)
    found = next((name for name in names if shutil.which(name)), None)
    if found is None:
        raise RuntimeError(
            f"{machine}: expected {names[0]}, got none. Run `apt-get install {PACKAGES[machine]}`, "
            "or `make test` as root, which does."
        )
    return found


@functools.cache
def llvm_mca() -> str:
    """Debian's llvm-mca of LLVM 19, or else another that knows Zen 4 (LLVM 16)."""
    for name in ("llvm-mca-19", "llvm-mca", *(f"llvm-mca-{n}" for n in range(26, 15, -1))):
        if shutil.which(name) and _llvm_version(name) >= 16:
            return name
    raise RuntimeError(
        "expected llvm-mca of LLVM 16 or later, got none. Run `apt-get install llvm-19`, or `make "
        "test` as root, which does."
    )


def _llvm_version(name: str) -> int:
    told = subprocess.run([name, "--version"], check=True, capture_output=True, text=True).stdout
    match = re.search(r"LLVM version (\d+)", told)
    return int(match[1]) if match else 0


@functools.cache
def versions() -> dict[str, str]:
    """Major versions of the tools on which the figures depend."""
    found = {"llvm": str(_llvm_version(llvm_mca()))}
    for machine in PACKAGES:
        command = [compiler(machine), "-dumpversion"]
        told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        found[machine] = "gcc-" + told.split(".")[0].strip()
    return found


# ---- sources


@functools.cache
def isa_flags() -> dict[str, tuple[str, tuple[str, ...]]]:
    """Suffix of files -> machine and compiler flags."""
    lines = (MICRO / "isa_flags.txt").read_text().splitlines()
    rows = [line.split() for line in lines if line[:1].isalpha()]
    return {suffix: (machine, tuple(flags)) for suffix, machine, *flags in rows}


def suffix_of(path: Path) -> str:
    return path.stem.rpartition("_")[2]


def machine_of(file: str) -> str:
    return isa_flags()[suffix_of(Path(file))][0]


def families() -> dict[str, list[Path]]:
    """Source files with instruction sets of their own, by folder; `tuned` needs XNNPACK."""
    found: dict[str, list[Path]] = {}
    tuned = sorted(TUNED.rglob("*.c")) if xnnpack_headers() else []
    for path in sorted(MICRO.rglob("*.c")) + tuned:
        if suffix_of(path) in isa_flags():
            name = "tuned" if TUNED in path.parents else path.parent.name
            found.setdefault(name, []).append(path)
    return found


@functools.cache
def xnnpack_headers() -> tuple[str, ...]:
    """Compiler flags for the headers of XNNPACK that the extension was built with, if it was."""
    commands = configuration("release")[0] / "compile_commands.json"
    if commands.exists():
        for entry in json.loads(commands.read_text()):
            if str(entry["file"]).endswith("gemm_q8_avx2.c"):
                words = shlex.split(entry["command"])
                folders = [words[i + 1] for i, word in enumerate(words) if word == "-isystem"]
                return tuple(word for folder in folders for word in ("-isystem", folder))
    return ()


def processors(suffix: str) -> tuple[str, ...]:
    """Processors whose model runs the files of a suffix, as llvm-mca names them."""
    machine, flags = isa_flags()[suffix]
    wanted = " ".join(flags)
    if machine == "aarch64":
        all_arm = ("cortex-a55", "cortex-a76", "neoverse-n1", "neoverse-v1")
        return ("neoverse-v1",) if re.search(r"i8mm|bf16|sve", wanted) else all_arm
    if "avxvnni" in wanted:
        return ("alderlake",)
    if "amx" in wanted:  # of tiles LLVM knows no figures, but those of the results' vectors
        return ("sapphirerapids",)
    if "avx512vnni" in wanted:
        return ("icelake-server", "znver4")
    return ("skylake-avx512" if "avx512" in wanted else "skylake", "icelake-server", "znver4")


def assembly(path: Path) -> str:
    machine, flags = isa_flags()[suffix_of(path)]
    include = xnnpack_headers() if TUNED in path.parents else ()
    command = [compiler(machine), *FLAGS, *flags, *include, "-I", str(CSRC), "-S", str(path)]
    done = subprocess.run([*command, "-o", "-"], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr}")
    return done.stdout


# ---- the model


def model(
    regions: Sequence[Sequence[str]], machine: str, processor: str, iterations: int = ITERATIONS
) -> list[tuple[float, float]]:
    """Cycles and port limit of one iteration of each region of instructions."""
    told = _run_llvm_mca(regions, machine, processor, iterations)
    summaries = [region["SummaryView"] for region in told["CodeRegions"]]
    return [(s["TotalCycles"] / s["Iterations"], s["BlockRThroughput"]) for s in summaries]


def model_name(processor: str) -> str:
    """The scheduling model of LLVM behind a processor: the prefix of its units' names."""
    machine = "aarch64" if processor.startswith(("cortex", "neoverse")) else "x86_64"
    resources = _run_llvm_mca([["nop"]], machine, processor, 1)["TargetInfo"]["Resources"]
    lengths = range(len(resources[0]) + 1)
    prefixes = [
        resources[0][:n] for n in lengths if all(r[:n] == resources[0][:n] for r in resources)
    ]
    return prefixes[-1].removesuffix("Unit").removesuffix("Port")


def _run_llvm_mca(
    regions: Sequence[Sequence[str]], machine: str, processor: str, iterations: int
) -> dict[str, Any]:
    mcpu = MODELLED_AS.get(processor, processor)
    command = [llvm_mca(), f"-mtriple={machine}-linux-gnu", f"-mcpu={mcpu}", "-json"]
    command += [f"-iterations={iterations}", "-instruction-info=0", "-resource-pressure=0"]
    text = "".join(
        "".join(("# LLVM-MCA-BEGIN\n", *(f"\t{line}\n" for line in region), "# LLVM-MCA-END\n"))
        for region in regions
    )
    # GNU as takes a negative offset of PRFM for PRFUM, as gcc writes it; LLVM refuses it.
    text = re.sub(r"\bprfm(\s+\w+, \[\w+, -)", r"prfum\1", text)
    done = subprocess.run(command, input=text, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def rows_of(path: Path, every_loop: bool) -> list[Row]:
    """All hot loops of a file, with figures of the hottest of each function or of every one."""
    machine, _ = isa_flags()[suffix_of(path)]
    loops = hot_loops(assembly(path), machine)
    best = hottest(loops).values()
    rows = [Row(f"{path.parent.name}/{path.name}", loop, loop in best, {}) for loop in loops]
    modelled = [row for row in rows if (every_loop or row.hottest) and not row.loop.calls]
    whole = [row.loop.instructions for row in modelled]
    products = [[line for line, _ in multiplications(region, machine)] for region in whole]
    for processor in processors(suffix_of(path)) if modelled else ():
        found = model(whole, machine, processor)
        limits = model(products, machine, processor, iterations=1)  # on which they do not depend
        for i, row in enumerate(modelled):
            row.figures[processor] = Figure(*found[i], limits[i][1])
    return rows


def rows_of_all(paths: Sequence[Path], every_loop: bool = False) -> Iterator[Row]:
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for rows in pool.map(lambda path: rows_of(path, every_loop), paths):
            yield from rows
