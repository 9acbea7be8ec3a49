"""Warning classes of upstream's unstable interfaces, so that filters in scripts keep working."""

from typing import Any

from typing_extensions import deprecated

__all__ = ["ExperimentalWarning", "deprecated", "experimental"]


class ExperimentalWarning(DeprecationWarning):
    """An interface that may change; ignored by default, as deprecations are."""


def experimental(message: str, /, *, stacklevel: int = 1) -> Any:
    """Decorator: calling the function, or making the class, warns with ExperimentalWarning."""
    return deprecated(message, category=ExperimentalWarning, stacklevel=stacklevel)
