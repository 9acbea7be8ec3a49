"""`executorch_py build-kernels`: a runtime with the operators and types of given programs only."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from executorch_py import _C
from executorch_py.terminal_text import message_text
from executorch_py.toolchain import selected_build, selection
from executorch_py.toolchain.custom_sources import read_sources
from executorch_py.toolchain.needs import Needs, read_needs
from executorch_py.toolchain.sources import source_dir

# Short names of the element types in the runtime, by ScalarType number.
_TYPES = ["u8", "i8", "i16", "i32", "i64", "f16", "f32", "f64", "c32", "c64", "c128", "b8"]
_TYPES += ["qi8", "qu8", "qi32", "bf16"]


def build_kernels(options: argparse.Namespace) -> int:
    """Build a runtime with the kernels of some programs, and print its code size."""
    chain = selected_build.make_toolchain(
        options.cc,
        options.flag or ["-Os"],
        simd=not options.no_simd,
        messages=not options.no_messages,
        jobs=options.jobs or int(_C.system_info()["cpu_count"]),
    )
    needs = [read_needs(path) for path in options.programs]
    origin = contributions(needs)
    custom = read_sources(options.ops, chain.cc)
    types = selection.merged(needs)
    for need in needs:
        for name in (*options.elsewhere, *(name for c in custom for name in c.operators)):
            need.operators.pop(name, None)
    rows = selection.read_rows(source_dir() / "kernels" / "ops.inc.h")
    selection.check_needs(needs, rows, _C.backend_names())
    operators = selection.merged(needs)
    if not operators and not custom:
        raise ValueError(
            f"expected programs that call operators, got none in {', '.join(options.programs)}: "
            "there is nothing to build"
        )
    if not options.json:
        print(message_text("\n".join(origin)), flush=True)
    result = selected_build.build_selected(
        operators,
        rows,
        origin,
        Path(options.out),
        chain,
        custom=custom,
        compare=not options.no_compare,
        log=lambda text: print(text, file=sys.stderr, flush=True),
    )
    for source in custom:
        used = (types.get(name, set()) for name in source.operators)
        operators[source.label] = set().union(*used)
    if options.json:
        print(json.dumps(facts(operators, result, origin), indent=2))
    else:
        print(message_text("\n".join(["", *report(operators, result, chain)])))
    return 0


def contributions(needs: list[Needs]) -> list[str]:
    """Operators that each file adds to those of the files before it."""
    lines = []
    seen: set[str] = set()
    for need in needs:
        new = sorted(set(need.operators) - seen)
        seen |= set(need.operators)
        types = type_names(set().union(*need.operators.values()) if need.operators else set())
        more = "" if len(new) == len(need.operators) else f", {len(new)} of them new"
        lines.append(f"{need.path}: {len(need.operators)} operators{more}; {types}")
    return lines


def type_names(types: set[int]) -> str:
    """Element types by their short names."""
    return " ".join(_TYPES[t] if t < len(_TYPES) else f"type{t}" for t in sorted(types)) or "-"


def facts(
    operators: dict[str, set[int]], result: selected_build.Result, origin: list[str]
) -> dict[str, Any]:
    """Figures of the build as data."""
    return {
        "programs": origin,
        "operators": {
            name: {"own": result.own[name], "with_shared": result.reached[name]}
            for name in operators
        },
        "selected": vars(result.costs),
        "full": None if result.full is None else vars(result.full),
        "made": [str(path) for path in result.made],
    }


def report(
    operators: dict[str, set[int]],
    result: selected_build.Result,
    chain: selected_build.Toolchain,
) -> list[str]:
    """Figures of the build as text."""
    wide = max(len(name) for name in operators)
    lines = [f"{'bytes':<{wide}} {'alone':>9} {'+ shared':>9}  types"]
    for name in sorted(operators, key=lambda n: -result.reached[n]):
        lines.append(
            f"{name:<{wide}} {result.own[name]:9,} {result.reached[name]:9,}  "
            f"{type_names(operators[name])}"
        )
    lines += ["", f"{'':<12} {'selected':>9}" + (f" {'full':>9}" if result.full else "")]
    for part in ("kernels", "table", "runtime", "total"):
        line = f"{part:<12} {getattr(result.costs, part):9,}"
        if result.full:
            full = getattr(result.full, part)
            line += f" {full:9,}  {100 * getattr(result.costs, part) / full:.0f} %"
        lines.append(line)
    made = " and ".join(str(path) for path in result.made)
    library = result.made[0]
    system = "" if chain.is_bare else " -lm -lpthread"
    # Kept files refer to files that are left out, from functions that are never called.
    link = f"{chain.cc[0]} main.c -I{library.parent / 'src'} {library} -Wl,--gc-sections{system}"
    lines += ["", f"made {made} of {len(result.sources)} C files; `make` there builds again"]
    lines += [f"your own program: {link}    (its table is et_ops_portable, as in runtime/et.h)"]
    return lines
