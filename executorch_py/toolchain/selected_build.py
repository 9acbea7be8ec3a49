"""Selective build: the runtime with the kernels that given programs need, and their code size.

A build has three steps. The operators' files are compiled. The references of the objects, followed
from the selected operators, give the loops, files and bytes that are needed. Then these loops are
compiled and everything is linked. The needed sources are copied to the output folder with a
Makefile, so that the build can be repeated without this package. Relies on selection.py for C text
and elf.py for references.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from executorch_py.atomic_file import copy_file, staged, write_text
from executorch_py.toolchain import custom_sources, selection
from executorch_py.toolchain.compiler import LANGUAGE_FLAGS, call, call_all, find_compiler
from executorch_py.toolchain.custom_sources import CustomSource
from executorch_py.toolchain.elf import Graph, Node, add_object
from executorch_py.toolchain.sources import source_dir

_SECTIONS = ("-ffunction-sections", "-fdata-sections", "-fno-asynchronous-unwind-tables")
TABLE, LOOPS = "ops_selected.c", "selected_loops.h"
LIBRARY, COMMAND_SOURCE = "libet_selected.a", "tools/et_run.c"


@dataclass(frozen=True)
class Toolchain:
    """A compiler, its flags, and its target machine."""

    cc: list[str]
    flags: list[str]
    simd: bool
    messages: bool
    machine: str
    jobs: int

    @property
    def is_bare(self) -> bool:
        """Whether the target has no operating system: no files, no threads, no command to run."""
        return not any(word in self.machine for word in ("linux", "darwin", "bsd"))

    @property
    def uses_simd(self) -> bool:
        return self.simd and not self.is_bare

    def all_flags(self) -> list[str]:
        chosen = [] if self.uses_simd else ["-DET_NO_SIMD=1"]
        words = [] if self.messages else ["-DET_MESSAGES=0"]
        return [*LANGUAGE_FLAGS, *self.flags, *_SECTIONS, *chosen, *words]

    def isa_flags(self, name: str) -> tuple[str, ...] | None:
        """Extra compiler flags of a source; None if the source is for another machine."""
        for suffix, (machine, flags) in isa_table().items():
            if name.endswith(f"_{suffix}.c"):
                return flags if self.uses_simd and self.machine.startswith(machine) else None
        return ()


@cache
def isa_table() -> dict[str, tuple[str, tuple[str, ...]]]:
    """Machine and compiler flags of sources for one instruction set, by the end of their names."""
    lines = (source_dir() / "kernels" / "micro" / "isa_flags.txt").read_text().splitlines()
    rows = [line.split() for line in lines if not line.startswith("#")]
    return {suffix: (machine, tuple(flags)) for suffix, machine, *flags in rows}


def make_toolchain(
    cc: str | None, flags: Sequence[str], *, simd: bool, messages: bool, jobs: int
) -> Toolchain:
    words = find_compiler(cc)
    done = subprocess.run([*words, "-dumpmachine"], capture_output=True, text=True)
    if done.returncode != 0:
        raise ValueError(
            f"--cc: expected gcc or clang, got {words[0]}, whose option -dumpmachine failed"
        )
    return Toolchain(words, list(flags), simd, messages, done.stdout.strip(), jobs)


@dataclass(frozen=True)
class Costs:
    """Bytes of code and constants."""

    kernels: int
    table: int
    runtime: int

    @property
    def total(self) -> int:
        return self.kernels + self.table + self.runtime


@dataclass
class Result:
    """Result of a build. `own`: bytes that only one operator needs; `reached`: all its bytes."""

    own: dict[str, int]
    reached: dict[str, int]
    costs: Costs
    full: Costs | None
    made: list[Path]
    sources: list[str] = field(default_factory=list)


def all_sources(chain: Toolchain) -> list[str]:
    """Sources of a build, as paths below the source folder, without kernels/op_registry.c."""
    root = source_dir()
    patterns = ["runtime/**/*.c", "kernels/**/*.c", "backends/*.c", "backends/reference/*.c"]
    found = [str(path.relative_to(root)) for p in patterns for path in sorted(root.glob(p))]
    found = [name for name in found if not name.startswith("kernels/example/")]
    if chain.is_bare:
        found = [name for name in found if not name.startswith("runtime/platform_")]
    else:
        found.append(COMMAND_SOURCE)
    kept = [name for name in found if chain.isa_flags(name) is not None]
    return [name for name in kept if name != "kernels/op_registry.c"]


def _is_loops(name: str) -> bool:
    return name.startswith("kernels/micro/eltwise/eltwise_")


def _is_runtime(name: str) -> bool:
    """Whether a source is the runtime's; the library has all, though et_run does not call all."""
    return name.startswith("runtime/")


