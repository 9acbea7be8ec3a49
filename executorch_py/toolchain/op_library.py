"""Build of an operator library for `load_ops` from a user's C file with kernels.

The library contains its own copy of the few runtime functions that kernels call. They have no
state, so the library depends on the C library only, and the same C file can be linked into a
device's program. kernels/custom.h defines the interface.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from executorch_py.atomic_file import staged
from executorch_py.toolchain.compiler import LANGUAGE_FLAGS, call, find_compiler
from executorch_py.toolchain.sources import source_dir

# Sources of the functions that custom.h declares.
_SUPPORT = (
    "kernels/lib/args.c",
    "kernels/lib/shape.c",
    "runtime/arena.c",
    "runtime/dtype.c",
    "runtime/message_text.c",
    "runtime/parallel.c",
    "runtime/status.c",
    "runtime/tensor.c",
    "runtime/value.c",
)


def example_source() -> str:
    """A complete C file with one operator, as an example."""
    return (source_dir() / "kernels" / "example" / "softcap.c").read_text()


def build_command(
    sources: Sequence[str],
    output: str,
    *,
    compiler: str | None = None,
    flags: Sequence[str] = (),
) -> list[str]:
    """The compiler command that builds the library."""
    root = source_dir()
    return [
        *find_compiler(compiler),
        *LANGUAGE_FLAGS,
        "-O3",
        "-Wall",
        "-fPIC",
        "-shared",
        "-fvisibility=hidden",
        "-ffunction-sections",
        "-Wl,--gc-sections",
        f"-I{root}",
        *flags,
        "-o",
        output,
        *sources,
        *(str(root / name) for name in _SUPPORT),
        "-lm",
    ]


def build_ops(
    sources: Sequence[str],
    output: str,
    *,
    compiler: str | None = None,
    flags: Sequence[str] = (),
) -> list[str]:
    """Build a library of operators from C files; returns the compiler command.

    BuildError contains the compiler's output. The file is replaced in one step, so that a process
    that has loaded the old library keeps it.
    """
    missing = [name for name in sources if not Path(name).is_file()]
    if missing:
        raise FileNotFoundError(
            f"no such C file: {', '.join(missing)}; "
            "`executorch_py build-ops --example > my_op.c` writes an example"
        )
    if not output.endswith(".so"):
        raise ValueError(f"output: expected a name that ends in .so, got {output!r}")
    with staged(output) as library:
        call(build_command(sources, library, compiler=compiler, flags=flags))
    return build_command(sources, output, compiler=compiler, flags=flags)
