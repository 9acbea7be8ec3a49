"""`executorch_py build-ops`: builds a library for `load_ops` from a C file with kernels."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from executorch_py.terminal_text import name_text
from executorch_py.toolchain.op_library import build_ops as build
from executorch_py.toolchain.op_library import example_source
from executorch_py.toolchain.sources import source_dir


def build_ops(options: argparse.Namespace) -> int:
    """Build a library of a user's operators."""
    if options.include:
        print(source_dir())
        return 0
    if options.example:
        print(example_source(), end="")
        return 0
    if not options.sources:
        raise ValueError("expected a C file, got none: name one, or print one with --example")
    output = options.output or str(Path(options.sources[0]).with_suffix(".so"))
    command = build(options.sources, output, compiler=options.cc, flags=options.flag)
    print(shlex.join(command))
    for name in operators_of(output):
        print(f"{output}: {name_text(name)}")
    return 0


def operators_of(path: str) -> list[str]:
    """Names of a library's operators; loading it here proves that it loads."""
    from executorch_py.runtime import load_ops

    return load_ops(path, replace=True)