class Build:
    """Objects of one build, in `folder`/obj."""

    def __init__(self, chain: Toolchain, folder: Path, defines: Sequence[str]) -> None:
        self.chain = chain
        self.folder = folder
        self.defines = list(defines)
        self.special: dict[str, tuple[str, ...]] = {}  # flags of single sources
        self.objects: dict[str, str] = {}

    def flags_of(self, name: str) -> tuple[str, ...]:
        return self.special.get(name) or self.chain.isa_flags(name) or ()

    def compile(self, names: Sequence[str], root: Path) -> None:
        commands = []
        for name in names:
            target = self.folder / "obj" / Path(name).with_suffix(".o")
            target.parent.mkdir(parents=True, exist_ok=True)
            self.objects[name] = str(target)
            common = [*self.chain.cc, *self.chain.all_flags(), *self.flags_of(name), *self.defines]
            where = [f"-I{source_dir()}", f"-I{self.folder}"]
            commands.append([*common, *where, "-c", str(root / name), "-o", str(target)])
        call_all(commands, self.chain.jobs)

    def graph(self, custom: Sequence[CustomSource] = ()) -> Graph:
        """References of all objects, except those from one custom table to the next."""
        graph = Graph()
        for target in self.objects.values():
            add_object(graph, target)
        tables = {source.symbol for source in custom}
        for symbol in tables:
            node = graph.defined[symbol]
            graph.undefined[node] = graph.undefined_in([node]) - tables
        return graph


def runtime_roots(graph: Graph, build: Build) -> list[str]:
    """Entry points of a program: main if it is defined, else the whole public interface."""
    if "main" in graph.defined:
        return ["main"]
    owners = {target for name, target in build.objects.items() if name.startswith("runtime/")}
    return [s for s, node in graph.defined.items() if node[0] in owners and s.startswith("et_")]


def measure(
    graph: Graph, build: Build, table: str, operators: Mapping[str, list[str]]
) -> tuple[dict[str, set[Node]], Costs]:
    """Sections that each operator adds to those of the runtime, and the sums in bytes."""
    table_object = build.objects[table]
    own_table = {node for node in graph.size if node[0] == table_object}
    edges = {node: graph.edges.pop(node, set()) for node in own_table}
    undefined = {node: graph.undefined.pop(node, set()) for node in own_table}
    runtime = graph.reach(runtime_roots(graph, build)) - own_table
    reached = {name: graph.reach(roots) - runtime for name, roots in operators.items()}
    graph.edges.update(edges)
    graph.undefined.update(undefined)
    everything: set[Node] = set().union(*reached.values())
    rows = {node for node in own_table if "eti_use_" not in graph.name[node]}
    return reached, Costs(
        kernels=graph.bytes_of(everything),
        table=graph.bytes_of(rows),
        runtime=graph.bytes_of(runtime),
    )


def _roots(rows: Mapping[str, selection.Row], names: Sequence[str]) -> dict[str, list[str]]:
    return {name: rows[name].functions for name in names}


