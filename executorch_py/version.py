"""The version of this package, at upstream's path."""

from __future__ import annotations

from executorch_py import __version__

# The commit of the sources, which builds of this package do not record.
git_version: str | None = None

__all__ = ["__version__", "git_version"]
