"""Export PyTorch models to .pte files and run those files.

`executorch_py.runtime` runs programs and needs NumPy only; `executorch_py.exir` exports and needs
torch. Importing this package loads neither.
"""

from os import PathLike
from typing import TYPE_CHECKING, Any

from executorch_py import _path_finder

__version__ = "0.1.0"

_path_finder.install()


def load_ops(path: str | PathLike[str], *, replace: bool = False) -> list[str]:
    """Load a library of operators (`executorch_py build-ops`); see executorch_py.runtime."""
    from executorch_py.runtime import load_ops as load

    return load(path, replace=replace)


def include_dir() -> str:
    """Folder of the C headers, for the compiler's option -I: `#include "kernels/custom.h"`."""
    from executorch_py.toolchain.sources import source_dir

    return str(source_dir())


if not TYPE_CHECKING:  # with it, a type checker would accept any attribute

    def __getattr__(name: str) -> Any:
        """The extension module `_C`; ImportError with build instructions where it was not built."""
        if name != "_C":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        import importlib
        import sys

        try:
            return importlib.import_module("executorch_py._C")
        except ModuleNotFoundError as error:
            version = ".".join(map(str, sys.version_info[:2]))
            raise ImportError(
                f"executorch_py was imported from {__path__[0]}, where its extension module is not "
                f"built for Python {version}: in the folder above, `python setup.py build_ext "
                "--inplace` builds it. To use an installed executorch_py instead, start Python in "
                "another folder."
            ) from error