def build_selected(
    operators: Mapping[str, set[int]],
    rows: Mapping[str, selection.Row],
    origin: Sequence[str],
    folder: Path,
    chain: Toolchain,
    *,
    custom: Sequence[CustomSource] = (),
    compare: bool,
    log: Callable[[str], None],
) -> Result:
    """Compile, measure and link; `folder` then holds sources, a Makefile and the library.

    Figures of a custom file have its label, because all of its operators are one table. `log` is
    called before the long steps.
    """
    names = selection.loop_names(source_dir() / "kernels" / "micro" / "eltwise" / "eltwise.h")
    types = selection.bits(selection.closure(set().union(*operators.values())))
    next_table = custom[0].symbol if custom else None
    started = time.time()
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / TABLE, selected_table(operators, rows, origin, names, next_table))
    build = Build(
        chain, folder, [f"-DET_BUILD_TYPES={types:#x}u", f'-DET_SELECTED_LOOPS="{LOOPS}"']
    )
    roots = _roots(rows, list(operators)) | {source.label: [source.symbol] for source in custom}
    log(f"compiling {len(all_sources(chain)) + len(custom) + 1} C files …")
    graph = _compile_selected(build, names, roots, custom)
    reached, costs = measure(graph, build, TABLE, roots)
    objects = {node[0] for node in _needed(graph, build, roots)}
    linked = [n for n in build.objects if build.objects[n] in objects or _is_runtime(n)]
    made = _link(build, linked)
    _copy_sources(build, linked)
    for name in (TABLE, LOOPS):  # a time before the objects', so that make rebuilds nothing
        os.utime(folder / name, (started, started))
    users = Counter(node for nodes in reached.values() for node in nodes)
    if compare:
        log("compiling them with every operator and type, to compare (not with --no-compare) …")
    return Result(
        own={n: graph.bytes_of(x for x in nodes if users[x] == 1) for n, nodes in reached.items()},
        reached={n: graph.bytes_of(nodes) for n, nodes in reached.items()},
        costs=costs,
        full=full_costs(chain, rows, folder) if compare else None,
        made=made,
        sources=linked,
    )


def _compile_selected(
    build: Build,
    names: Sequence[tuple[str, str]],
    roots: Mapping[str, list[str]],
    custom: Sequence[CustomSource],
) -> Graph:
    """References of all objects. Loops are compiled last: references select the needed ones."""
    sources = all_sources(build.chain)
    header = build.folder / LOOPS
    write_text(header, selection.loops_header(names, set()))
    build.compile([name for name in sources if not _is_loops(name)], source_dir())
    build.compile([TABLE], build.folder)
    custom_sources.copy_sources(custom, build.folder)
    build.special.update(custom_sources.defines(custom))
    build.compile([source.name for source in custom], build.folder)
    graph = build.graph(custom)
    kept = _used_loops(graph, _needed(graph, build, roots), names)
    write_text(header, selection.loops_header(names, kept))
    build.compile([name for name in sources if _is_loops(name)], source_dir())
    return build.graph(custom)


def _needed(graph: Graph, build: Build, roots: Mapping[str, list[str]]) -> set[Node]:
    operators = (symbol for symbols in roots.values() for symbol in symbols)
    return graph.reach([*runtime_roots(graph, build), *operators])


def selected_table(
    operators: Mapping[str, set[int]],
    rows: Mapping[str, selection.Row],
    origin: Sequence[str],
    names: Sequence[tuple[str, str]],
    next_table: str | None,
) -> str:
    text = selection.table_source(operators, rows, origin, LOOPS, next_table)
    return text + "".join(f"ETI_LOOP({kind}, {name})\n" for kind, name in names)


def _used_loops(
    graph: Graph, needed: set[Node], names: Sequence[tuple[str, str]]
) -> set[tuple[str, str]]:
    """Loops that needed descriptions refer to, and loops that a needed file lists as called."""
    objects = {node[0] for node in needed}
    direct = {
        node for node in graph.size if node[0] in objects and "eti_direct_" in graph.name[node]
    }
    undefined = graph.undefined_in(needed | direct)
    return {(kind, name) for kind, name in names if f"eti_use_{kind}_{name}" in undefined}


