"""`executorch_py build-ops`: a C file with kernels becomes a library that `load_ops` takes."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

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
        raise ValueError("give a C file, or --example to see one")
    output = options.output or str(Path(options.sources[0]).with_suffix(".so"))
    command = build(options.sources, output, compiler=options.cc, flags=options.flag)
    print(shlex.join(command))
    for name in operators_of(output):
        print(f"{output}: {name}")
    return 0


def operators_of(path: str) -> list[str]:
    """Loads the library, which proves that it can be, and says what it brings."""
    from executorch_py.runtime import load_ops

    return load_ops(path, replace=True)
