"""Export PyTorch models to .pte files and run those files.

`executorch_py.runtime` runs programs and needs NumPy only; `executorch_py.exir` exports and needs
torch. Importing this package loads neither.
"""

from os import PathLike

__version__ = "0.1.0"


def load_ops(path: str | PathLike[str], *, replace: bool = False) -> list[str]:
    """Load a library of operators (`executorch_py build-ops`); see executorch_py.runtime."""
    from executorch_py.runtime import load_ops as load

    return load(path, replace=replace)


def include_dir() -> str:
    """The folder to compile a file with kernels against (`-I`): `#include "kernels/custom.h"`."""
    from executorch_py.toolchain.sources import source_dir

    return str(source_dir())