def full_costs(chain: Toolchain, rows: Mapping[str, selection.Row], folder: Path) -> Costs:
    """Costs of a build with every operator and type."""
    build = Build(chain, folder / "full", [])
    build.compile([*all_sources(chain), "kernels/op_registry.c"], source_dir())
    costs = measure(build.graph(), build, "kernels/op_registry.c", _roots(rows, list(rows)))[1]
    shutil.rmtree(folder / "full")
    return costs


def _link(build: Build, names: Sequence[str]) -> list[Path]:
    """The library, and the command et_run if the target has an operating system."""
    archive = build.folder / LIBRARY
    objects = [build.objects[name] for name in names if name != COMMAND_SOURCE]
    with staged(archive) as library:
        call([*_archiver(build.chain), "rcs", library, *objects])
    if COMMAND_SOURCE not in names:
        return [archive]
    program = build.folder / "et_run"
    inputs = [build.objects[COMMAND_SOURCE], str(archive), "-lm", "-lpthread"]
    with staged(program) as command:
        call([*build.chain.cc, *build.chain.flags, "-Wl,--gc-sections", "-o", command, *inputs])
    return [archive, program]


def _archiver(chain: Toolchain) -> list[str]:
    """The archiver of the same toolchain: arm-none-eabi-gcc has arm-none-eabi-ar."""
    prefix = Path(chain.cc[0]).name.rpartition("gcc")[0]
    named = f"{prefix}ar"
    return [named if shutil.which(named) else "ar"]


def _copy_sources(build: Build, names: Sequence[str]) -> None:
    """Copy sources that the Makefile compiles, and every header; remove those of a build before."""
    root, target = source_dir(), build.folder / "src"
    headers = [str(p.relative_to(root)) for p in sorted(root.rglob("*.h"))]
    sources = [n for n in names if n != TABLE and n not in build.special]
    copied = [n for n in [*sources, *headers] if "/example/" not in n and "/xnnpack/" not in n]
    for name in copied:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        copy_file(root / name, target / name)
    for path in target.rglob("*"):
        if path.is_file() and str(path.relative_to(target)) not in copied:
            path.unlink()
    write_text(build.folder / "Makefile", _makefile(build, names))


def _makefile(build: Build, names: Sequence[str]) -> str:
    chain = build.chain
    objects = " ".join(f"obj/{Path(n).with_suffix('.o')}" for n in names if n != COMMAND_SOURCE)
    special = [
        f"obj/{Path(n).with_suffix('.o')}: CFLAGS += {' '.join(flags)}"
        for n in names
        if (flags := build.flags_of(n))
    ]
    # make copies quotes literally, and the shell removes them
    defines = " ".join(f"'{define}'" for define in build.defines)
    command = (
        ""
        if chain.is_bare
        else f"""\
et_run: obj/{Path(COMMAND_SOURCE).with_suffix(".o")} {LIBRARY}
\t$(CC) $(LDFLAGS) -o $@ $^ -lm -lpthread
"""
    )
    return f"""\
# The runtime with the selected kernels; made by executorch_py build-kernels.
CC = {" ".join(chain.cc)}
CFLAGS = {" ".join(chain.all_flags())}
LDFLAGS = {" ".join(chain.flags)} -Wl,--gc-sections
DEFINES = {defines}
OBJECTS = {objects}

all: {LIBRARY}{"" if chain.is_bare else " et_run"}
{LIBRARY}: $(OBJECTS)
\trm -f $@
\t{" ".join(_archiver(chain))} rcs $@ $^
{command}\
obj/{TABLE[:-2]}.o: {TABLE} {LOOPS}
\t@mkdir -p $(@D)
\t$(CC) $(CFLAGS) $(DEFINES) -Isrc -I. -c $< -o $@
obj/{custom_sources.FOLDER}/%.o: {custom_sources.FOLDER}/%.c
\t@mkdir -p $(@D)
\t$(CC) $(CFLAGS) $(DEFINES) -Isrc -I. -c $< -o $@
obj/%.o: src/%.c {LOOPS}
\t@mkdir -p $(@D)
\t$(CC) $(CFLAGS) $(DEFINES) -Isrc -I. -c $< -o $@
{os.linesep.join(special)}
"""
