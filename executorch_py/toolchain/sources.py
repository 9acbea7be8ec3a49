"""Folder of the runtime's C sources and headers: in the installed package or in a checkout."""

from __future__ import annotations

from pathlib import Path


def source_dir() -> Path:
    """The folder with runtime/, kernels/ and backends/, for the compiler's option -I."""
    package = Path(__file__).resolve().parent.parent
    for found in (package / "csrc", package.parent / "csrc"):
        if (found / "runtime" / "et.h").is_file():
            return found
    raise FileNotFoundError(
        f"expected the C sources of executorch_py in {package / 'csrc'} or "
        f"{package.parent / 'csrc'}, got neither folder: install the package again with pip"
    )
