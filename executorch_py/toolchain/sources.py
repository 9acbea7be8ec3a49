"""Folder of the runtime's C sources and headers: in the installed package, or beside it in a
checkout. Knows nothing of compilers.
"""

from __future__ import annotations

from pathlib import Path


def source_dir() -> Path:
    """The folder that holds runtime/, kernels/ and backends/; what `-I` needs to be."""
    package = Path(__file__).resolve().parent.parent
    for found in (package / "csrc", package.parent / "csrc"):
        if (found / "runtime" / "et.h").is_file():
            return found
    raise FileNotFoundError(
        f"the C sources of executorch_py are neither in {package / 'csrc'} nor in "
        f"{package.parent / 'csrc'}: install the package again with pip"
    )
